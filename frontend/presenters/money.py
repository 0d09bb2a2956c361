"""The costs of a month as pages show them. Every total is the sum of the amounts shown above it."""

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import ROUND_HALF_UP, Decimal

from billing.money import minor_places
from billing.months import billing_zone, month_days, month_next, month_of, month_previous, month_span
from billing.quotes import Quote
from billing.rating import Cell, LineStatus
from billing.running import IDLE
from billing.selectors import DayCost, Statement
from billing.selectors.costs import NO_HOLDER, HolderCost
from billing.selectors.days import cost_by_holder_day
from billing.selectors.running import rest_by_day
from billing.wares import UNITS, quantity_places, storage_words
from frontend.charts import Chart, Series
from frontend.formats import currency_of
from gpuaas.catalog.states import PriceClass
from gpuaas.clusters.models import Cluster
from gpuaas.core.errors import Forbidden, NotFound
from gpuaas.metering.models import TOKEN_METERS, Meter
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import Project

HOUR = Decimal(3600)
SHOWN = 5
OTHERS = "others"
HOW = {
    Meter.GPU_ALLOCATED: "allocated",
    Meter.GPU_STOPPED: "kept while stopped",
    Meter.GPU_SHELVED: "shelved",
    Meter.GPU_IDLE: "idle in a reserved pool",
}
Days = dict[str, dict[date, Decimal]]
SHARED = {
    Meter.VCPU_HELD: "vCPU",
    Meter.MEMORY_HELD: "Memory",
    Meter.STORAGE_HELD: "Storage",
    **{meter: str(meter.label) for meter in TOKEN_METERS},
}


def shared_name(meter: Meter | None, resource: str = "") -> str:
    """What is counted without a flavor; a storage class by its name."""
    return storage_words(resource) or (SHARED.get(meter, "") if meter else "")


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
    """hours: of tokens, millions."""

    name: str
    note: str
    hours: Decimal
    places: int
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
    name = (
        cell.flavor_name or cell.gpu_type or shared_name(meter, cell.resource) or cell.resource or "Unknown"
    )
    if cell.flavor_id is not None or meter not in SHARED:
        note = PriceClass(cell.price_class).label.lower()
        note = f"{note}, {HOW[meter]}" if meter in HOW else note
    else:
        note = "all model endpoints" if meter in TOKEN_METERS else "all workspaces and clusters"
    return Line(
        name=name,
        note=note,
        hours=hours_of(cell.unit_seconds),
        places=quantity_places(meter),
        unit=UNITS[meter],
        price=cell.unit_price,
        amount=cell.amount,
        quarantined=cell.status is LineStatus.QUARANTINED,
    )


def groups_of(statement: Statement) -> tuple[Group, ...]:
    """Billed and quarantined lines by project; usage that is free or that another price includes is left out."""
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


def day_chart(*, month: Month, values: Days, coming: Days, now: datetime, sign: str) -> Chart:
    """Cost per day, largest first; in the running month, coming days are estimated from what runs now."""
    days = month_days(month.first)
    today = now.astimezone(billing_zone()).date()
    later = next((place for place, span in enumerate(days) if span.day > today), None)
    nothing = Decimal(0)
    whole: Days = {name: dict(found) for name, found in values.items()}
    for name, found in coming.items() if month.running else ():
        row = whole.setdefault(name, {})
        for day, amount in found.items():
            row[day] = row.get(day, nothing) + amount
    names = [name for name in largest_first(whole) if name != OTHERS]
    names += [OTHERS] if OTHERS in whole else []
    places = minor_places(currency_of(sign))

    def amounts(of: Sequence[str]) -> tuple[Decimal, ...]:
        sums = (sum((whole[name].get(span.day, nothing) for name in of), nothing) for span in days)
        return tuple(each.quantize(Decimal(1).scaleb(-places), rounding=ROUND_HALF_UP) for each in sums)

    series = [Series(name, amounts([name])) for name in names[:SHOWN]]
    if names[SHOWN:]:
        rest = amounts(names[SHOWN:])
        series.append(Series(OTHERS, rest))
    note = "Days are in the billing time zone and add up to the statement."
    if month.running and coming:
        note = "Days are in the billing time zone. Expected: what runs now, until each lease ends."
    return Chart(
        id="cost-by-day",
        title=f"Cost per day, {month.name}",
        labels=tuple(str(span.day.day) for span in days),
        series=tuple(series),
        prefix=sign,
        places=places,
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
    """Tells a cluster from a workspace of the same name in mixed lists."""
    return f"{name} (cluster)"


def days_by_holder(
    *,
    actor: Actor,
    project: Project,
    month: date,
    now: datetime,
    days: Sequence[DayCost],
    dearest: Sequence[HolderCost] | None = None,
) -> Days:
    """Cost per day and workspace or cluster of one project: the most expensive ones, and the sum of the others."""
    spent = cost_by_holder_day(actor=actor, project=project, month=month, now=now, days=days, dearest=dearest)
    found: Days = {}
    for row in spent.holders:
        name = cluster_name(row.holder) if row.is_cluster else row.holder or ""
        own = found.setdefault(name, {})
        for day, amount in row.days.items():
            own[day] = own.get(day, Decimal(0)) + amount
    return found | ({OTHERS: spent.others} if spent.others else {})


def days_to_come(*, actor: Actor, project: Project, month: date, now: datetime) -> Days:
    """Keyed by the names of `days_by_holder`."""
    found = rest_by_day(actor=actor, project=project, month=month, now=now)
    keys = [key for _, key in found if key is not None]
    names = dict(Workspace.objects.filter(pk__in=keys).order_by().values_list("pk", "name"))
    clusters = Cluster.objects.filter(pk__in=keys).order_by().values_list("pk", "name")
    names |= {key: cluster_name(name) for key, name in clusters}
    named: Days = {}
    for (kind, key), days in found.items():
        name = names.get(key, OTHERS) if key else NO_HOLDER if kind == IDLE else OTHERS
        row = named.setdefault(name, {})
        for day, amount in days.items():
            row[day] = row.get(day, Decimal(0)) + amount
    return named


def largest_first(values: Days) -> list[str]:
    return sorted(values, key=lambda name: (-sum(values[name].values()), name))


class Unpriced(contextlib.suppress):
    """Pages show no money before the first price is set, and none to roles that may not see it."""

    def __init__(self) -> None:
        super().__init__(NotFound, Forbidden)


def notes_of(price: Quote) -> tuple[str, ...]:
    missing = () if price.complete else ("Some items have no price yet and are not included in the totals.",)
    return (*missing, *price.notes)


def month_words(price: Quote) -> str:
    """The heading of the cost in the running month: until the month or the lease ends, whichever is first."""
    hours = round(price.in_month_seconds / 3600)
    return f"In {price.month.day:%B} ({f'{hours:,}' if hours else 'under 1'} h)"
