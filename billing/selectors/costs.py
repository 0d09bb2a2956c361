"""Costs: statements, and views of a month that add up to its lines. See rating.md.

Requires `billing:view` on the project or organization; an outsider gets NotFound.
"""

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from django.conf import settings

from billing.holders import DEAREST, rate_holders
from billing.models import BillingAccount
from billing.money import amount_of, price_of
from billing.months import Span, month_days, month_of, month_span, months_between
from billing.rating import ADDED_MOST, Cell, LineStatus, Slots, rate_usage
from billing.running import burn_micro
from gpuaas.clusters.models import Cluster
from gpuaas.core import clock
from gpuaas.core.errors import Forbidden, NotFound
from gpuaas.metering.models import Meter
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import Organization, Project
from tenants.roles import Permission
from tenants.selectors import platform_require, project_require, projects_for

NO_HOLDER = "idle in a reserved pool"


@dataclass(frozen=True)
class Statement:
    """The lines of one month; total = the sum of their amounts. `running`: counted up to as_of, more will follow.

    quarantined lines have no amount: no price is set. For lines in several currencies (the whole platform) `total`
    counts those in `currency`; `totals` has all.
    """

    currency: str
    month: date
    span: Span
    as_of: datetime
    running: bool
    lines: tuple[Cell, ...]
    total: Decimal

    @property
    def quarantined(self) -> tuple[Cell, ...]:
        return tuple(line for line in self.lines if line.status is LineStatus.QUARANTINED)

    @property
    def totals(self) -> dict[str, Decimal]:
        """By currency, the statement's own one first."""
        sums = {self.currency: self.total}
        for name in sorted({line.currency for line in self.lines} - {self.currency}):
            sums[name] = total_of(self.lines, name)
        return sums

    @property
    def gpu_seconds(self) -> int:
        """GPU-seconds held; a slice counts as its part of a card."""
        return gpu_seconds_of(self.lines)


@dataclass(frozen=True)
class DayCost:
    day: date
    project_id: uuid.UUID
    project: str
    amount: Decimal
    gpu_seconds: int


@dataclass(frozen=True)
class HolderCost:
    """Of a workspace, or (is_cluster) a cluster. holder_id None: not held, named in `holder`, such as idle GPUs."""

    holder_id: uuid.UUID | None
    holder: str
    is_cluster: bool
    project_id: uuid.UUID
    project: str
    amount: Decimal
    gpu_seconds: int

    @property
    def kind(self) -> str:
        """`workspace`, `cluster`, or `idle` where nobody held it."""
        if self.holder_id is None:
            return "idle"
        return "cluster" if self.is_cluster else "workspace"


@dataclass(frozen=True)
class ProjectRevenue:
    project_id: uuid.UUID
    project: str
    organization: str
    amount: Decimal
    gpu_seconds: int
    quarantined_seconds: int
    per_hour: Decimal
    currency: str


def currency_of(organization_id: uuid.UUID) -> str:
    """The currency in which an organization is charged: its account's, or the portal's if it has none."""
    currency = (
        BillingAccount.objects.filter(organization_id=organization_id)
        .values_list("currency", flat=True)
        .first()
    )
    return currency or settings.CURRENCY


def statement(
    *,
    actor: Actor,
    project: Project | None = None,
    organization: Organization | None = None,
    month: date | None = None,
    now: datetime | None = None,
) -> Statement:
    """A month of one project, of an organization, or (neither given) of everything that the actor may see.

    `month` is any day of it; default the current one, counted up to `now`.
    """
    moment = clock.whole_second(now or clock.now())
    span = month_span(month or month_of(moment))
    scope = cost_scope(actor, project, organization)
    lines = rate_usage(slots=Slots([span.day], [span]), now=moment, projects=scope)
    return _statement(lines, span, moment, currency_in(lines, project, organization))


def _statement(lines: Sequence[Cell], span: Span, now: datetime, currency: str) -> Statement:
    return Statement(
        currency=currency,
        month=span.day,
        span=span,
        as_of=min(now, span.ends_at),
        running=now < span.ends_at,
        lines=tuple(lines),
        total=total_of(lines, currency),
    )


