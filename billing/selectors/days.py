"""A month by day and by workspace or cluster, for the most expensive ones; the others together are the rest of each
day."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from billing.holders import rate_holder_days
from billing.months import month_days
from billing.rating import Slots
from billing.selectors.costs import DayCost, HolderCost, cost_by_holder_page
from tenants.actors import Actor
from tenants.models import Project

NAMED = 20  # holders that a chart tells apart

Spent = dict[date, Decimal]


@dataclass(frozen=True)
class HolderDays:
    """holder_id None: what nobody held, as idle GPUs of a reserved pool."""

    holder_id: uuid.UUID | None
    holder: str | None
    is_cluster: bool
    days: Spent = field(default_factory=dict)


@dataclass(frozen=True)
class MonthDays:
    """All of it together is the month's days, to the cent and day by day."""

    holders: tuple[HolderDays, ...]
    others: Spent


def cost_by_holder_day(
    *,
    actor: Actor,
    project: Project,
    month: date,
    now: datetime,
    days: Sequence[DayCost],
    dearest: Sequence[HolderCost] | None = None,
) -> MonthDays:
    """A bounded number of queries and rows, however many workspaces there are. days: those of the project, of the same moment
    (`month_costs`); `dearest` if they are already known."""
    given: dict[str, Any] = {"actor": actor, "project": project, "month": month, "now": now}
    left: Spent = {row.day: row.amount for row in days}
    top = cost_by_holder_page(**given, most=NAMED)[0] if dearest is None else dearest[:NAMED]
    rows = {row.holder_id: HolderDays(row.holder_id, row.holder, row.is_cluster) for row in top}
    spans = month_days(month)
    costs = rate_holder_days(
        slots=Slots([month] * len(spans), spans),
        now=now,
        project_id=project.pk,
        holders=[key for key in rows if key is not None],
    )
    for (key, day), amount in costs.items():
        if key in rows:
            rows[key].days[day] = amount
            left[day] -= amount
    spent = tuple(row for row in rows.values() if row.days)
    return MonthDays(spent, {day: amount for day, amount in left.items() if amount})
