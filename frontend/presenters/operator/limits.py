"""The matrix of limits: who may hold how much of what, what of it is held and allocated, and what a change would do."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db.models import Sum

from billing.selectors import prices_at
from billing.selectors.costs import currency_of
from billing.wares import gpu_meter
from frontend.components import Meter
from frontend.presenters.limits import NAMES, UNITS, gpu_name, shared_sums
from gpuaas.catalog.models import Flavor, GpuType
from gpuaas.catalog.states import OfferState
from gpuaas.metering.models import Meter as Metered
from gpuaas.metering.selectors import UsageFilters, intervals_for
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.states import LIVE
from quotas.gpus import everywhere
from quotas.matrix import (
    Cell,
    MatrixRow,
    Total,
    limits_rows,
    limits_totals,
    limits_within,
)
from quotas.resources import gpu_resource, gpu_type_slug, is_spot, spot_resource
from tenants.actors import Actor
from tenants.models import Organization, Project

Uses = Mapping[tuple[Any, str], int]


@dataclass(frozen=True)
class Column:
    resource: str
    name: str
    unit: str


@dataclass(frozen=True)
class CellShown:
    column: Column
    cell: Cell
    allocated: int

    @property
    def top(self) -> str:
        return "unlimited" if self.cell.limit is None else f"{self.cell.limit:,}"

    @property
    def none(self) -> bool:
        return self.cell.limit == 0 and self.cell.used == 0

    @property
    def over(self) -> bool:
        return self.cell.limit is not None and self.cell.used > self.cell.limit

    @property
    def nearly(self) -> bool:
        """More than 90% of it is held."""
        limit = self.cell.limit
        return limit is not None and self.cell.used > 0 and self.cell.used * 10 >= limit * 9

    @property
    def meter(self) -> Meter:
        used = min(self.allocated, self.cell.used)
        return Meter(used=used, held=self.cell.used - used, limit=self.cell.limit)


@dataclass(frozen=True)
class RowShown:
    kind: str
    slug: str
    name: str
    organization: Organization
    project: Project | None
    cells: tuple[CellShown, ...]

    def cell(self, resource: str) -> CellShown | None:
        return next((cell for cell in self.cells if cell.column.resource == resource), None)


@dataclass(frozen=True)
class ColumnSum:
    """`limits` of all projects, what of them is held, and what the sites can promise and have left; None = not counted there."""

    limits: int
    unlimited: int
    held: int
    sellable: int | None
    free: int | None


@dataclass(frozen=True)
class MatrixShown:
    """`rows` are those that were asked for, `sums` are of everything."""

    columns: tuple[Column, ...]
    rows: tuple[RowShown, ...]
    sums: tuple[ColumnSum, ...]

    def sum_of(self, resource: str) -> ColumnSum:
        return dict(zip((column.resource for column in self.columns), self.sums, strict=True))[resource]


@dataclass(frozen=True)
class Effect:
    """What a limit of `new` would mean (None = unlimited), before anybody saves it."""

    column: Column
    old: int | None
    new: int | None
    can_take: str
    organization: tuple[str, str]
    everything: tuple[str, str]
    free: str
    adds: Decimal | None
    currency: str
    warnings: tuple[str, ...]


def matrix_shown(*, actor: Actor, owners: Iterable[tuple[str, str, UUID]]) -> MatrixShown:
    """Nine queries for any number of owners, whose rows alone are read."""
    totals = limits_totals()
    columns = _columns(totals)
    rows = limits_rows(owners=owners, resources=totals)
    uses = _uses(actor, {row.organization.pk for row in rows})
    return MatrixShown(columns, tuple(_row(row, columns, uses) for row in rows), _sums(totals))


def _columns(resources: Iterable[str]) -> tuple[Column, ...]:
    names = dict(GpuType.objects.values_list("slug", "name"))
    return tuple(_column(resource, names) for resource in resources)


def _column(resource: str, names: Mapping[str, str]) -> Column:
    slug = gpu_type_slug(resource)
    name = NAMES.get(resource) or gpu_name(resource, names.get(slug, slug))
    return Column(resource, name, UNITS.get(resource, ""))


def _uses(actor: Actor, organizations: Collection[Any] | None = None) -> Uses:
    """What pods and machines use at this moment, by project and by organization; of some or of all. As the project's own
    page shows it."""
    filters = UsageFilters(meter=Metered.GPU_ALLOCATED, open_only=True)
    gpus = intervals_for(actor=actor, filters=filters).filter(flavor__isnull=False).order_by()
    shared = Workspace.objects.filter(state__in=LIVE).order_by()
    if organizations is not None:
        gpus = gpus.filter(project__organization__in=organizations)
        shared = shared.filter(project__organization__in=organizations)
    owners = ("project_id", "project__organization_id")
    rows = [
        (project, organization, spot_resource(slug) if notice else gpu_resource(slug), total)
        for project, organization, slug, notice, total in gpus.values_list(
            *owners, "flavor__pool__gpu_type__slug", "flavor__notice_seconds"
        ).annotate(total=Sum("quantity"))
    ]
    sums = shared_sums()
    for project, organization, *used in shared.values_list(*owners).annotate(**sums):
        rows += [(project, organization, *each) for each in zip(sums, used, strict=True)]
    found: dict[tuple[Any, str], int] = {}
    for project, organization, resource, used_now in rows:
        for owner in (project, organization):
            found[owner, resource] = found.get((owner, resource), 0) + int(used_now)
    return found


def _row(row: MatrixRow, columns: Sequence[Column], uses: Uses) -> RowShown:
    owner = row.project or row.organization
    cells = tuple(
        CellShown(column, row.cells[column.resource], uses.get((owner.pk, column.resource), 0))
        for column in columns
    )
    kind = "project" if row.project else "organization"
    name = row.project.slug if row.project else row.organization.name
    return RowShown(kind, owner.slug, name, row.organization, row.project, cells)


def _sums(totals: Mapping[str, Total]) -> tuple[ColumnSum, ...]:
    counted = everywhere()
    made = []
    for resource, total in totals.items():
        known = counted.get(resource)
        made.append(
            ColumnSum(
                limits=total.limits,
                unlimited=total.unlimited,
                held=total.held,
                sellable=known.sellable if known else None,
                free=known.free if known else None,
            )
        )
    return tuple(made)


def effect_of(*, matrix: MatrixShown, row: RowShown, resource: str, new: int | None) -> Effect:
    """Three queries beside the matrix: the organization's limit, those of its projects, the prices."""
    shown = row.cell(resource)
    if shown is None:
        raise LookupError(resource)
    old, used = shown.cell.limit, shown.cell.used
    total = matrix.sum_of(resource)
    cap, within = limits_within(organization=row.organization, resource=resource)
    change = (new or 0) - (old or 0) if row.project else 0
    rests = [] if new is None else [max(new - used, 0)]
    if row.project and cap.limit is not None:
        rests.append(max(cap.limit - cap.used, 0))
    return Effect(
        column=shown.column,
        old=old,
        new=new,
        can_take=f"{min(rests):,}" if rests else "no limit",
        organization=(_amount(cap.limit), _change(within, change)),
        everything=(_amount(total.sellable, none="not counted"), _change(total.limits, change)),
        free="not counted" if total.free is None else f"{total.free:,}",
        adds=_adds(resource, change, row.organization),
        currency=currency_of(row.organization.pk),
        warnings=_warnings(
            row, new=new, used=used, within=within + change, cap=cap, total=total, change=change
        ),
    )


