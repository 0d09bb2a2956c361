"""The closing of months, and by what usage each was rated."""

from typing import Any

from django.db import models
from django.db.models import Q

from billing.states import CloseState
from gpuaas.core.ids import uuid7
from tenants.models import Project


class MonthClose(models.Model):
    """A month of the billing time zone for all organizations. Closed once; the database refuses to change it then.

    accepted: an operator's word for closing in spite of gaps, meters that have not reported, or quarantined usage.
    steps: what the closing did, `[{"name", "rows", "seconds"}]`.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
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
    """How far the closing of a requested month has come; told to people, decides nothing.

    A row of its own: the month's row is locked by the worker until all is written, and what it writes there nobody sees.
    done, organizations: 0 of 0 until the worker knows how many. attempts: workers that have begun; above 1 the one before died.
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
    """A fingerprint of what a project's closed month was last rated from: usage and prices. Another one: rate it again."""

    id = models.BigAutoField(primary_key=True)
    month = models.DateField()
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="+")
    fingerprint = models.CharField(max_length=100, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["month", "project"], name="rated_usage_once")]

    def __str__(self) -> str:
        return f"{self.project_id} in {self.month:%Y-%m}"
