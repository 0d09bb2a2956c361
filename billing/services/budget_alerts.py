"""Applies budgets: the effects of thresholds that are reached, and their end.

One pass reads all budgets; each one that has changed is then applied in a transaction of its own, under the lock of
its row. A reading of an older version, or older than the last one applied, does nothing.
"""

import uuid
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from django.db import transaction
from django.db.models import Q, QuerySet

from billing.models import BLOCKING, Budget, BudgetAction, BudgetAlert
from billing.readings import Reading, budgets_read
from billing.selectors.budgets import amount_shown, scope_words, units_of
from gpuaas.clusters.lease import awake as clusters_awake
from gpuaas.clusters.models import Cluster
from gpuaas.clusters.services import cluster_suspend
from gpuaas.clusters.services.rows import CLUSTER
from gpuaas.core import clock
from gpuaas.core.events import OPERATORS_GROUP, project_group, publish
from gpuaas.lifecycle.enforce import BATCH, enforce, in_turn
from gpuaas.workspaces.lease import awake
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services import workspace_suspend
from gpuaas.workspaces.services.rows import WORKSPACE
from quotas.holds import HoldScope, hold_lift, hold_set
from tenants.actors import SYSTEM
from tenants.audit import audit_record
from tenants.models import Project

Key = tuple[date, int, str]


@dataclass(frozen=True)
class Reached:
    """A threshold that the reading has reached, or (percent 0) an unusual day."""

    first: date
    percent: int
    action: str
    message: str

    @property
    def key(self) -> Key:
        return self.first, self.percent, self.action


def budgets_evaluate(*, now: datetime) -> int:
    """Compares all current budgets with the usage until `now`; returns how many changed. A bounded number of queries,
    and some for each change."""
    rows = list(
        Budget.objects.filter(ended_at__isnull=True)
        .select_related("organization", "project", "workspace", "cluster")
        .prefetch_related("thresholds", "alerts")
    )
    readings, units = budgets_read(rows, now=now), units_of(rows)
    changed = 0
    for row in rows:
        reading = readings.get(row.pk)
        wanted = {one.key for one in reached(row, reading, units[row.pk])}
        if wanted != {_key(alert) for alert in row.alerts.all() if alert.lifted_at is None}:
            changed += alerts_apply(budget=row, reading=reading, now=now)
    return changed


@transaction.atomic
def alerts_apply(*, budget: Budget, reading: Reading | None, now: datetime) -> bool:
    """Fires thresholds newly reached, lifts those no longer reached, and sets or removes the hold. False if the
    reading is outdated."""
    row = (
        Budget.objects.select_for_update(of=("self",), no_key=True)
        .select_related("organization", "project", "workspace", "cluster")
        .filter(pk=budget.pk, version=budget.version, ended_at__isnull=True)
        .first()
    )
    if row is None or (row.checked_at is not None and row.checked_at >= now):
        return False
    Budget.objects.filter(pk=row.pk).update(checked_at=now)
    wanted = {one.key: one for one in reached(row, reading, units_of([row])[row.pk])}
    standing = {_key(alert): alert for alert in row.alerts.filter(lifted_at__isnull=True)}
    _lift([alert for key, alert in standing.items() if key not in wanted], now)
    for key, one in wanted.items():
        if key not in standing:
            _fire(row, reading, one, now)
        elif standing[key].amount != row.amount:
            row.alerts.filter(pk=standing[key].pk).update(amount=row.amount, message=one.message)
    _announce(row)
    _hold(row, list(wanted.values()))
    return True


def alerts_lift(*, budget: Budget, now: datetime) -> None:
    """Lifts all alerts: the budget ends."""
    _lift(list(budget.alerts.filter(lifted_at__isnull=True)), now)
    _hold(budget, [])
    _announce(budget)


def budgets_enforce() -> int:
    """Suspends what is active in the scope of budgets that require it; returns how many. What cannot be suspended now
    is told, and tried again."""
    asked, now = 0, clock.now()
    alerts = BudgetAlert.objects.filter(
        action=BudgetAction.SUSPEND, lifted_at__isnull=True, budget__ended_at__isnull=True
    )
    for alert in alerts.select_related("budget"):
        reason = f"the budget {alert.budget.name} is spent"
        for workspace in in_turn(_awake(alert.budget, now), now)[:BATCH]:
            asked += enforce(WORKSPACE, workspace, workspace_suspend, reason, now=now) is None
        for cluster in in_turn(_clusters_awake(alert.budget, now), now)[:BATCH]:
            asked += enforce(CLUSTER, cluster, cluster_suspend, reason, now=now) is None
    return asked


