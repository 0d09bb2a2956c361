"""Jobs, their operations and their logs."""

from datetime import datetime

from django.db import models
from django.db.models import Q

from gpuaas.catalog.models import GpuPool, Site
from gpuaas.core.ids import short
from gpuaas.core.statemachine import TransitionRow
from gpuaas.jobs.states import ENDED, JobState, OperationKind
from gpuaas.lifecycle.models import Provisioned
from gpuaas.lifecycle.operations import OperationRow, StepRow, open_once
from gpuaas.workspaces.models import Workspace
from tenants.models import Project, User


class Job(Provisioned):
    """A program that runs to its end inside what its workspace bought. project and site are the workspace's; ready_at: when it
    first ran.

    pool: of its GPUs, null without any. waiting: why it does not run yet, in words. holding: it takes what it asks for, from when
    it left the queue until the site has confirmed that nothing of it is left. outcome: how it ended, one of ENDED, known before
    it is there; cause: of a failure, in one word, such as OOMKilled; failure: in a sentence. attempt: the newest one, from 1.
    again: the job that it repeats.
    """

    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="jobs")
    site = models.ForeignKey(Site, on_delete=models.PROTECT, related_name="jobs")
    workspace = models.ForeignKey(Workspace, on_delete=models.PROTECT, related_name="jobs")
    again = models.ForeignKey("self", on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    name = models.CharField(max_length=40)
    state = models.CharField(max_length=16, choices=JobState, default=JobState.QUEUED)
    image = models.CharField(max_length=255)
    command = models.JSONField(default=list, blank=True)
    arguments = models.JSONField(default=list, blank=True)
    variables = models.JSONField(default=dict, blank=True)
    pool = models.ForeignKey(GpuPool, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    gpus = models.PositiveIntegerField(default=0)
    vcpus = models.PositiveIntegerField()
    memory_gib = models.PositiveIntegerField()
    volume = models.CharField(max_length=253, blank=True)
    mount = models.CharField(max_length=255, blank=True)
    deadline_seconds = models.PositiveIntegerField(null=True, blank=True)
    retries = models.PositiveSmallIntegerField(default=0)
    created_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    waiting = models.CharField(max_length=300, blank=True)
    holding = models.BooleanField(default=False, editable=False)
    outcome = models.CharField(max_length=16, blank=True, editable=False)
    cause = models.CharField(max_length=40, blank=True)
    failure = models.CharField(max_length=500, blank=True)
    exit_code = models.IntegerField(null=True, blank=True)
    attempt = models.PositiveSmallIntegerField(default=0)
    finished_at = models.DateTimeField(null=True, blank=True)
    # what a lease of its own would need
    deleted_after = enforce_at = None

    class Meta(Provisioned.Meta):
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
            models.Index(fields=["workspace"], condition=Q(holding=True), name="job_holding_idx"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def sizes(self) -> dict[str, int]:
        """What it takes of its workspace, by the fields of an order."""
        return {"gpus": self.gpus, "vcpus": self.vcpus, "memory_gib": self.memory_gib}

    @property
    def lease_ends_at(self) -> datetime:  # type: ignore[override]
        """It has no lease of its own."""
        return self.workspace.lease_ends_at

    @property
    def external_name(self) -> str:
        """Of its objects at the site, made only from our id and name, so that a lost answer is found again."""
        return f"job-{short(self.id)}-{self.name}"


class JobLog(models.Model):
    """The end of what a job has written, as it was at taken_at; kept when nothing of the job is left at the site."""

    job = models.OneToOneField(Job, on_delete=models.CASCADE, primary_key=True, related_name="log")
    text = models.TextField(blank=True)
    taken_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"log of {self.job_id}"


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
