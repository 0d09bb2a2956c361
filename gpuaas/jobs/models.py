"""Jobs, their operations and their logs; and credentials for their files."""

import re
import uuid

from django.db import models
from django.db.models import Q
from django.db.models.functions import Coalesce

from gpuaas.catalog.models import Site
from gpuaas.core.rows import Identified
from gpuaas.core.statemachine import TransitionRow
from gpuaas.jobs.states import ENDED, CredentialKind, JobState, Launcher, OperationKind, Priority
from gpuaas.lifecycle.models import Inside
from gpuaas.lifecycle.operations import OperationRow, StepRow, open_once
from gpuaas.staging.transfers import Way
from gpuaas.workspaces.models import Workspace
from tenants.models import Project, User

RUNTIME_LONGEST = 46  # characters; with `-node-0-199-x2k4p` they are 63
OVER = sorted({*ENDED, JobState.DELETED})  # in which what it ran is kept only for a while


class Job(Inside):
    """A program that runs to its end inside what its workspace bought. ready_at: when it first ran.

    waiting: why it does not run yet, in words. holding: it takes what it asks for, from when it left the queue until the site has
    confirmed that nothing of it is left. outcome: how it ended, one of ENDED, known before it is there; cause: of a failure, in
    one word, such as OOMKilled. attempt: the newest one, from 1. again: the job that it repeats. template: the name of that
    by which it was submitted, as it was then. preempted: by what name the site ended it last for somebody who bought the GPUs that it
    borrows; preempted_at: when that was seen; preemptions: how often. The last two are also those of a guest that had to leave.

    borrow: it may run in another workspace of its project, as a guest, while its own is full. place: that one, from when it leaves
    the queue; null: its own. placed_at: when it came there. lenders: the ids of all that it ever was a guest of. One that has to leave
    is ending without an outcome, and waits in its own queue again.

    tasks: how many run, each of the sizes; at_once: how many of them at the same time, fixed since the order. together: all of
    them start together, and one that fails ends the others. launcher: task 0 alone runs the command, which starts its processes in
    the others; "" where each task runs it. runtime: the name of the training runtime of the site that makes such tasks; "" without one.
    followed: the task whose log a reader wants. Of several, `observed` says which run,
    succeeded and failed (`gpuaas/jobs/seen.py`), and what the site has made of the attempt (`JobSpec.made`).

    inputs, outputs: as `transfers.py` stores them. staging: which of them are still to be moved, a `Way`; it stays where that
    failed. moving: their mover takes MOVER of the workspace, from when it leaves the queue until nothing of it is left. moved: by
    way, how far the mover is (`mover.py`), and whether it is `done`.

    mail: whoever submitted it wants an e-mail when it has ended, which went out at mailed_at (`mails.py`).

    emptied_at: since when command, arguments, variables and logs are not kept any more (`services/retention.py`).
    """

    prefix = "job"

    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="jobs")
    site = models.ForeignKey(Site, on_delete=models.PROTECT, related_name="jobs")
    workspace = models.ForeignKey(Workspace, on_delete=models.PROTECT, related_name="jobs")
    again = models.ForeignKey("self", on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    template = models.CharField(max_length=40, blank=True, default="", db_default="", editable=False)
    state = models.CharField(max_length=16, choices=JobState, default=JobState.QUEUED)
    image = models.CharField(max_length=255)
    command = models.JSONField(default=list, blank=True)
    arguments = models.JSONField(default=list, blank=True)
    variables = models.JSONField(default=dict, blank=True)
    volume = models.CharField(max_length=253, blank=True)
    mount = models.CharField(max_length=255, blank=True)
    deadline_seconds = models.PositiveIntegerField(null=True, blank=True)
    retries = models.PositiveSmallIntegerField(default=0)
    priority = models.CharField(
        max_length=8, choices=Priority, default=Priority.NORMAL, db_default=Priority.NORMAL
    )
    tasks = models.PositiveSmallIntegerField(default=1, db_default=1)
    at_once = models.PositiveSmallIntegerField(default=1, db_default=1)
    together = models.BooleanField(default=False, db_default=False)
    launcher = models.CharField(max_length=8, choices=Launcher, blank=True, default="", db_default="")
    runtime = models.CharField(max_length=253, blank=True, default="", db_default="")
    inputs = models.JSONField(default=list, db_default=[], blank=True)
    outputs = models.JSONField(default=list, db_default=[], blank=True)
    staging = models.CharField(max_length=3, blank=True, db_default="", editable=False)
    moving = models.BooleanField(default=False, db_default=False, editable=False)
    moved = models.JSONField(default=dict, db_default={}, blank=True, editable=False)
    followed = models.PositiveSmallIntegerField(null=True, blank=True, editable=False)
    waiting = models.CharField(max_length=300, blank=True)
    holding = models.BooleanField(default=False, editable=False)
    outcome = models.CharField(max_length=16, blank=True, editable=False)
    cause = models.CharField(max_length=40, blank=True)
    exit_code = models.IntegerField(null=True, blank=True)
    attempt = models.PositiveSmallIntegerField(default=0)
    preempted = models.CharField(max_length=253, blank=True, default="", db_default="", editable=False)
    preempted_at = models.DateTimeField(null=True, blank=True, editable=False)
    preemptions = models.PositiveIntegerField(default=0, db_default=0, editable=False)
    borrow = models.BooleanField(default=False, db_default=False)
    place = models.ForeignKey(
        Workspace,
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        related_name="guests",
        db_index=False,
        editable=False,
    )
    placed_at = models.DateTimeField(null=True, blank=True, editable=False)
    lenders = models.JSONField(default=list, db_default=[], blank=True, editable=False)
    finished_at = models.DateTimeField(null=True, blank=True)
    mail = models.BooleanField(default=False, db_default=False)
    mailed_at = models.DateTimeField(null=True, blank=True, editable=False)
    emptied_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta(Inside.Meta):
        constraints = [
            models.CheckConstraint(condition=Q(state__in=JobState.values), name="job_state_known"),
            models.CheckConstraint(
                condition=Q(outcome__in=["", *sorted(each.value for each in ENDED)]), name="job_outcome_known"
            ),
        ]
        indexes = [
            models.Index(fields=["project", "-id"], name="job_project_idx"),
            models.Index(
                fields=["workspace", "created_at"], condition=Q(state="requested"), name="job_queue_idx"
            ),
            models.Index(
                fields=["workspace", "created_at"],
                condition=Q(state__in=["staging_in", "staging_out"]),
                name="job_staging_idx",
            ),
            models.Index(fields=["workspace"], condition=Q(holding=True), name="job_holding_idx"),
            models.Index(fields=["workspace"], condition=Q(moving=True), name="job_moving_idx"),
            models.Index(fields=["place"], condition=Q(place__isnull=False), name="job_place_idx"),
            models.Index(fields=["finished_at"], condition=Q(mail=True, mailed_at=None), name="job_mail_idx"),
            models.Index(
                Coalesce("finished_at", "deleted_at"),
                condition=Q(state__in=OVER, emptied_at=None),
                name="job_kept_idx",
            ),
        ]

    @property
    def unmoved(self) -> bool:
        """Whether it has run, and its outputs are still to be moved."""
        return bool(self.outputs) and not self.moved.get(Way.OUT, {}).get("done")

    @property
    def external_name(self) -> str:
        """What a runtime makes of it has longer names, which have to fit as names of hosts."""
        return super().external_name[:RUNTIME_LONGEST].rstrip("-") if self.runtime else super().external_name

    @property
    def pods_named(self) -> str:
        """A pattern of the whole names of its pods at any site, by attempt and task; those of a runtime have the name of its only job.
        Those of its movers, which begin as they do, do not fit it."""
        return rf"^{re.escape(self.external_name)}-(node-0-)?([0-9]+-)?[a-z0-9]{{1,5}}$"

    @property
    def runs_in(self) -> Workspace:
        """In whose namespace it is, and of which it takes."""
        return self.place or self.workspace

    @property
    def ran_in(self) -> list[uuid.UUID]:
        """The workspaces in which any of its pods may have been."""
        return [self.workspace_id, *map(uuid.UUID, self.lenders)]

    @property
    def takes(self) -> dict[str, int]:
        """Of the workspace that it runs in, by the fields of an order: what runs at the same time."""
        return {name: each * self.at_once for name, each in self.sizes.items()}


class DataCredential(Identified):
    """With which movers of a project reach an S3 server. secret: the secret access key, sealed. endpoint: the server's URL, "" for
    Amazon's. Jobs name it; one that was deleted and made again under its name counts as the same."""

    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="data_credentials")
    name = models.CharField(max_length=40)
    kind = models.CharField(max_length=16, choices=CredentialKind, default=CredentialKind.S3)
    access_key_id = models.CharField(max_length=128)
    secret = models.TextField(editable=False)
    endpoint = models.CharField(max_length=255, blank=True)
    region = models.CharField(max_length=64, blank=True)
    created_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["project", "name"], name="data_credential_name_once")]

    def __str__(self) -> str:
        return self.name


