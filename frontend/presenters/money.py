"""A month of money as pages show it. Every sum is a sum of the amounts above it, so that eyes can check it."""

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

from billing.months import billing_zone, month_days, month_next, month_of, month_previous, month_span
from billing.rating import Cell, LineStatus, Slots, rate_usage
from billing.selectors import DayCost, Statement
from billing.selectors.costs import NO_WORKSPACE
from billing.selectors.idle import Idle
from frontend.charts import Chart, Series
from gpuaas.catalog.states import PriceClass
from gpuaas.core.errors import Forbidden, NotFound
from gpuaas.metering.models import Meter
from tenants.models import Project

HOUR = Decimal(3600)
CENT = Decimal("0.01")
SHOWN = 5
UNITS = {
    Meter.GPU_HELD: "GPU h",
    Meter.GPU_ALLOCATED: "GPU h in use",
    Meter.GPU_STOPPED: "GPU h stopped",
    Meter.GPU_SHELVED: "GPU h shelved",
    Meter.GPU_IDLE: "GPU h idle",
    Meter.VCPU_HELD: "vCPU h",
    Meter.MEMORY_HELD: "GiB h",
    Meter.STORAGE_HELD: "GiB h",
}
HOW = {
    Meter.GPU_ALLOCATED: "in use",
    Meter.GPU_STOPPED: "kept while stopped",
    Meter.GPU_SHELVED: "shelved",
    Meter.GPU_IDLE: "idle in a reserved pool",
}
Days = dict[str, dict[date, Decimal]]
SHARED = {Meter.VCPU_HELD: "vCPU", Meter.MEMORY_HELD: "Memory", Meter.STORAGE_HELD: "Storage"}


@dataclass(frozen=True)
class Month:
    """`slug` is what URLs carry; `following` is empty in the running month."""

    first: date
    slug: str
    name: str
    previous: str
    following: str
    running: bool
    period: str
    hours: int


@dataclass(frozen=True)
class Line:
    name: str
    note: str
    hours: Decimal
    unit: str
    price: Decimal | None
    amount: Decimal | None
    quarantined: bool


@dataclass(frozen=True)
class Group:
    """The lines of one project and their sum."""

    name: str
    lines: tuple[Line, ...]
    total: Decimal


def month_shown(first: date, *, now: datetime) -> Month:
    current = month_of(now)
    span = month_span(first)
    last = month_days(first)[-1].day
    return Month(
        first=first,
        slug=f"{first:%Y-%m}",
        name=f"{first:%B %Y}",
        previous=f"{month_previous(first):%Y-%m}",
        following=f"{month_next(first):%Y-%m}" if first < current else "",
        running=first >= current,
        period=f"1 to {last.day} {first:%b %Y}",
        hours=span.seconds // 3600,
    )


def hours_of(seconds: int) -> Decimal:
    return Decimal(seconds) / HOUR


def line_of(cell: Cell) -> Line:
    meter = Meter(cell.meter)
    name = cell.flavor_name or cell.gpu_type or SHARED.get(meter) or cell.resource or "Unknown"
    if cell.flavor_id is not None or meter not in SHARED:
        note = PriceClass(cell.price_class).label.lower()
        note = f"{note}, {HOW[meter]}" if meter in HOW else note
    else:
        note = "all workspaces and clusters"
    if cell.status is LineStatus.INCLUDED:
        note = f"{note}, included"
    return Line(
        name=name,
        note=note,
        hours=hours_of(cell.unit_seconds),
        unit=UNITS[meter],
        price=cell.unit_price,
        amount=cell.amount,
        quarantined=cell.status is LineStatus.QUARANTINED,
    )


def groups_of(statement: Statement) -> tuple[Group, ...]:
    """Billed and quarantined lines by project; what is included in another price is left to the usage page."""
    found: dict[str, list[Cell]] = {}
    for cell in statement.lines:
        if cell.status is not LineStatus.INCLUDED:
            found.setdefault(cell.project, []).append(cell)
    nothing = statement.total - statement.total
    return tuple(
        Group(
            name, tuple(line_of(cell) for cell in cells), sum((c.amount or nothing for c in cells), nothing)
        )
        for name, cells in found.items()
    )


