"""The cost of a month by project, workspace or cluster, GPU type, member or day, with filters; all views add up to
the same lines.

And the intervals behind a row. The member is the person who requested the workspace or cluster. Requires
`billing:view`.
"""

import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any

from django.db.models import F, Q, QuerySet

from billing.holders import DEAREST, HolderRow, rate_holders
from billing.models.rates import SHARED_METERS
from billing.money import MICRO, amount_of, charge_divisor, largest_remainder, minor_places
from billing.months import Span, day_span, month_days, month_of, month_span
from billing.rating import Cell, LineStatus, Slots, rate_usage
from billing.selectors.costs import NO_HOLDER, MonthCosts, cost_scope, currency_in, gpu_seconds_of, total_of
from gpuaas.clusters.models import Cluster
from gpuaas.core import clock
from gpuaas.core.errors import Invalid
from gpuaas.metering.final import intervals_require
from gpuaas.metering.models import UsageInterval
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import Organization, Project

NO_GPU = "none"  # the key of vCPU, memory, storage and tokens
NO_KEY = "idle"  # of what nobody held
Members = dict[tuple[uuid.UUID, uuid.UUID], str]  # by holder and project


class By(StrEnum):
    PROJECT = "project"
    WORKSPACE = "workspace"  # or cluster
    GPU_TYPE = "gpu_type"
    MEMBER = "member"
    DAY = "day"


@dataclass(frozen=True)
class CostFilters:
    """A row has to match all of them; empty ones are ignored. Values are the keys of rows."""

    project: str = ""
    workspace: str = ""
    gpu_type: str = ""
    member: str = ""
    day: date | None = None


@dataclass(frozen=True)
class CostRow:
    """`key` is the value for filters. is_cluster: a row of a cluster among workspaces. quarantined: number of lines
    without a price, which the amount does not contain."""

    key: str
    name: str
    project: str
    amount: Decimal
    gpu_seconds: int
    quarantined: int
    is_cluster: bool = False


@dataclass(frozen=True)
class Breakdown:
    """total, gpu_seconds, count and largest (the highest amount of a row) are of all rows, also of those that `rows` leaves out."""

    by: By
    month: date
    currency: str
    total: Decimal
    gpu_seconds: int
    rows: tuple[CostRow, ...]
    count: int
    largest: Decimal


def cost_breakdown(
    *,
    actor: Actor,
    by: By,
    project: Project | None = None,
    organization: Organization | None = None,
    month: date | None = None,
    filters: CostFilters | None = None,
    now: datetime | None = None,
    most: int | None = None,
    skipped: int = 0,
    costs: MonthCosts | None = None,
    sort: str = "",
) -> Breakdown:
    """The most expensive first, days in their order, or as one of `billing.holders.SORTS` says; `most` rows after the first
    `skipped`. Of one project or one organization; counted up to `now`. costs: of the same month and moment, where they are known.

    Raises Invalid on `day` outside the month.
    """
    moment = now or clock.now()
    first, wanted = (month or month_of(moment)).replace(day=1), filters or CostFilters()
    scope = cost_scope(actor, project, organization)
    _day_require(wanted.day, month_days(first))
    if wanted.project and scope is not None:  # lines are of one project: the others need not be rated
        scope = list(Project.objects.filter(pk__in=scope, slug=wanted.project).values_list("pk", flat=True))
    shown = slice(skipped, None if most is None else skipped + most)
    if by is By.WORKSPACE and wanted == CostFilters(project=wanted.project):
        currency = currency_in((), project, organization)
        return _of_holders(first, currency, moment, scope, shown, sort)
    cells = _cells(by, wanted, first, moment, scope, costs)
    members = _members(cells) if by is By.MEMBER or wanted.member else {}
    matching = (
        cells if wanted == CostFilters() else [cell for cell in cells if _wanted(cell, wanted, members)]
    )
    currency = currency_in(cells, project, organization)
    rows = _ordered(_rows(matching, by, members, currency), by, sort)
    total, largest = total_of(matching, currency), max((row.amount for row in rows), default=Decimal(0))
    gpu_seconds = gpu_seconds_of(matching)
    return Breakdown(by, first, currency, total, gpu_seconds, tuple(rows[shown]), len(rows), largest)