class JobTemplate(Identified):
    """Values that jobs of a project begin with. order: some of `document.FIELDS` with their values. locked: those fields that an
    order by this template may not change; one of them without a value is as usual."""

    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="job_templates")
    name = models.CharField(max_length=40)
    description = models.CharField(max_length=300, blank=True)
    order = models.JSONField(default=dict, blank=True)
    locked = models.JSONField(default=list, blank=True)
    version = models.PositiveBigIntegerField(default=1, db_default=1)
    created_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["project", "name"], name="job_template_name_once")]

    def __str__(self) -> str:
        return self.name


class JobLog(models.Model):
    """The end of what a job has written, as it was at taken_at; kept when nothing of the job is left at the site."""

    job = models.OneToOneField(Job, on_delete=models.CASCADE, primary_key=True, related_name="log")
    text = models.TextField(blank=True)
    taken_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"log of {self.job_id}"


class TaskLog(models.Model):
    """The same of one of several tasks; LOGS_MOST of a job at most (reconcile.py)."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="task_logs")
    task = models.PositiveSmallIntegerField()
    text = models.TextField(blank=True)
    taken_at = models.DateTimeField()

    class Meta:
        ordering = ["task"]
        constraints = [models.UniqueConstraint(fields=["job", "task"], name="job_task_log_once")]

    def __str__(self) -> str:
        return f"log of task {self.task} of {self.job_id}"


class JobOperation(OperationRow):
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="operations")
    kind = models.CharField(max_length=16, choices=OperationKind)

    class Meta(OperationRow.Meta):
        constraints = [open_once("job", "job_operation_one_open")]


class JobStep(StepRow):
    operation = models.ForeignKey(JobOperation, on_delete=models.CASCADE, related_name="steps")

    class Meta(StepRow.Meta):
        constraints = [
            models.UniqueConstraint(fields=["operation", "key"], name="job_step_once_per_operation")
        ]


class JobTransition(TransitionRow):
    subject = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="transitions")
