"""What a month cost by project, workspace or cluster, GPU type, member or day, with filters; each view adds up to the same lines.

And the intervals that a row is made of. A member is who asked for the workspace or cluster. Who asks sees what `billing:view` shows.
"""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum

from django.db.models import F, Q, QuerySet

from billing.models.rates import SHARED_METERS
from billing.months import Span, day_span, month_days, month_of, month_span
from billing.rating import Cell, LineStatus, Slots, rate_usage
from billing.selectors.costs import NO_WORKSPACE, cost_scope, currency_in, gpu_seconds_of, total_of
from gpuaas.clusters.models import Cluster
from gpuaas.core import clock
from gpuaas.core.errors import Invalid
from gpuaas.metering.models import UsageInterval
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import Organization, Project

NO_GPU = "none"  # the key of vCPU, memory and storage
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
    """All of them hold together; empty ones take nothing away. Values are the keys of rows."""

    project: str = ""
    workspace: str = ""
    gpu_type: str = ""
    member: str = ""
    day: date | None = None


@dataclass(frozen=True)
class CostRow:
    """`key` is what filters take. is_cluster: a row of a cluster among workspaces. quarantined: lines without a price, of which the amount knows nothing."""

    key: str
    name: str
    project: str
    amount: Decimal
    gpu_seconds: int
    quarantined: int
    is_cluster: bool = False


@dataclass(frozen=True)
class Breakdown:
    by: By
    month: date
    currency: str
    total: Decimal
    gpu_seconds: int
    rows: tuple[CostRow, ...]


def cost_breakdown(
    *,
    actor: Actor,
    by: By,
    project: Project | None = None,
    organization: Organization | None = None,
    month: date | None = None,
    filters: CostFilters | None = None,
    now: datetime | None = None,
) -> Breakdown:
    """The dearest first, days in their order. Of one project or one organization; counted up to `now`.

    Raises Invalid on `day` for one of another month.
    """
    moment = now or clock.now()
    first, wanted = (month or month_of(moment)).replace(day=1), filters or CostFilters()
    scope = cost_scope(actor, project, organization)
    spans = month_days(first) if by is By.DAY or wanted.day else [month_span(first)]
    _day_require(wanted.day, spans)
    cells = rate_usage(
        slots=Slots([first] * len(spans), spans), now=moment, projects=scope, by_workspace=True
    )
    members = _members(cells)
    kept = [cell for cell in cells if _wanted(cell, wanted, members)]
    currency = currency_in(cells, project, organization)
    rows = _ordered(_rows(kept, by, members, currency), by)
    return Breakdown(by, first, currency, total_of(kept, currency), gpu_seconds_of(kept), tuple(rows))


def cost_intervals(
    *,
    actor: Actor,
    project: Project | None = None,
    organization: Organization | None = None,
    month: date,
    filters: CostFilters | None = None,
) -> QuerySet[UsageInterval]:
    """What was metered in a month or on one day of it, newest first. Idle GPUs of a reserved pool are no interval."""
    wanted = filters or CostFilters()
    span = month_span(month)
    _day_require(wanted.day, month_days(month))
    if wanted.day:
        span = day_span(wanted.day)
    rows = UsageInterval.objects.filter(started_at__lt=span.ends_at)
    rows = rows.filter(Q(ended_at__isnull=True) | Q(ended_at__gt=span.starts_at))
    scope = cost_scope(actor, project, organization)
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
    found = rows.select_related(
        "project",
        "flavor",
        "workspace__created_by",
        "cluster__created_by",
        "cluster__warm_pool__created_by",
        "site",
    )
    return found.order_by(F("started_at").desc(), "-pk")


def _asked_by(member: str) -> Q:
    """As `_members` says it."""
    room = Q(workspace__created_by__username=member)
    own = Q(cluster__project=F("project"), cluster__created_by__username=member)
    warm = Q(cluster__warm_pool__created_by__username=member) & ~Q(cluster__project=F("project"))
    return room | own | warm


def _day_require(day: date | None, spans: Iterable[Span]) -> None:
    if day is not None and day not in {span.day for span in spans}:
        raise Invalid.field("day", "choose a day of the month that is shown")


def _members(cells: Iterable[Cell]) -> Members:
    """Who asked for each workspace and cluster; of one that waited in a warm pool before others claimed it, who keeps the pool. 1 query."""
    wanted = {cell.workspace_id for cell in cells if cell.workspace_id}
    fields = ("pk", "project", "created_by__username")
    rows = Workspace.objects.filter(pk__in=wanted).order_by().values_list(*fields)
    clusters = Cluster.objects.filter(pk__in=wanted).order_by()
    warm = clusters.filter(warm_pool__isnull=False).values_list(
        "pk", "warm_pool__project", "warm_pool__created_by__username"
    )
    found = rows.union(warm, clusters.values_list(*fields), all=True)
    return {(key, project): name for key, project, name in found}


def _wanted(cell: Cell, wanted: CostFilters, members: Members) -> bool:
    pairs = (
        (wanted.project, cell.project),
        (wanted.workspace, str(cell.workspace_id) if cell.workspace_id else NO_KEY),
        (wanted.gpu_type, _gpu_type(cell)),
        (
            wanted.member,
            members.get((cell.workspace_id, cell.project_id), NO_KEY) if cell.workspace_id else NO_KEY,
        ),
    )
    return (wanted.day is None or cell.slot == wanted.day) and all(
        not asked or asked == found for asked, found in pairs
    )


def _gpu_type(cell: Cell) -> str:
    """Of a type that is not sold, the name by which its site counts it."""
    return NO_GPU if cell.meter in SHARED_METERS else cell.gpu_type or cell.resource


def _key(cell: Cell, by: By, members: Members) -> tuple[str, str, str]:
    """Key, name, and the project where the name alone says too little."""
    if by is By.PROJECT:
        return cell.project, cell.project, ""
    if by is By.DAY:
        return cell.slot.isoformat(), f"{cell.slot:%a} {cell.slot.day} {cell.slot:%b}", ""
    if by is By.GPU_TYPE:
        found = _gpu_type(cell)
        return found, "vCPU, memory, storage" if found == NO_GPU else found, ""
    if cell.workspace_id is None:
        return NO_KEY, NO_WORKSPACE, cell.project if by is By.WORKSPACE else ""
    if by is By.WORKSPACE:
        return str(cell.workspace_id), cell.workspace or "", cell.project
    who = members.get((cell.workspace_id, cell.project_id), NO_KEY)
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


def _ordered(rows: list[CostRow], by: By) -> list[CostRow]:
    if by is By.DAY:
        return sorted(rows, key=lambda row: row.key)
    return sorted(rows, key=lambda row: (-row.amount, row.name, row.project, row.key))


def _uuid(text: str) -> uuid.UUID:
    """The nil UUID, which nothing has, for what is none."""
    try:
        return uuid.UUID(text)
    except ValueError:
        return uuid.UUID(int=0)