def _cells(
    by: By,
    wanted: CostFilters,
    first: date,
    now: datetime,
    scope: Sequence[uuid.UUID] | None,
    costs: MonthCosts | None,
) -> Sequence[Cell]:
    """Lines where whole ones are asked for, and their days: as on every page. In parts, of which there are as many as workspaces, only
    where workspaces or members are told apart."""
    parts = by in (By.WORKSPACE, By.MEMBER) or bool(wanted.workspace or wanted.member)
    by_day = by is By.DAY or wanted.day is not None
    if costs is not None and not parts and not wanted.project:
        return costs.cells if by_day else costs.statement.lines
    spans = month_days(first) if by_day else [month_span(first)]
    asked: dict[str, Any] = {"now": now, "projects": scope}
    if not (parts and by_day):
        return rate_usage(slots=Slots([first] * len(spans), spans), by_holder=parts, **asked)
    if wanted.day is None:
        # one workspace's is rounded as if there were no others: the parts of all by day are a hundred thousands
        one = [_uuid(wanted.workspace)] if wanted.workspace else None
        return rate_usage(slots=Slots([first] * len(spans), spans), by_holder=True, holders=one, **asked)
    whole = rate_usage(slots=Slots([first] * len(spans), spans), **asked)
    around = _around(wanted.day, month_span(first))
    cells = rate_usage(slots=Slots([first] * len(around), around), by_holder=True, **asked)
    return _shared((cell for cell in whole if cell.slot == wanted.day), cells)


def _shared(lines: Iterable[Cell], cells: Iterable[Cell]) -> list[Cell]:
    """A day's lines, shared out to what held them: they add up to the day, as days add up to their line (rating.md, 5)."""
    parts: dict[Cell, list[Cell]] = {}
    for cell in cells:
        key = replace(_key_of(cell), holder_id=None, holder=None, is_cluster=False)
        parts.setdefault(key, []).append(cell)
    found = []
    for line in lines:
        mine = parts.get(_key_of(line), [])
        if line.amount is None or line.unit_price is None:
            found += mine
            continue
        minor = int(line.amount.scaleb(minor_places(line.currency)))
        micro = int(line.unit_price * MICRO)
        exact = [cell.unit_seconds * micro for cell in mine]
        shares = largest_remainder(exact, charge_divisor(line.currency), minor)
        found += [
            replace(cell, amount=amount_of(share, line.currency))
            for cell, share in zip(mine, shares, strict=True)
        ]
    return found


def _key_of(cell: Cell) -> Cell:
    return replace(cell, unit_seconds=0, amount=None)


def _around(day: date, month: Span) -> list[Span]:
    """The day, and what is before and after it: that nobody asks for by days."""
    span = day_span(day)
    before = replace(month, ends_at=span.starts_at)
    after = replace(month, day=day + timedelta(days=1), starts_at=span.ends_at)
    return [part for part in (before, span, after) if part.starts_at < part.ends_at]


def cost_intervals(
    *,
    actor: Actor,
    project: Project | None = None,
    organization: Organization | None = None,
    month: date,
    filters: CostFilters | None = None,
) -> QuerySet[UsageInterval]:
    """What was metered in a month or on one of its days, newest first; Conflict if it is archived. Idle GPUs are no interval."""
    wanted = filters or CostFilters()
    _day_require(wanted.day, month_days(month))
    span = day_span(wanted.day) if wanted.day else month_span(month)
    rows = UsageInterval.objects.filter(started_at__lt=span.ends_at)
    rows = rows.filter(Q(ended_at__isnull=True) | Q(ended_at__gt=span.starts_at))
    scope = cost_scope(actor, project, organization)
    intervals_require(starts_at=span.starts_at)
    if scope is not None:
        rows = rows.filter(project__in=scope)
    if wanted.project:
        rows = rows.filter(project__slug=wanted.project)
    if wanted.workspace:
        key = _uuid(wanted.workspace)
        rows = rows.filter(Q(workspace=key) | Q(cluster=key))
    if wanted.member:
        rows = rows.filter(_asked_by(wanted.member))
    if wanted.gpu_type == NO_GPU:
        rows = rows.filter(meter__in=SHARED_METERS)
    elif wanted.gpu_type:
        unsold = Q(flavor__isnull=True, resource_name=wanted.gpu_type)
        rows = rows.filter(Q(flavor__pool__gpu_type__slug=wanted.gpu_type) | unsold)
    intervals = rows.select_related(
        "project",
        "flavor",
        "workspace__created_by",
        "cluster__created_by",
        "cluster__warm_pool__created_by",
        "site",
    )
    return intervals.order_by(F("started_at").desc(), "-pk")


def _asked_by(member: str) -> Q:
    """As `_members` says it."""
    room = Q(workspace__created_by__username=member)
    own = Q(cluster__project=F("project"), cluster__created_by__username=member)
    warm = Q(cluster__warm_pool__created_by__username=member) & ~Q(cluster__project=F("project"))
    return room | own | warm


def _day_require(day: date | None, spans: Iterable[Span]) -> None:
    if day is not None and day not in {span.day for span in spans}:
        raise Invalid.field("day", "choose a day of the month shown")


