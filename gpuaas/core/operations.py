"""Operations and their steps: what was asked of something at a site, and how far it is. Columns that every room's share."""

from django.db import models

from gpuaas.core.ids import uuid7
from gpuaas.core.looks import Tone
from gpuaas.core.statemachine import Look


class StepState(models.TextChoices):
    WAITING = "waiting", "Waiting"
    RUNNING = "running", "Running"
    DONE = "done", "Done"
    FAILED = "failed", "Failed"


_LIFE = {
    "requested": (Tone.WAIT, "clock"),
    "ready": (Tone.OK, "check"),
    "suspended": (Tone.OFF, "player-pause"),
    "failed": (Tone.BAD, "alert"),
    "deleted": (Tone.OFF, "minus"),
}


def life_look(state: models.TextChoices) -> Look:
    """Of whatever is provisioned: a state that is none of those in which it stays is a change under way."""
    return Look(str(state.label), *_LIFE.get(str(state.value), (Tone.BUSY, "loader")))


STEP_LOOKS: dict[StepState, Look] = {
    StepState.WAITING: Look("Waiting", Tone.WAIT, "clock"),
    StepState.RUNNING: Look("Running", Tone.BUSY, "loader"),
    StepState.DONE: Look("Done", Tone.OK, "check"),
    StepState.FAILED: Look("Failed", Tone.BAD, "alert"),
}

ADMISSION = (
    "admission"  # key of the step that was done before the site is asked: limits checked, amounts reserved
)


class OperationRow(models.Model):
    """The concrete model adds the thing it is about and its kinds; one open operation a thing, by a constraint."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    requested_by = models.CharField(max_length=150)
    requested_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True, blank=True)
    succeeded = models.BooleanField(null=True)
    summary = models.CharField(max_length=200, blank=True)

    class Meta:
        abstract = True


class StepRow(models.Model):
    """`detail` says in words what was seen or what is waited for; the concrete model adds `operation`."""

    position = models.PositiveSmallIntegerField()
    key = models.CharField(max_length=32)
    label = models.CharField(max_length=100)
    state = models.CharField(max_length=16, choices=StepState, default=StepState.WAITING)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    attempts = models.PositiveIntegerField(default=0)
    refusals = models.PositiveIntegerField(default=0)  # of the attempts, those that trying again may not help
    detail = models.CharField(max_length=500, blank=True)

    class Meta:
        abstract = True
        ordering = ["position"]

    def __str__(self) -> str:
        return self.label