@dataclass(frozen=True)
class MonthCosts:
    """A statement, and its lines by day (`cells`): rated once for whoever shows both."""

    statement: Statement
    cells: tuple[Cell, ...]

    @property
    def days(self) -> list[DayCost]:
        """Day × project; adds up to the statement exactly."""
        rows: dict[tuple[date, uuid.UUID], list[Cell]] = {}
        for cell in sorted(self.cells, key=lambda cell: cell.slot):
            rows.setdefault((cell.slot, cell.project_id), []).append(cell)
        return [
            DayCost(day, key, found[0].project, total_of(found, found[0].currency), gpu_seconds_of(found))
            for (day, key), found in rows.items()
        ]


def month_costs(
    *,
    actor: Actor,
    project: Project | None = None,
    organization: Organization | None = None,
    month: date | None = None,
    now: datetime | None = None,
) -> MonthCosts:
    """As `statement`, with its days, which are those of the billing time zone."""
    moment = clock.whole_second(now or clock.now())
    first = (month or month_of(moment)).replace(day=1)
    days = month_days(first)
    scope = cost_scope(actor, project, organization)
    cells = rate_usage(slots=Slots([first] * len(days), days), now=moment, projects=scope)
    lines = _lines(cells)
    currency = currency_in(lines, project, organization)
    return MonthCosts(_statement(lines, month_span(first), moment, currency), tuple(cells))


def _lines(cells: Iterable[Cell]) -> list[Cell]:
    """The lines of a month, in their order, of which these are the days: the days of a line differ in nothing else."""
    found: dict[Cell, list[Cell]] = {}
    for cell in cells:
        line = replace(cell, slot=cell.month, unit_seconds=0, amount=None)
        found.setdefault(line, []).append(cell)
    return [
        replace(
            line,
            unit_seconds=sum(cell.unit_seconds for cell in days),
            amount=None
            if days[0].amount is None
            else sum((cell.amount or Decimal(0) for cell in days), Decimal(0)),
        )
        for line, days in found.items()
    ]


def burn_per_hour(
    *,
    actor: Actor,
    project: Project | None = None,
    organization: Organization | None = None,
    holder: Workspace | Cluster | None = None,
    now: datetime | None = None,
) -> Decimal:
    """The cost per hour of everything held and used now, exact; of one workspace or cluster, if it is given."""
    scope = cost_scope(actor, holder.project if holder else project, organization)
    holders = [holder.pk] if holder else None
    burn = burn_micro(now=now or clock.now(), projects=scope, holders=holders)
    return price_of(sum(burn.values()))


def cost_by_day(
    *,
    actor: Actor,
    project: Project | None = None,
    organization: Organization | None = None,
    month: date | None = None,
    now: datetime | None = None,
) -> list[DayCost]:
    """Day × project of a month, days of the billing time zone; adds up to the statement exactly."""
    return month_costs(actor=actor, project=project, organization=organization, month=month, now=now).days


def cost_by_holder(
    *,
    actor: Actor,
    project: Project | None = None,
    organization: Organization | None = None,
    month: date | None = None,
    now: datetime | None = None,
    holders: Sequence[uuid.UUID] | None = None,
    dearest: int = 0,
) -> list[HolderCost]:
    """Workspaces and clusters of a month, most expensive first; adds up to the statement. `holders`, `dearest`: only these."""
    moment = now or clock.now()
    scope = cost_scope(actor, project, organization)
    return _by_holder([month or month_of(moment)], moment, scope, wanted=holders, dearest=dearest)[0]


def cost_by_holder_page(
    *,
    actor: Actor,
    project: Project | None = None,
    organization: Organization | None = None,
    month: date | None = None,
    now: datetime | None = None,
    most: int | None,
    skipped: int = 0,
    sort: str = DEAREST,
) -> tuple[list[HolderCost], int]:
    """`most` after the first `skipped`, the most expensive first or as one of `billing.holders.SORTS` says; and how many there are,
    if the page is not empty."""
    moment = now or clock.now()
    scope = cost_scope(actor, project, organization)
    return _by_holder([month or month_of(moment)], moment, scope, most=most, skipped=skipped, sort=sort)


def holder_cost(*, actor: Actor, holder: Workspace | Cluster, now: datetime | None = None) -> Decimal:
    """The cost of a workspace or cluster from its first second until now: its shares of the lines of all its months."""
    moment = now or clock.now()
    project_require(actor=actor, project=holder.project, permission=Permission.BILLING_VIEW)
    last = min(moment, holder.deleted_at + ADDED_MOST if holder.deleted_at else moment)
    months = months_between(holder.created_at, max(last, holder.created_at))
    rows, _ = _by_holder(months, moment, [holder.project_id], wanted=[holder.pk])
    nothing = amount_of(0, currency_of(holder.project.organization_id))
    return next((row.amount for row in rows if row.holder_id == holder.pk), nothing)