def _members(cells: Iterable[Cell]) -> Members:
    """Who requested each workspace and cluster; for one that others claimed from a warm pool, before that the pool's
    owner. 1 query."""
    wanted = {cell.holder_id for cell in cells if cell.holder_id}
    fields = ("pk", "project", "created_by__username")
    rows = Workspace.objects.filter(pk__in=wanted).order_by().values_list(*fields)
    clusters = Cluster.objects.filter(pk__in=wanted).order_by()
    warm = clusters.filter(warm_pool__isnull=False).values_list(
        "pk", "warm_pool__project", "warm_pool__created_by__username"
    )
    requests = rows.union(warm, clusters.values_list(*fields), all=True)
    return {(key, project): name for key, project, name in requests}


def _wanted(cell: Cell, wanted: CostFilters, members: Members) -> bool:
    pairs = (
        (wanted.project, cell.project),
        (wanted.workspace, str(cell.holder_id) if cell.holder_id else NO_KEY),
        (wanted.gpu_type, _gpu_type(cell)),
        (
            wanted.member,
            members.get((cell.holder_id, cell.project_id), NO_KEY) if cell.holder_id else NO_KEY,
        ),
    )
    return (wanted.day is None or cell.slot == wanted.day) and all(
        not asked or asked == value for asked, value in pairs
    )


def _gpu_type(cell: Cell) -> str:
    """For a type that is not sold, the name by which its site counts it."""
    return NO_GPU if cell.meter in SHARED_METERS else cell.gpu_type or cell.resource


def _key(cell: Cell, by: By, members: Members) -> tuple[str, str, str]:
    """Key, name, and the project if the name alone is ambiguous."""
    if by is By.PROJECT:
        return cell.project, cell.project, ""
    if by is By.DAY:
        return cell.slot.isoformat(), f"{cell.slot:%a} {cell.slot.day} {cell.slot:%b}", ""
    if by is By.GPU_TYPE:
        gpu_type = _gpu_type(cell)
        return gpu_type, "vCPU, memory, storage, tokens" if gpu_type == NO_GPU else gpu_type, ""
    if cell.holder_id is None:
        return NO_KEY, NO_HOLDER, cell.project if by is By.WORKSPACE else ""
    if by is By.WORKSPACE:
        return str(cell.holder_id), cell.holder or "", cell.project
    who = members.get((cell.holder_id, cell.project_id), NO_KEY)
    return who, who, ""


def _rows(cells: Iterable[Cell], by: By, members: Members, currency: str) -> list[CostRow]:
    rows: dict[tuple[str, str, str], list[Cell]] = {}
    for cell in cells:
        rows.setdefault(_key(cell, by, members), []).append(cell)
    return [
        CostRow(
            key=key,
            name=name,
            project=of,
            amount=total_of(found, currency),
            gpu_seconds=gpu_seconds_of(found),
            quarantined=sum(cell.status is LineStatus.QUARANTINED for cell in found),
            is_cluster=by is By.WORKSPACE and found[0].is_cluster,
        )
        for (key, name, of), found in rows.items()
    ]


def _of_holders(
    month: date, currency: str, now: datetime, scope: Sequence[uuid.UUID] | None, shown: slice, sort: str
) -> Breakdown:
    """Where each row is all that a holder cost, which the database adds up, orders and pages: no part of a line is read."""
    asked: dict[str, Any] = {"slots": Slots([month], [month_span(month)]), "now": now, "projects": scope}
    most = None if shown.stop is None else shown.stop - shown.start
    found = rate_holders(**asked, most=most, skipped=shown.start, sort=sort or DEAREST)
    whole = found if found.rows or not shown.start else rate_holders(**asked, most=1)
    nothing = amount_of(0, currency)
    return Breakdown(
        By.WORKSPACE,
        month,
        currency,
        whole.amount + nothing,
        whole.gpu_seconds,
        tuple(_holder_row(row) for row in found.rows),
        whole.count,
        whole.largest,
    )


def _holder_row(row: HolderRow) -> CostRow:
    key = str(row.holder_id) if row.holder_id else NO_KEY
    return CostRow(
        key=key,
        name=row.holder or ("" if row.holder_id else NO_HOLDER),
        project=row.project,
        amount=row.amount,
        gpu_seconds=row.gpu_seconds,
        quarantined=row.quarantined,
        is_cluster=row.is_cluster,
    )


def _ordered(rows: list[CostRow], by: By, sort: str) -> list[CostRow]:
    """What is equal comes by name; days are named by their dates."""

    def name(row: CostRow) -> tuple[str, ...]:
        return (row.key,) if by is By.DAY else (row.name, row.project, row.key)

    keys: dict[str, Callable[[CostRow], Any]] = {
        "name": name,
        "amount": lambda row: row.amount,
        "hours": lambda row: row.gpu_seconds,
    }
    asked = sort or ("name" if by is By.DAY else DEAREST)
    return sorted(sorted(rows, key=name), key=keys[asked.lstrip("-")], reverse=asked.startswith("-"))


def _uuid(text: str) -> uuid.UUID:
    """The nil UUID, which nothing has, for what is none."""
    try:
        return uuid.UUID(text)
    except ValueError:
        return uuid.UUID(int=0)
