"""Runs the SQL of rating.md; typed rows out, no ORM object per row."""

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection, transaction

from billing.money import EXPONENTS, amount_of, charge_divisor, price_of
from billing.months import Span, month_span
from gpuaas.core.clock import whole_second
from gpuaas.metering.capacity import levels_parameters, levels_sql
from gpuaas.metering.models import STREAMED_METERS, Meter
from quotas.models import PoolReservation

# counted by what sites say: only these can miss something
OBSERVED = [meter.value for meter in STREAMED_METERS]
# changes of price in the slots up to which usage is added up by pieces first; every interval is compared with every piece
FEW = 30
SQL = Path(__file__).parent / "sql"


class LineStatus(StrEnum):
    BILLED = "billed"
    INCLUDED = "included"  # shown, no charge of its own
    QUARANTINED = "quarantined"  # used, and nobody has said what it costs: no amount, never zero


@dataclass(frozen=True)
class Cell:
    """Usage and charge of one line, or of one day or workspace of it. amount is None in quarantine.

    workspace: who held it, a workspace or (is_cluster) a cluster; None for both and for what nobody held.
    surplus: held beyond what was bought. estimated: some of the line touches a gap of the meter.
    """

    month: date
    slot: date
    project_id: uuid.UUID
    project: str
    workspace_id: uuid.UUID | None
    workspace: str | None
    is_cluster: bool
    flavor_id: uuid.UUID | None
    flavor: str | None
    flavor_name: str | None
    gpu_type: str | None
    resource: str
    currency: str
    surplus: bool
    estimated: bool
    meter: Meter
    price_class: str
    status: LineStatus
    unit_price: Decimal | None
    unit_seconds: int
    amount: Decimal | None


@dataclass(frozen=True)
class Slots:
    """The time cells of a question: whole months, or days of months."""

    months: Sequence[date]
    spans: Sequence[Span]

    def cut(self, bounds: Sequence[datetime]) -> list[tuple[date, Span]]:
        """The slots in pieces, cut at every bound that lies inside of them; with their months."""
        found = []
        for month, span in zip(self.months, self.spans, strict=True):
            inside = sorted(at for at in bounds if span.starts_at < at < span.ends_at)
            edges = pairwise([span.starts_at, *inside, span.ends_at])
            found += [(month, replace(span, starts_at=start, ends_at=end)) for start, end in edges]
        return found


@cache
def sql_text(name: str) -> str:
    return (SQL / f"{name}.sql").read_text("utf-8")


@cache
def sql_of(*names: str) -> str:
    """One statement from CTEs that build on each other."""
    return "WITH " + "".join(map(sql_text, names))


def divisors() -> dict[str, Any]:
    """Parameters: D of rating.md, by currency where it is not that of two places."""
    return {
        "currency": settings.CURRENCY,
        "divisor": charge_divisor("EUR"),
        "currencies": list(EXPONENTS),
        "divisors": [charge_divisor(currency) for currency in EXPONENTS],
        "organization": None,
    }


def idle_sql() -> str:
    """`, asked …` up to the CTE `idle`; `payer` comes before it. Parameters: first, last, projects_asked, `levels_parameters`."""
    return "".join([sql_text("portal_reserved_pools"), levels_sql(), sql_text("portal_idle")])


