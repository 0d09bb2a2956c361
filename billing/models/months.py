"""The close of months, and the usage from which each project was rated."""

from typing import Any

from django.db import models
from django.db.models import Q

from billing.states import CloseState
from gpuaas.core.rows import Identified
from tenants.models import Project


class MonthClose(Identified):
    """A month in the billing time zone, for all organizations. Closed once; the database refuses to change it then.

    accepted: an operator's reason for closing despite gaps, silent meters or quarantined usage. steps: what the close
    did, `[{"name", "rows", "seconds"}]`.
    """

    month = models.DateField(unique=True)
    state = models.CharField(max_length=16, choices=CloseState)
    requested_at = models.DateTimeField()
    requested_by = models.CharField(max_length=150)
    accepted = models.CharField(max_length=500, blank=True)
    refusal = models.CharField(max_length=1000, blank=True)
    closed_at = models.DateTimeField(null=True, blank=True)
    invoices = models.PositiveIntegerField(default=0)
    steps: Any = models.JSONField(default=list)

    class Meta:
        ordering = ["-month"]
        constraints = [
            models.CheckConstraint(condition=Q(state__in=CloseState.values), name="month_close_state_known"),
            models.CheckConstraint(
                condition=Q(state=CloseState.CLOSED) ^ Q(closed_at__isnull=True), name="month_close_has_time"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.month:%Y-%m}"


class CloseProgress(models.Model):
    """Progress of a requested close, for display only.

    In a separate row, because the month's row is locked by the worker until the end, and nobody sees what it writes
    there. done, organizations: 0 of 0 until the worker knows how many. attempts: workers that have started; above 1
    the previous one died.
    """

    close = models.OneToOneField(
        MonthClose, on_delete=models.CASCADE, primary_key=True, related_name="progress"
    )
    attempts = models.PositiveIntegerField(default=0)
    step = models.CharField(max_length=60, blank=True)
    done = models.PositiveIntegerField(default=0)
    organizations = models.PositiveIntegerField(default=0)
    began_at = models.DateTimeField(null=True, blank=True)
    seen_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"{self.done} of {self.organizations}"


class RatedUsage(models.Model):
    """A fingerprint of the usage and prices from which a project's closed month was last rated. If it differs, the
    month is rated again."""

    id = models.BigAutoField(primary_key=True)
    month = models.DateField()
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="+")
    fingerprint = models.CharField(max_length=100, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["month", "project"], name="rated_usage_once")]

    def __str__(self) -> str:
        return f"{self.project_id} in {self.month:%Y-%m}"


class MovedUsage(models.Model):
    """Seconds that usage of a final month has and the shares of its invoices have not, when it became final.

    They moved between holders or days while their line stayed the same, so no invoice says so. Added up by line 0.
    """

    id = models.BigAutoField(primary_key=True)
    month = models.DateField()
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="+")
    holder = models.UUIDField(null=True)
    day = models.DateField()
    flavor_key = models.UUIDField(null=True)
    resource = models.CharField(max_length=150, blank=True)
    meter = models.CharField(max_length=32)
    price_class = models.CharField(max_length=16)
    status = models.CharField(max_length=16)
    unit_price_micro = models.PositiveBigIntegerField(null=True)
    surplus = models.BooleanField()
    unit_seconds = models.BigIntegerField()

    class Meta:
        indexes = [models.Index(fields=["month", "project"], name="moved_usage_idx")]

    def __str__(self) -> str:
        return f"{self.unit_seconds} of {self.meter} on {self.day}"
