"""The expected rest of budgets: what runs now, until the end of each budget's period (running.py)."""

import uuid
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from billing.models import Budget, Measure
from billing.periods import BudgetPeriod
from billing.running import Ahead, Coming, coming, coming_minor
from billing.tariffs import Tariff
from tenants.models import Project

ALL = 1_000_000  # holders told apart: every one

Owners = dict[uuid.UUID, uuid.UUID]  # of projects, the organization of each
Periods = Sequence[tuple[Budget, BudgetPeriod]]


def budgets_rest(periods: Periods, *, now: datetime, owners: Owners, tariff: Tariff) -> dict[uuid.UUID, int]:
    """By budget, in its measure: minor units or GPU-seconds. owners, tariff: of all their projects, from `now` to the
    last end of a period. At most 4 queries."""
    ends = sorted({period.span.ends_at for _, period in periods})
    stretches = [Ahead(now, end) for end in ends]
    wide = [row for row, _ in periods if row.holder_id is None]
    narrow = [row for row, _ in periods if row.holder_id is not None]
    asked: dict[str, Any] = {"now": now, "stretches": stretches, "tariff": tariff}
    of_projects = coming(projects=counted_by(wide, owners), **asked) if wide else []
    holders = [row.holder_id for row in narrow if row.holder_id is not None]
    of_holders = (
        coming(projects=counted_by(narrow, owners), holders=holders, most=ALL, **asked) if holders else []
    )
    amounts = {}
    for row, period in periods:
        slot = ends.index(period.span.ends_at)
        if row.holder_id is not None:
            mine = [one for one in of_holders if one.holder_id == row.holder_id]
        elif row.project_id is not None:
            mine = [one for one in of_projects if one.project_id == row.project_id]
        else:
            mine = [one for one in of_projects if owners[one.project_id] == row.organization_id]
        amounts[row.pk] = _counted(row, [one for one in mine if one.slot == slot])
    return amounts


def owners_of(budgets: Iterable[Budget]) -> Owners:
    """Projects that any of the budgets counts, each with its organization."""
    rows = list(budgets)
    organizations = {row.organization_id for row in rows if row.project_id is None}
    named = {row.project_id: row.organization_id for row in rows if row.project_id is not None}
    below = (
        Project.objects.filter(organization__in=organizations).order_by().values_list("pk", "organization_id")
    )
    return {**named, **dict(below)}


def counted_by(budgets: Sequence[Budget], owners: Owners) -> list[uuid.UUID]:
    """Those of the projects that one of the budgets counts."""
    named = {row.project_id for row in budgets if row.project_id is not None}
    whole = {row.organization_id for row in budgets if row.project_id is None}
    return [project for project, owner in owners.items() if project in named or owner in whole]


def _counted(budget: Budget, rows: Sequence[Coming]) -> int:
    if budget.measure == Measure.MONEY:
        return coming_minor(rows)
    return sum(row.gpu_seconds for row in rows)