def rated_sql(
    *,
    slots: Slots,
    now: datetime,
    projects: Sequence[uuid.UUID] | None,
    by_workspace: bool = False,
    draft_id: uuid.UUID | None = None,
) -> tuple[str, dict[str, Any]]:
    """`WITH …` that ends with the CTE `rated`, and its parameters: for a SELECT, or an INSERT … that text SELECT.

    rated: month, slot (first day of it), project, workspace (or cluster; null unless by_workspace), flavor (nil UUID = none), resource,
    meter, price_class, surplus, status, price_micro, unit_seconds, minor (null = quarantined or included), estimated.
    `payer` has project, organization, currency. Slots have to cover whole months: tiers and rounding are a month's.
    With draft_id that draft's prices stand in for all those of its card, at all times.
    """
    parameters: dict[str, Any] = {
        **_time(slots, now),
        "observed": OBSERVED,
        "projects_asked": None if projects is None else list(projects),
        "by_workspace": by_workspace,
    }
    tariff = _tariff(parameters, draft_id)
    pieces = slots.cut(tariff["bounds"] or [])
    few = len(pieces) <= len(slots.spans) + FEW
    if few:
        parameters |= _pieces(pieces)
    counted = "counted_pieces" if few else "counted"
    usage = "portal_sessions" if tariff["most_added"] else "portal_usage"
    tiers = "graduated" if tariff["is_graduated"] else "not_graduated"
    rest = [sql_text(name) for name in (counted, tiers, "lines")]
    if not tariff["is_reserved"]:
        return "".join([sql_of("portal_tariff", usage, "portal_metered"), *rest]), {**parameters, **tariff}
    levels = levels_parameters(first=parameters["first"], last=parameters["last"], now=now)
    sql = "".join([sql_of("portal_tariff", usage), idle_sql(), sql_text("portal_reserved"), *rest])
    return sql, {**parameters, **levels, **tariff}


def _pieces(pieces: Sequence[tuple[date, Span]]) -> dict[str, Any]:
    return {
        "piece_numbers": list(range(len(pieces))),
        "piece_months": [month for month, _ in pieces],
        "piece_slots": [span.day for _, span in pieces],
        "piece_starts": [span.starts_at for _, span in pieces],
        "piece_ends": [span.ends_at for _, span in pieces],
        "piece_always": [True] * len(pieces),
    }


def _tariff(parameters: dict[str, Any], draft_id: uuid.UUID | None) -> dict[str, Any]:
    """Prices and payers as arrays of SQL, for the statement that reads usage."""
    prices = "published" if draft_id is None else "drafted"
    asked = {
        **divisors(),
        "meters": list(Meter.values),
        "first": parameters["first"],
        "last": parameters["last"],
        "projects": parameters["projects_asked"],
        "draft": draft_id,
    }
    with connection.cursor() as cursor:
        cursor.execute(sql_of("payer", prices, "tariff", "tariff_read"), asked)
        (row,) = cursor.fetchall()
        return dict(zip([column.name for column in cursor.description or ()], row, strict=True))


@contextmanager
def hashed() -> Iterator[None]:
    """A transaction in which all of the platform is rated: joined and grouped by hashes whatever the planner expects.

    It knows nothing about what a tariff matches, and would sort a million rows that it takes for one.
    """
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(
                "SET LOCAL enable_sort = off; SET LOCAL enable_nestloop = off; SET LOCAL jit = off"
            )
        yield
        with connection.cursor() as cursor:
            cursor.execute("RESET enable_sort; RESET enable_nestloop; RESET jit")


def rate_usage(
    *,
    slots: Slots,
    now: datetime,
    projects: Sequence[uuid.UUID] | None,
    by_workspace: bool = False,
    draft_id: uuid.UUID | None = None,
) -> list[Cell]:
    """Every cell with usage, priced by its own time. `projects` None = all of the platform."""
    sql, parameters = rated_sql(
        slots=slots, now=now, projects=projects, by_workspace=by_workspace, draft_id=draft_id
    )
    with hashed() if projects is None else nullcontext(), connection.cursor() as cursor:
        cursor.execute(sql + sql_text("portal_rated"), parameters)
        return [_cell(row) for row in cursor.fetchall()]


def price_list(*, at: datetime, organization_id: uuid.UUID) -> dict[tuple[uuid.UUID | None, Meter], int]:
    """Millionths of a unit-hour by (flavor, meter), as one organization pays them at `at`."""
    parameters = {**divisors(), **_instant(at), "projects": [], "organization": organization_id}
    with connection.cursor() as cursor:
        cursor.execute(sql_of("payer", "published", "tariff", "price_list"), parameters)
        return {(flavor, Meter(meter)): int(micro) for flavor, meter, micro in cursor.fetchall()}


@dataclass(frozen=True)
class Stretch:
    """One price over [starts_at, ends_at). per_hour: ten-thousandths of a millionth, exact with the discount.

    discount: the basis points by which the prices of the rate are lowered.
    """

    flavor_id: uuid.UUID | None
    meter: Meter
    starts_at: datetime
    ends_at: datetime
    per_hour: int
    tiers: bool
    rate_id: uuid.UUID
    discount: int


