"""Operations and their steps: what was requested, and its progress. Columns that both rooms share."""

from collections.abc import Sequence
from datetime import datetime
from typing import TypeVar

from django.db import models

from gpuaas.core.looks import Tone
from gpuaas.core.rows import Identified
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
    """For every kind: a state other than the stable ones means that a change is running."""
    return Look(str(state.label), *_LIFE.get(str(state.value), (Tone.BUSY, "loader")))


ADMISSION = (
    "admission"  # key of the step that was done before the site is asked: limits checked, amounts reserved
)


class OperationRow(Identified):
    """The concrete model adds its subject and its kinds; a constraint allows one open operation per subject."""

    requested_by = models.CharField(max_length=150)
    requested_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True, blank=True)
    succeeded = models.BooleanField(null=True)
    summary = models.CharField(max_length=200, blank=True)

    class Meta:
        abstract = True


class StepRow(models.Model):
    """`detail` says in words what was observed or what it waits for; the concrete model adds `operation`."""

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


StepT = TypeVar("StepT", bound=StepRow)


def steps_write(rows: Sequence[StepT], *, admission: str, now: datetime) -> None:
    """In their order. `admission`: what was reserved; then the first step is the admission's, and already done."""
    for position, row in enumerate(rows):
        row.position = position
    if admission:
        first = rows[0]
        first.state, first.started_at, first.finished_at = StepState.DONE, now, now
        first.attempts, first.detail = 1, admission[:500]
    if rows:
        type(rows[0])._default_manager.bulk_create(rows)
