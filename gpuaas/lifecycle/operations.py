"""Operations and their steps: what was requested, and its progress. Columns that both rooms share."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Self

from django.db import models
from django.db.models import Q

from gpuaas.core.rows import Identified
from gpuaas.providers.base import StepSpec


class StepState(models.TextChoices):
    WAITING = "waiting", "Waiting"
    RUNNING = "running", "Running"
    DONE = "done", "Done"
    FAILED = "failed", "Failed"


ADMISSION = "admission"  # the step done before the site is asked: limits checked, amounts reserved
ADMISSION_STEP = StepSpec(ADMISSION, "Check the limits and reserve")


class OperationRow(Identified):
    """The concrete model adds its subject and its kinds; a constraint allows one open operation per subject.

    One that is finished and has no `succeeded` was overtaken by another change: `summary` says by which.
    """

    steps: Any

    requested_by = models.CharField(max_length=150)
    requested_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True, blank=True)
    succeeded = models.BooleanField(null=True)
    summary = models.CharField(max_length=200, blank=True)

    class Meta:
        abstract = True
        ordering = ["-pk"]

    def __str__(self) -> str:
        return f"operation requested by {self.requested_by}"


def open_once(subject: str, name: str) -> models.UniqueConstraint:
    return models.UniqueConstraint(fields=[subject], condition=Q(finished_at__isnull=True), name=name)


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

    @classmethod
    def of(cls, steps: Sequence[StepSpec]) -> list[Self]:
        """Rows of what a driver has named, unsaved."""
        return [cls(key=step.key, label=step.label) for step in steps]


def steps_write(operation: OperationRow, steps: Iterable[StepSpec], *, admission: str, now: datetime) -> None:
    """In their order. `admission`: what was reserved; then the first step is the admission's, and already done."""
    model: type[StepRow] = operation.steps.model
    rows = model.of([ADMISSION_STEP, *steps] if admission else list(steps))
    for position, row in enumerate(rows):
        row.operation, row.position = operation, position  # type: ignore[attr-defined]
    if admission:
        first = rows[0]
        first.state, first.started_at, first.finished_at = StepState.DONE, now, now
        first.attempts, first.detail = 1, admission[:500]
    model._default_manager.bulk_create(rows)