def _awake(budget: Budget, now: datetime) -> QuerySet[Workspace]:
    return Workspace.objects.filter(_scope(budget, budget.workspace_id), awake(now)).select_related("project")


def _clusters_awake(budget: Budget, now: datetime) -> QuerySet[Cluster]:
    return Cluster.objects.filter(_scope(budget, budget.cluster_id), clusters_awake(now)).select_related(
        "project"
    )


def _scope(budget: Budget, own: uuid.UUID | None) -> Q:
    """own: the one workspace, or the one cluster, that the budget counts."""
    if budget.holder_id is not None:
        return Q(pk=own) if own is not None else Q(pk__in=[])
    if budget.project_id is not None:
        return Q(project_id=budget.project_id)
    return Q(project__organization_id=budget.organization_id)


def reached(budget: Budget, reading: Reading | None, unit: str) -> list[Reached]:
    """In the order of the percentages; the unusual day last."""
    if reading is None:
        return []
    alerts = [
        Reached(reading.period.first, one.percent, one.action, _words(reading, one.percent, one.action, unit))
        for one in budget.thresholds.all()
        if reading.reached(one.percent)
    ]
    if reading.anomaly is not None:
        odd = reading.anomaly
        spent = f"{amount_shown(budget, odd.spent, unit):,} {unit}"
        usual = f"{amount_shown(budget, odd.usual, unit):,}"
        message = (
            f"{odd.times}× the usual day in {scope_words(budget)}: {spent} on {odd.day:%Y-%m-%d}, "
            f"usually {usual}. Check what runs there."
        )
        alerts.append(Reached(odd.day, 0, BudgetAction.NOTIFY, message))
    return alerts


def _words(reading: Reading, percent: int, action: str, unit: str) -> str:
    budget = reading.budget
    again = reading.period.last + timedelta(days=1)
    spent = f"{amount_shown(budget, reading.spent, unit):,} of {amount_shown(budget, budget.amount, unit):,} {unit}"
    text = (
        f"The budget {budget.name} of {scope_words(budget)} has reached {percent}%: {spent} are spent in "
        f"{reading.period.words}."
    )
    if action == BudgetAction.NOTIFY:
        return f"{text} This stops nothing."
    what = (
        "New requests are refused"
        if action == BudgetAction.BLOCK
        else "Workspaces and clusters are suspended and new requests are refused"
    )
    return (
        f"{text} {what} until {again:%Y-%m-%d}. Ask the person who set the budget to raise it, or "
        "wait until then."
    )


def _key(alert: BudgetAlert) -> Key:
    return alert.period_start, alert.percent, alert.action


def _fire(budget: Budget, reading: Reading | None, one: Reached, now: datetime) -> None:
    alert = BudgetAlert.objects.create(
        budget=budget,
        period_start=one.first,
        percent=one.percent,
        action=one.action,
        message=one.message,
        spent=reading.spent if reading else 0,
        amount=budget.amount,
        created_at=now,
    )
    _audit(alert, "budget.unusual_day" if one.percent == 0 else "budget.reached")


def _lift(alerts: list[BudgetAlert], now: datetime) -> None:
    BudgetAlert.objects.filter(pk__in=[alert.pk for alert in alerts]).update(lifted_at=now)
    for alert in alerts:
        _audit(alert, "budget.lifted")


def _audit(alert: BudgetAlert, action: str) -> None:
    audit_record(
        actor=SYSTEM,
        action=action,
        target=alert.budget,
        project=alert.budget.project,
        organization=alert.budget.organization,
        after={"percent": alert.percent, "action": alert.action, "message": alert.message},
    )


def _hold(budget: Budget, wanted: list[Reached]) -> None:
    """Call it last in its transaction: it waits for running reservations in the organization."""
    source = f"budget:{budget.pk}"
    stop = next((one for one in wanted if one.action in BLOCKING), None)
    if stop is None:
        hold_lift(source=source)
        return
    scope = HoldScope(budget.organization_id, budget.project_id, budget.holder_id)
    hold_set(source=source, scope=scope, reason=stop.message)


def _announce(budget: Budget) -> None:
    projects = [budget.project_id]
    if budget.project_id is None:
        rows = Project.objects.filter(organization_id=budget.organization_id).order_by()
        projects = list(rows.values_list("pk", flat=True))
    groups = tuple(project_group(pk) for pk in projects)
    publish(kind="budget", id=budget.pk, groups=(*groups, OPERATORS_GROUP))
