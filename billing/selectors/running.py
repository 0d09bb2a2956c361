"""The cost per hour of what runs now, and the expected rest of a month. Every page and the API use this.

Requires `billing:view`, as in costs.py.
"""

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from billing.money import amount_of, price_of, round_half_up
from billing.months import month_days, month_of, month_span
from billing.rating import LineStatus
from billing.running import (
    CLUSTER,
    IDLE,
    WORKSPACE,
    Ahead,
    OpenLine,
    coming,
    coming_minor,
    going,
    open_lines,
)
from billing.selectors.costs import cost_scope, currency_in, currency_of
from billing.selectors.days import NAMED
from gpuaas.clusters.models import Cluster, WarmPool
from gpuaas.clusters.waiting import WAITING
from gpuaas.core import clock
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import Organization, Project
from tenants.selectors import platform_require


@dataclass(frozen=True)
class Running:
    """Per hour, exact: what runs in workspaces and in clusters, and the idle GPUs of reserved pools."""

    workspaces: Decimal
    clusters: Decimal
    idle: Decimal

    @property
    def total(self) -> Decimal:
        return self.workspaces + self.clusters + self.idle


@dataclass(frozen=True)
class HolderRate:
    """The present cost per hour of one workspace or cluster, exact. complete: False if a part of it has no price."""

    per_hour: Decimal
    complete: bool
    lines: tuple[OpenLine, ...] = ()

    @property
    def known(self) -> Decimal | None:
        """None if everything that it holds lacks a price."""
        return self.per_hour if self.complete or self.per_hour else None


@dataclass(frozen=True)
class Earning:
    """Of one currency: per hour now, and the rest of the current month. projects: how many of them cost something."""

    per_hour: Decimal
    rest: Decimal
    projects: int


NOTHING_RUNS = HolderRate(Decimal("0.00"), complete=True)


def running_and_rest(
    *,
    actor: Actor,
    project: Project | None = None,
    organization: Organization | None = None,
    now: datetime | None = None,
) -> tuple[Running, Decimal]:
    """Of one project or organization what runs now, whose total is `burn_per_hour`; and what it will cost to the end of the current
    month, rounded once for each project."""
    moment = now or clock.now()
    scope = cost_scope(actor, project, organization)
    rows = going(now=moment, until=_month(moment).ends_at, projects=scope)
    sums = dict.fromkeys((WORKSPACE, CLUSTER, IDLE), 0)
    for row in rows:
        sums[row.kind] += row.per_hour_micro
    running = Running(*(price_of(sums[kind]) for kind in (WORKSPACE, CLUSTER, IDLE)))
    return running, amount_of(coming_minor(rows), currency_in((), project, organization))


def running_now(**asked: Any) -> Running:
    """As `running_and_rest`."""
    return running_and_rest(**asked)[0]


def rest_of_month(**asked: Any) -> Decimal:
    """As `running_and_rest`."""
    return running_and_rest(**asked)[1]


def rates_of(
    *, actor: Actor, holders: Iterable[uuid.UUID], project: Project | None = None, now: datetime | None = None
) -> dict[uuid.UUID, HolderRate]:
    """By workspace or cluster: of a project, or (operators, auditors) of any. One that runs nothing has a rate of
    zero."""
    wanted = list(holders)
    scope = cost_scope(actor, project, None)
    found: dict[uuid.UUID, list[OpenLine]] = {key: [] for key in wanted}
    if wanted:
        for line in open_lines(now=now or clock.now(), projects=scope, holders=wanted, by_holder=True):
            if line.holder_id is not None:
                found[line.holder_id].append(line)
    return {key: _rate(lines) for key, lines in found.items()}


def warm_pool_rate(*, actor: Actor, pool: WarmPool, now: datetime | None = None) -> HolderRate:
    """The present cost per hour of a warm pool's ready clusters to its project."""
    platform_require(actor=actor)
    waiting = list(Cluster.objects.filter(WAITING, warm_pool=pool).values_list("pk", flat=True))
    rates = rates_of(actor=actor, holders=waiting, project=pool.project, now=now)
    return _rate([line for rate in rates.values() for line in rate.lines])


def _rate(lines: Sequence[OpenLine]) -> HolderRate:
    return HolderRate(
        price_of(sum(line.per_hour_micro for line in lines)),
        complete=all(line.status is not LineStatus.QUARANTINED for line in lines),
        lines=tuple(lines),
    )


# -- what is still to come ------------------------------------------------------------------------------------------


def rest_of_lease(*, actor: Actor, holder: Workspace | Cluster, now: datetime | None = None) -> Decimal:
    """The cost of what runs in it from now to the end of its lease."""
    moment = now or clock.now()
    scope = cost_scope(actor, holder.project, None)
    stretch = Ahead(moment, holder.lease_ends_at)
    rows = coming(now=moment, projects=scope, stretches=[stretch], holders=[holder.pk])
    return amount_of(coming_minor(rows), currency_of(holder.project.organization_id))


def rest_by_day(
    *, actor: Actor, project: Project, month: date, now: datetime | None = None
) -> dict[tuple[str, uuid.UUID | None], dict[date, Decimal]]:
    """Future days of the current month by (kind, holder), for the most expensive ones; the others together have kind
    "".

    The rest of today is not included.
    """
    moment = now or clock.now()
    days = [span for span in month_days(month) if span.starts_at > moment]
    scope = cost_scope(actor, project, None)
    stretches = [Ahead(span.starts_at, span.ends_at) for span in days]
    currency = currency_of(project.organization_id)
    found: dict[tuple[str, uuid.UUID | None], dict[date, Decimal]] = {}
    for row in coming(now=moment, projects=scope, stretches=stretches, most=NAMED):
        amount = amount_of(round_half_up(row.numerator, row.divisor), currency)
        if amount:
            found.setdefault((row.kind, row.holder_id), {})[days[row.slot].day] = amount
    return found


def earning_now(*, actor: Actor, now: datetime | None = None) -> dict[str, Earning]:
    """All of the platform, by currency; for operators and auditors."""
    platform_require(actor=actor)
    moment = now or clock.now()
    lines = [line for line in open_lines(now=moment, projects=None) if line.per_hour_micro]
    rows = coming(now=moment, projects=None, stretches=[_month(moment)])
    earning = {}
    for name in sorted({line.currency for line in lines} | {row.currency for row in rows}):
        mine = [line for line in lines if line.currency == name]
        earning[name] = Earning(
            per_hour=price_of(sum(line.per_hour_micro for line in mine)),
            rest=amount_of(coming_minor(row for row in rows if row.currency == name), name),
            projects=len({line.project_id for line in mine}),
        )
    return earning


def _month(now: datetime) -> Ahead:
    return Ahead(now, month_span(month_of(now)).ends_at)
