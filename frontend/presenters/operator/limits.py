"""The matrix of limits: who may hold how much of what, what of it is held and in use, and what a change would do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.db.models import Sum

from billing.selectors import prices_at
from frontend.components import Meter
from frontend.presenters.limits import NAMES, UNITS
from gpuaas.catalog.models import Flavor, GpuType
from gpuaas.catalog.states import OfferState
from gpuaas.metering.models import Meter as Metered
from gpuaas.metering.selectors import UsageFilters, intervals_for
from quotas.models import SiteCapacity
from quotas.resources import gpu_resource, gpu_type_slug
from quotas.selectors import Cell, Matrix, MatrixRow, limits_matrix
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
    in_use: int

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
        """More than 90 % of it is held."""
        limit = self.cell.limit
        return limit is not None and self.cell.used > 0 and self.cell.used * 10 >= limit * 9

    @property
    def meter(self) -> Meter:
        used = min(self.in_use, self.cell.used)
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
    """`limits` of all projects, what of them is held, and what the sites can promise; None = not counted there."""

    limits: int
    unlimited: int
    held: int
    sellable: int | None

    @property
    def free(self) -> int | None:
        return None if self.sellable is None else max(self.sellable - self.held, 0)


@dataclass(frozen=True)
class MatrixShown:
    columns: tuple[Column, ...]
    rows: tuple[RowShown, ...]
    sums: tuple[ColumnSum, ...]

    def row(self, kind: str, slug: str) -> RowShown | None:
        return next((row for row in self.rows if (row.kind, row.slug) == (kind, slug)), None)

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
    warnings: tuple[str, ...]


def matrix_shown(*, actor: Actor) -> MatrixShown:
    """Six queries at any size."""
    matrix = limits_matrix(actor=actor)
    names = dict(GpuType.objects.values_list("slug", "name"))
    columns = tuple(_column(resource, names) for resource in matrix.resources)
    uses = _uses(actor)
    rows = tuple(_row(row, columns, uses) for row in matrix.rows)
    return MatrixShown(columns, rows, _sums(matrix, columns))


def _column(resource: str, names: Mapping[str, str]) -> Column:
    slug = gpu_type_slug(resource)
    return Column(resource, NAMES.get(resource) or names.get(slug, slug), UNITS.get(resource, ""))


def _uses(actor: Actor) -> Uses:
    """GPUs that pods hold at this moment, by project and by organization."""
    filters = UsageFilters(meter=Metered.GPU_ALLOCATED, open_only=True)
    rows = intervals_for(actor=actor, filters=filters).filter(flavor__isnull=False).order_by()
    found: dict[tuple[Any, str], int] = {}
    for project, organization, slug, total in rows.values_list(
        "project_id", "project__organization_id", "flavor__pool__gpu_type__slug"
    ).annotate(total=Sum("quantity")):
        for owner in (project, organization):
            key = (owner, gpu_resource(slug))
            found[key] = found.get(key, 0) + int(total)
    return found


def _row(row: MatrixRow, columns: Sequence[Column], uses: Uses) -> RowShown:
    owner = row.project or row.organization
    cells = tuple(
        CellShown(column, row.cells[column.resource], _in_use(row, column, owner.pk, uses))
        for column in columns
    )
    kind = "project" if row.project else "organization"
    name = row.project.slug if row.project else row.organization.name
    return RowShown(kind, owner.slug, name, row.organization, row.project, cells)


def _in_use(row: MatrixRow, column: Column, owner: Any, uses: Uses) -> int:
    """Only GPUs are counted by the pod; of the rest, held is all that is known."""
    if not gpu_type_slug(column.resource):
        return row.cells[column.resource].used
    return uses.get((owner, column.resource), 0)


def _sums(matrix: Matrix, columns: Sequence[Column]) -> tuple[ColumnSum, ...]:
    sellable: dict[str, int | None] = {}
    for row in SiteCapacity.objects.all():
        if row.hard is not None:
            sellable[row.resource] = (sellable.get(row.resource) or 0) + row.hard
    projects = [row for row in matrix.rows if row.project is not None]
    made = []
    for column in columns:
        cells = [row.cells[column.resource] for row in projects]
        made.append(
            ColumnSum(
                limits=sum(cell.limit or 0 for cell in cells),
                unlimited=sum(1 for cell in cells if cell.limit is None),
                held=sum(cell.used for cell in cells),
                sellable=sellable.get(column.resource),
            )
        )
    return tuple(made)


def effect_of(*, matrix: MatrixShown, row: RowShown, resource: str, new: int | None) -> Effect:
    """Reads no more than the matrix and the prices."""
    shown = row.cell(resource)
    if shown is None:
        raise LookupError(resource)
    old, used = shown.cell.limit, shown.cell.used
    total = matrix.sum_of(resource)
    ours = matrix.row("organization", row.organization.slug)
    shared = ours.cell(resource) if ours else None
    cap = shared.cell if shared else Cell(0, 0, 0)
    siblings = [
        other.cell(resource)
        for other in matrix.rows
        if other.project and other.organization == row.organization
    ]
    within = sum(cell.cell.limit or 0 for cell in siblings if cell)
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
        adds=_adds(resource, change),
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
    said = []
    if new is not None and new < used:
        said.append(f"{used:,} are held: nothing is taken away, new requests wait until fewer are.")
    if row.project and new != 0 and cap.limit == 0:
        said.append(f"{row.organization.name} itself has none, so nothing can be held yet.")
    elif row.project and change > 0 and cap.limit is not None and within > cap.limit:
        said.append(f"More than {row.organization.name} may hold in all; who asks first gets it.")
    if row.project and change > 0 and total.sellable is not None and total.limits + change > total.sellable:
        said.append("More than can be sold in all: not everybody can use their limit at once.")
    return tuple(said)


def _adds(resource: str, change: int) -> Decimal | None:
    """The most that the change can add per hour, by the dearest flavor of the GPU type."""
    slug = gpu_type_slug(resource)
    if not slug or change <= 0:
        return None
    flavors = Flavor.objects.filter(pool__gpu_type__slug=slug, state=OfferState.ACTIVE)
    prices = prices_at()
    found = [
        prices[key].per_hour
        for pk in flavors.values_list("pk", flat=True)
        if (key := (pk, Metered.GPU_HELD)) in prices
    ]
    return max(found) * change if found else None