@dataclass(frozen=True)
class Coming:
    """What is held now costs this much per hour, until its lease ends (None: it goes on); `also`: what goes on beside it."""

    per_hour: Decimal
    until: datetime | None
    also: "Coming | None" = None

    def cost(self, starts_at: datetime, ends_at: datetime) -> Decimal:
        end = min(ends_at, self.until) if self.until else ends_at
        seconds = max(int((end - starts_at).total_seconds()), 0)
        cost = (self.per_hour * Decimal(seconds) / HOUR).quantize(CENT)
        return cost + self.also.cost(starts_at, ends_at) if self.also else cost


def coming_idle(found: Iterable[Idle]) -> dict[str, Coming]:
    """By the name that idle GPUs have in days and costs; what is idle now stays idle until it is no longer reserved."""
    coming: Coming | None = None
    for row in found:
        if row.per_hour:
            coming = Coming(row.per_hour, row.until, also=coming)
    return {NO_WORKSPACE: coming} if coming else {}


def expected_rest(coming: Iterable[Coming], *, month: Month, now: datetime) -> Decimal:
    """From now to the end of the month."""
    end = month_span(month.first).ends_at
    return sum((item.cost(now, end) for item in coming), Decimal(0))


def day_chart(*, month: Month, values: Days, coming: Mapping[str, Coming], now: datetime, sign: str) -> Chart:
    """Cost per day, largest first; in the running month, the days to come as what is held now."""
    days = month_days(month.first)
    today = now.astimezone(billing_zone()).date()
    later = next((place for place, span in enumerate(days) if span.day > today), None)
    nothing = Decimal(0)
    whole: Days = {name: dict(found) for name, found in values.items()}
    if month.running and coming:
        for name, item in coming.items():
            row = whole.setdefault(name, {})
            row.update({s.day: item.cost(s.starts_at, s.ends_at) for s in days if s.day > today})
    names = largest_first(whole)
    series = [Series(name, tuple(whole[name].get(s.day, nothing) for s in days)) for name in names[:SHOWN]]
    if names[SHOWN:]:
        rest = tuple(sum((whole[n].get(s.day, nothing) for n in names[SHOWN:]), nothing) for s in days)
        series.append(Series("others", rest))
    note = "Days of the billing time zone; they add up to the statement."
    if month.running and coming:
        note = "Days of the billing time zone. Expected: what is held now, until each lease ends."
    return Chart(
        id="cost-by-day",
        title=f"Cost per day, {month.name}",
        labels=tuple(str(span.day.day) for span in days),
        series=tuple(series),
        prefix=sign,
        expected_from=later if month.running and coming else None,
        note=note,
    )


def days_by_project(rows: Iterable[DayCost]) -> Days:
    found: Days = {}
    for row in rows:
        days = found.setdefault(row.project, {})
        days[row.day] = days.get(row.day, Decimal(0)) + row.amount
    return found


def cluster_name(name: str | None) -> str:
    """Where workspaces and clusters stand side by side: they may have the same name."""
    return f"{name} (cluster)"


def days_by_workspace(*, project: Project, month: date, now: datetime) -> Days:
    """Day × workspace or cluster of one project. The page has asked for billing:view before."""
    spans = month_days(month)
    slots = Slots([month] * len(spans), spans)
    cells = rate_usage(slots=slots, now=now, projects=[project.pk], by_workspace=True)
    found: Days = {}
    for cell in cells:
        days = found.setdefault(cluster_name(cell.workspace) if cell.is_cluster else cell.workspace or "", {})
        days[cell.slot] = days.get(cell.slot, Decimal(0)) + (cell.amount or Decimal(0))
    return found


def largest_first(values: Days) -> list[str]:
    return sorted(values, key=lambda name: (-sum(values[name].values()), name))


class Unpriced(contextlib.suppress):
    """Before an operator has set a first price, or for roles that see no money, pages simply show none."""

    def __init__(self) -> None:
        super().__init__(NotFound, Forbidden)
