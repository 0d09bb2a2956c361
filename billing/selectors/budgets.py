"""Reads of budgets: their terms, their state, and their alerts."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.db.models import Prefetch, Q, QuerySet

from billing.models import Budget, BudgetAction, BudgetAlert, Measure
from billing.money import HOUR, amount_of, round_half_up
from billing.readings import Reading, budgets_read
from billing.selectors.accounts import currencies_of
from gpuaas.core import clock
from gpuaas.core.rows import first_of
from tenants.actors import Actor
from tenants.models import Organization, Project
from tenants.roles import Permission
from tenants.selectors import organization_require, platform_require, project_require

CENT = Decimal("0.01")


@dataclass(frozen=True)
class BudgetState:
    """A budget with where it stands. `reading` is None out of its fixed period. unit: a currency, or `GPU-hours`."""

    budget: Budget
    reading: Reading | None
    alerts: tuple[BudgetAlert, ...]
    unit: str

    @property
    def amount(self) -> Decimal:
        return amount_shown(self.budget, self.budget.amount, self.unit)

    @property
    def spent(self) -> Decimal | None:
        return None if self.reading is None else amount_shown(self.budget, self.reading.spent, self.unit)

    @property
    def forecast(self) -> Decimal | None:
        return None if self.reading is None else amount_shown(self.budget, self.reading.forecast, self.unit)

    @property
    def blocks(self) -> bool:
        return any(alert.action != BudgetAction.NOTIFY for alert in self.alerts)


def budgets_for(
    *, actor: Actor, organization: Organization | None = None, project: Project | None = None
) -> QuerySet[Budget]:
    """Current budgets: of one project, its workspaces and clusters; of an organization and everything below it; of all, for
    operators."""
    rows = _rows().filter(ended_at__isnull=True)
    if project is not None:
        project_require(actor=actor, project=project, permission=Permission.BILLING_VIEW)
        return rows.filter(project=project)
    if organization is not None:
        organization_require(actor=actor, organization=organization, permission=Permission.BILLING_VIEW)
        return rows.filter(organization=organization)
    platform_require(actor=actor)
    return rows


def budget_get_for(
    *, actor: Actor, budget_id: uuid.UUID, permission: Permission = Permission.BILLING_VIEW
) -> Budget:
    row = first_of(_rows().filter(pk=budget_id, ended_at__isnull=True), "budget")
    budget_require(actor=actor, budget=row, permission=permission)
    return row


def budget_require(*, actor: Actor, budget: Budget, permission: Permission) -> None:
    """Of a project: those who may there. Of an organization: those who may there."""
    if budget.project is not None:
        project_require(actor=actor, project=budget.project, permission=permission)
    else:
        organization_require(actor=actor, organization=budget.organization, permission=permission)


def budget_states(*, budgets: Sequence[Budget], now: datetime | None = None) -> list[BudgetState]:
    """Their states, in their order; a bounded number of queries. The caller has already checked access to the
    budgets."""
    readings = budgets_read(budgets, now=now or clock.now(), anomalies=False)
    units = units_of(budgets)
    return [
        BudgetState(
            budget=row,
            reading=readings.get(row.pk),
            alerts=tuple(alert for alert in row.alerts.all() if alert.lifted_at is None),
            unit=units[row.pk],
        )
        for row in budgets
    ]


def budget_alerts_on(*, actor: Actor, project: Project) -> list[BudgetAlert]:
    """Alerts of the project and its organization in force now, the strictest first."""
    project_require(actor=actor, project=project, permission=Permission.BILLING_VIEW)
    rows = BudgetAlert.objects.filter(
        Q(budget__project__isnull=True) | Q(budget__project=project),
        budget__organization_id=project.organization_id,
        budget__ended_at__isnull=True,
        lifted_at__isnull=True,
    )
    order = [BudgetAction.SUSPEND, BudgetAction.BLOCK, BudgetAction.NOTIFY]
    alerts = list(rows.select_related("budget__project", "budget__workspace", "budget__cluster"))
    return sorted(alerts, key=lambda row: order.index(BudgetAction(row.action)))


def units_of(budgets: Sequence[Budget]) -> dict[uuid.UUID, str]:
    """What each counts: the currency of its organization, or GPU-hours."""
    currencies = currencies_of(organizations={row.organization_id for row in budgets})
    return {
        row.pk: currencies[row.organization_id] if row.measure == Measure.MONEY else "GPU-hours"
        for row in budgets
    }


def amount_shown(budget: Budget, value: int, unit: str) -> Decimal:
    """Minor units as money, exact; GPU-seconds as hours to two places, half up as everywhere."""
    if budget.measure == Measure.MONEY:
        return amount_of(value, unit)
    return round_half_up(value * 100, HOUR) * CENT


def scope_words(budget: Budget) -> str:
    if budget.workspace is not None:
        return f"workspace {budget.workspace.name}"
    if budget.cluster is not None:
        return f"cluster {budget.cluster.name}"
    if budget.project is not None:
        return f"project {budget.project.slug}"
    return f"organization {budget.organization.slug}"


def _rows() -> QuerySet[Budget]:
    standing = BudgetAlert.objects.filter(lifted_at__isnull=True)
    return Budget.objects.select_related(
        "organization", "project__organization", "workspace", "cluster"
    ).prefetch_related("thresholds", Prefetch("alerts", standing))
