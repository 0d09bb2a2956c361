"""Budgets: the most money or GPU-hours in a period, what happens at thresholds, and what has happened."""

import uuid

from django.db import models
from django.db.models import F, Q

from gpuaas.clusters.models import Cluster
from gpuaas.core.rows import Identified
from gpuaas.workspaces.models import Workspace
from tenants.models import Organization, Project


class Measure(models.TextChoices):
    """What is counted: minor units of the organization's currency, or GPU-seconds held."""

    MONEY = "money", "Money"
    GPU_HOURS = "gpu_hours", "GPU-hours"


class Period(models.TextChoices):
    """Periods in the billing time zone; each starts from zero. A fixed period runs once, from its first to its last
    day."""

    MONTH = "month", "Every month"
    QUARTER = "quarter", "Every quarter"
    FIXED = "fixed", "Fixed period"


class BudgetAction(models.TextChoices):
    """The effect of a threshold. Suspending also blocks, because what is suspended could be requested again."""

    NOTIFY = "notify", "Notify"
    BLOCK = "block", "Block new requests"
    SUSPEND = "suspend", "Suspend workspaces and clusters"


BLOCKING = (BudgetAction.BLOCK, BudgetAction.SUSPEND)


class Level(models.TextChoices):
    """Who set the budget, and so who may change it: a project cannot raise what its organization has set for it."""

    PROJECT = "project", "Project"
    ORGANIZATION = "organization", "Organization"
    PLATFORM = "platform", "Platform"


class Budget(Identified):
    """`amount` in minor units of money or in GPU-seconds. Scope: the organization, or `project`, or a `workspace` or
    `cluster` of it.

    `checked_at`: the time of the newest reading that was applied; older ones that arrive late are ignored.
    """

    organization = models.ForeignKey(Organization, on_delete=models.PROTECT, related_name="budgets")
    project = models.ForeignKey(
        Project, on_delete=models.PROTECT, related_name="budgets", null=True, blank=True
    )
    workspace = models.ForeignKey(
        Workspace, on_delete=models.PROTECT, related_name="budgets", null=True, blank=True
    )
    cluster = models.ForeignKey(
        Cluster, on_delete=models.PROTECT, related_name="budgets", null=True, blank=True, db_index=False
    )
    name = models.CharField(max_length=60)
    measure = models.CharField(max_length=16, choices=Measure)
    amount = models.PositiveBigIntegerField()
    period = models.CharField(max_length=16, choices=Period)
    starts_on = models.DateField(null=True, blank=True)  # of a fixed period
    ends_on = models.DateField(null=True, blank=True)  # its last day
    level = models.CharField(max_length=16, choices=Level)
    version = models.PositiveBigIntegerField(default=1)
    checked_at = models.DateTimeField(null=True, blank=True)
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)  # removed by a person; kept for its history

    class Meta:
        ordering = ["name", "pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["organization", "name"], condition=Q(ended_at__isnull=True), name="budget_name_once"
            ),
            models.CheckConstraint(condition=Q(amount__gt=0), name="budget_is_positive"),
            models.CheckConstraint(
                condition=Q(workspace__isnull=True) | Q(project__isnull=False),
                name="budget_of_workspace_has_project",
            ),
            models.CheckConstraint(
                condition=Q(cluster__isnull=True) | Q(project__isnull=False, workspace__isnull=True),
                name="budget_of_cluster_has_project",
            ),
            models.CheckConstraint(
                condition=Q(period="fixed", starts_on__isnull=False, ends_on__gte=F("starts_on"))
                | (~Q(period="fixed") & Q(starts_on__isnull=True, ends_on__isnull=True)),
                name="budget_fixed_has_days",
            ),
        ]
        indexes = [
            models.Index(
                fields=["organization"], condition=Q(ended_at__isnull=True), name="budget_in_force_idx"
            )
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def holder_id(self) -> uuid.UUID | None:
        """The workspace or cluster that it counts alone."""
        return self.workspace_id or self.cluster_id


class BudgetThreshold(models.Model):
    """The effect at this percentage of the amount, once in each period."""

    budget = models.ForeignKey(Budget, on_delete=models.CASCADE, related_name="thresholds")
    percent = models.PositiveIntegerField()
    action = models.CharField(max_length=16, choices=BudgetAction)

    class Meta:
        ordering = ["percent"]
        constraints = [
            models.UniqueConstraint(fields=["budget", "percent"], name="budget_threshold_once"),
            models.CheckConstraint(
                condition=Q(percent__gte=1, percent__lte=1000), name="budget_threshold_percent"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.percent}% of {self.budget}: {self.action}"


class BudgetAlert(Identified):
    """A threshold that was reached in the period that started on `period_start`, or an unusual day (percent 0).

    In force until `lifted_at`: the amount was raised, usage was corrected, or the period or the budget ended.
    """

    budget = models.ForeignKey(Budget, on_delete=models.CASCADE, related_name="alerts")
    period_start = models.DateField()
    percent = models.PositiveIntegerField()
    action = models.CharField(max_length=16, choices=BudgetAction)
    message = models.CharField(max_length=500)
    spent = models.BigIntegerField()  # as the budget counts, when it was reached
    amount = models.BigIntegerField()
    created_at = models.DateTimeField()
    lifted_at = models.DateTimeField(null=True, blank=True)
    mailed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["budget", "period_start", "percent"],
                condition=Q(lifted_at__isnull=True),
                name="budget_alert_once",
            )
        ]
        indexes = [
            models.Index(fields=["budget"], condition=Q(lifted_at__isnull=True), name="budget_alert_open_idx")
        ]

    def __str__(self) -> str:
        return self.message