def price_stretches(*, first: datetime, last: datetime, organization_id: uuid.UUID) -> list[Stretch]:
    """Every price that one organization pays in [first, last), in the order of time."""
    parameters = {
        **divisors(),
        "meters": list(Meter.values),
        "first": first,
        "last": last,
        "projects": [],
        "organization": organization_id,
    }
    with connection.cursor() as cursor:
        cursor.execute(sql_of("payer", "published", "tariff", "price_stretches"), parameters)
        rows = cursor.fetchall()
    return [
        Stretch(flavor, Meter(meter), starts_at, ends_at, int(each), tiers, rate, int(discount))
        for flavor, meter, starts_at, ends_at, each, tiers, rate, discount in rows
    ]


def burn_micro(
    *, now: datetime, projects: Sequence[uuid.UUID] | None, workspace_id: uuid.UUID | None = None
) -> dict[uuid.UUID, int]:
    """Millionths per hour of all open usage, by project, each in the currency of its organization; of the whole project or
    platform with what is idle of reserved pools."""
    parameters: dict[str, Any] = {
        **divisors(),
        **_instant(now),
        "projects": None if projects is None else list(projects),
        "workspace": workspace_id,
    }
    with connection.cursor() as cursor:
        cursor.execute(sql_of("payer", "published", "tariff", "burn"), parameters)
        burn = {project: int(micro) for project, micro in cursor.fetchall()}
    for row in idle_at(at=now, projects=projects) if workspace_id is None else ():
        burn[row.project_id] = burn.get(row.project_id, 0) + row.gpus * (row.price_micro or 0)
    return burn


@dataclass(frozen=True)
class IdleRow:
    """So many GPUs of a reserved pool are idle. price_micro None: nobody has said what a unit-hour of it costs."""

    reservation_id: uuid.UUID
    project_id: uuid.UUID
    gpus: int
    reserved_until: datetime | None
    price_micro: int | None


def idle_at(*, at: datetime, projects: Sequence[uuid.UUID] | None) -> list[IdleRow]:
    """Of every pool that is reserved at `at`, by the very statement that rates it; 1 query where none is, else 2."""
    moment = whole_second(at)
    reserved = PoolReservation.objects.filter(valid_from__lte=moment).exclude(valid_to__lte=moment)
    if projects is not None:
        reserved = reserved.filter(project__in=projects)
    if not reserved.exists():
        return []
    instant = _instant(moment)
    named = None if projects is None else list(projects)
    parameters = {
        **divisors(),
        **instant,
        **levels_parameters(first=moment, last=instant["last"], now=instant["last"]),
        "projects": named,
        "projects_asked": named,
    }
    sql = "".join([sql_of("payer", "published", "tariff"), idle_sql(), sql_text("burn_idle")])
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return [
            IdleRow(key, project, int(gpus), until, None if micro is None else int(micro))
            for key, project, gpus, until, micro in cursor.fetchall()
        ]


def _instant(at: datetime) -> dict[str, Any]:
    return {"meters": list(Meter.values), "now": at, "first": at, "last": at + timedelta(seconds=1)}


def _time(slots: Slots, now: datetime) -> dict[str, Any]:
    months = {month: month_span(month).starts_at for month in slots.months}
    return {
        "months": list(slots.months),
        "slots": [span.day for span in slots.spans],
        "starts": [span.starts_at for span in slots.spans],
        "ends": [span.ends_at for span in slots.spans],
        "month_starts": [months[month] for month in slots.months],
        "first": min(span.starts_at for span in slots.spans),
        "last": max(span.ends_at for span in slots.spans),
        "now": whole_second(now),
    }


def _cell(row: tuple[Any, ...]) -> Cell:
    meter, price_class, status, price_micro, unit_seconds, minor = row[15:]
    currency = row[12]
    amount = None if minor is None else amount_of(minor, currency)
    values: list[Any] = [
        *row[:15],
        Meter(meter),
        price_class,
        LineStatus(status),
        None if price_micro is None else price_of(int(price_micro)),
        unit_seconds,
        amount_of(0, currency) if status == LineStatus.INCLUDED else amount,
    ]
    return Cell(*values)
