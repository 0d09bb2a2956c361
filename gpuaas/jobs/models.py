"""Jobs, their operations and their logs."""

from django.db import models
from django.db.models import Q

from gpuaas.catalog.models import Site
from gpuaas.core.statemachine import TransitionRow
from gpuaas.jobs.states import ENDED, JobState, OperationKind
from gpuaas.lifecycle.models import Inside
from gpuaas.lifecycle.operations import OperationRow, StepRow, open_once
from gpuaas.workspaces.models import Workspace
from tenants.models import Project


class Job(Inside):
    """A program that runs to its end inside what its workspace bought. ready_at: when it first ran.

    waiting: why it does not run yet, in words. holding: it takes what it asks for, from when it left the queue until the site has
    confirmed that nothing of it is left. outcome: how it ended, one of ENDED, known before it is there; cause: of a failure, in
    one word, such as OOMKilled. attempt: the newest one, from 1. again: the job that it repeats.

    tasks: how many run, each of the sizes; at_once: how many of them at the same time, fixed since the order. together: all of
    them start together, and one that fails ends the others. followed: the task whose log a
    reader wants. Of several, `observed` says which run, succeeded and failed (`gpuaas/jobs/seen.py`).
    """

    prefix = "job"

    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="jobs")
    site = models.ForeignKey(Site, on_delete=models.PROTECT, related_name="jobs")
    workspace = models.ForeignKey(Workspace, on_delete=models.PROTECT, related_name="jobs")
    again = models.ForeignKey("self", on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    state = models.CharField(max_length=16, choices=JobState, default=JobState.QUEUED)
    image = models.CharField(max_length=255)
    command = models.JSONField(default=list, blank=True)
    arguments = models.JSONField(default=list, blank=True)
    variables = models.JSONField(default=dict, blank=True)
    volume = models.CharField(max_length=253, blank=True)
    mount = models.CharField(max_length=255, blank=True)
    deadline_seconds = models.PositiveIntegerField(null=True, blank=True)
    retries = models.PositiveSmallIntegerField(default=0)
    tasks = models.PositiveSmallIntegerField(default=1, db_default=1)
    at_once = models.PositiveSmallIntegerField(default=1, db_default=1)
    together = models.BooleanField(default=False, db_default=False)
    followed = models.PositiveSmallIntegerField(null=True, blank=True, editable=False)
    waiting = models.CharField(max_length=300, blank=True)
    holding = models.BooleanField(default=False, editable=False)
    outcome = models.CharField(max_length=16, blank=True, editable=False)
    cause = models.CharField(max_length=40, blank=True)
    exit_code = models.IntegerField(null=True, blank=True)
    attempt = models.PositiveSmallIntegerField(default=0)
    finished_at = models.DateTimeField(null=True, blank=True)

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
            models.Index(fields=["workspace"], condition=Q(holding=True), name="job_holding_idx"),
        ]

    @property
    def takes(self) -> dict[str, int]:
        """Of its workspace, by the fields of an order: what runs at the same time."""
        return {name: each * self.at_once for name, each in self.sizes.items()}


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