def revenue_by_project(
    *, actor: Actor, month: date | None = None, now: datetime | None = None
) -> list[ProjectRevenue]:
    """For operators and auditors: every project with usage in the month, greatest first."""
    platform_require(actor=actor)
    moment = now or clock.now()
    span = month_span(month or month_of(moment))
    cells = rate_usage(slots=Slots([span.day], [span]), now=moment, projects=None)
    burn = burn_micro(now=moment, projects=None) if moment < span.ends_at else {}
    rows: dict[uuid.UUID, list[Cell]] = {}
    for cell in cells:
        rows.setdefault(cell.project_id, []).append(cell)
    organizations = dict(
        Project.objects.filter(pk__in=rows).order_by().values_list("pk", "organization__slug")
    )
    made = [
        ProjectRevenue(
            project_id=key,
            project=found[0].project,
            organization=organizations[key],
            amount=total_of(found, found[0].currency),
            gpu_seconds=gpu_seconds_of(found),
            quarantined_seconds=sum(
                cell.unit_seconds for cell in found if cell.status is LineStatus.QUARANTINED
            ),
            per_hour=price_of(burn.get(key, 0)),
            currency=found[0].currency,
        )
        for key, found in rows.items()
    ]
    return sorted(made, key=lambda row: (-row.amount, row.project))


def _by_holder(
    months: Sequence[date],
    now: datetime,
    scope: Sequence[uuid.UUID] | None,
    *,
    wanted: Sequence[uuid.UUID] | None = None,
    dearest: int = 0,
    most: int | None = None,
    skipped: int = 0,
    sort: str = DEAREST,
) -> tuple[list[HolderCost], int]:
    spans = [month_span(month) for month in months]
    slots = Slots([span.day for span in spans], spans)
    asked: dict[str, Any] = {
        "wanted": wanted,
        "dearest": dearest,
        "most": most,
        "skipped": skipped,
        "sort": sort,
    }
    found = rate_holders(slots=slots, now=now, projects=scope, **asked)
    made = [
        HolderCost(
            holder_id=row.holder_id,
            holder=row.holder or NO_HOLDER,
            is_cluster=row.is_cluster,
            project_id=row.project_id,
            project=row.project,
            amount=row.amount,
            gpu_seconds=row.gpu_seconds,
        )
        for row in found.rows
    ]
    return made, found.count


def cost_scope(
    actor: Actor, project: Project | None, organization: Organization | None
) -> list[uuid.UUID] | None:
    """Ids of the projects in question; None = the whole platform."""
    if project is not None:
        project_require(actor=actor, project=project, permission=Permission.BILLING_VIEW)
        return [project.pk]
    if organization is not None:
        held = actor.on_organization(organization.pk)
        if not held:
            raise NotFound("there is no such organization")
        if Permission.BILLING_VIEW not in held:
            raise Forbidden("your role in this organization does not allow you to see its costs")
        return list(organization.projects.order_by().values_list("pk", flat=True))
    if Permission.BILLING_VIEW in actor.on_platform():
        return None
    rows = projects_for(actor=actor, permission=Permission.BILLING_VIEW)
    return list(rows.order_by().values_list("pk", flat=True))


def currency_in(lines: Sequence[Cell], project: Project | None, organization: Organization | None) -> str:
    """Of one project or organization its own, named by its lines; of the whole platform the portal's."""
    asked = project.organization_id if project else organization.pk if organization else None
    if asked is None:
        return settings.CURRENCY
    return lines[0].currency if lines else currency_of(asked)


def total_of(cells: Iterable[Cell], currency: str) -> Decimal:
    amounts = (cell.amount for cell in cells if cell.amount is not None and cell.currency == currency)
    return sum(amounts, amount_of(0, currency))


def gpu_seconds_of(cells: Iterable[Cell]) -> int:
    """Of cards: a slice or a share counts as the part of a card that it is now. Rounded half up to the second."""
    held = (cell.unit_seconds * cell.card_share for cell in cells if cell.meter is Meter.GPU_HELD)
    return int(sum(held, Decimal(0)).quantize(Decimal(1), ROUND_HALF_UP))