def _amount(value: int | None, none: str = "unlimited") -> str:
    return none if value is None else f"{value:,}"


def _change(value: int, change: int) -> str:
    return f"{value:,} → {value + change:,}" if change else f"{value:,}"


def _warnings(
    row: RowShown,
    *,
    new: int | None,
    used: int,
    within: int,
    cap: Cell,
    total: ColumnSum,
    change: int,
) -> tuple[str, ...]:
    warnings = []
    if new is not None and new < used:
        warnings.append(
            f"{used:,} are held. Nothing is taken away, but new requests are refused until fewer are held."
        )
    if row.project and new != 0 and cap.limit == 0:
        warnings.append(f"{row.organization.name} has no limit for this itself, so nothing can be held yet.")
    elif row.project and change > 0 and cap.limit is not None and within > cap.limit:
        warnings.append(
            f"The limits of the projects exceed that of {row.organization.name}; requests are served in order."
        )
    if row.project and change > 0 and total.sellable is not None and total.limits + change > total.sellable:
        warnings.append(
            "The limits exceed what can be sold, so not everyone can use theirs at the same time."
        )
    return tuple(warnings)


def _adds(resource: str, change: int, organization: Organization) -> Decimal | None:
    """The most that the change can add per hour, by the dearest flavor of the GPU type, as the organization pays it."""
    slug = gpu_type_slug(resource)
    if not slug or change <= 0:
        return None
    flavors = Flavor.objects.filter(pool__gpu_type__slug=slug, state=OfferState.ACTIVE)
    flavors = flavors.filter(notice_seconds__gt=0) if is_spot(resource) else flavors.filter(notice_seconds=0)
    prices = prices_at(organization=organization)
    found = [prices[key].per_hour for flavor in flavors if (key := (flavor.pk, gpu_meter(flavor))) in prices]
    return max(found) * change if found else None
