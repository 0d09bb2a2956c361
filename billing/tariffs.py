"""Prices over a stretch of time, as each organization pays them: read from the database, and kept as arrays for statements to come."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection

from billing.money import EXPONENTS, charge_divisor
from gpuaas.core.sql import known, prepared, sql_read
from gpuaas.metering.models import Meter

SQL = Path(__file__).parent / "sql"
FEW = 50  # projects for which a plan that fits any ten serves as well


def sql_text(name: str) -> str:
    return sql_read(SQL, name)


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


@dataclass(frozen=True)
class Tariff:
    """Prices and payers in [first, last), for statements that begin with portal_tariff.sql: several can share one reading.

    bounds: when a price changes, after `first`. most_added: seconds by which a rate lengthens a session at most.
    """

    first: datetime
    last: datetime
    arrays: dict[str, Any]
    bounds: list[datetime]
    most_added: int
    is_graduated: bool
    is_tiered: bool
    is_reserved: bool
    final_month: date | None

    def arrays_for(self, *, first: datetime, last: datetime) -> dict[str, Any]:
        """The parameters of portal_tariff.sql. ValueError: it does not cover [first, last)."""
        if first < self.first or last > self.last:
            raise ValueError(
                f"a tariff of {self.first} to {self.last} has not all prices of {first} to {last}"
            )
        return self.arrays


def rows_of(
    sql: str, parameters: dict[str, Any], *, projects: Sequence[uuid.UUID] | None
) -> list[tuple[Any, ...]]:
    """The rows of a statement with the CTEs of a tariff. Of few projects it is planned once for each connection."""
    is_kept = projects is not None and len(projects) <= FEW
    with prepared() if is_kept else connection.cursor() as cursor:
        cursor.execute(known(sql, parameters) if is_kept else sql, parameters)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


def tariff_read(
    *,
    first: datetime,
    last: datetime,
    projects: Sequence[uuid.UUID] | None,
    draft_id: uuid.UUID | None = None,
) -> Tariff:
    """Of `projects` (None = the platform) in one query. With draft_id that draft's prices stand in for all those of its card."""
    asked = {
        **divisors(),
        "meters": list(Meter.values),
        "first": first,
        "last": last,
        "projects": None if projects is None else list(projects),
        "draft": draft_id,
    }
    prices = "published" if draft_id is None else "drafted"
    with prepared() as cursor:
        cursor.execute(sql_of("payer", prices, "tariff", "tariff_read"), asked)
        (row,) = cursor.fetchall()
        found = dict(zip([column.name for column in cursor.description or ()], row, strict=True))
    facts = ("bounds", "most_added", "is_graduated", "is_tiered", "is_reserved", "final_month")
    bounds, *others = (found.pop(name) for name in facts)
    return Tariff(first, last, found, bounds or [], *others)


def price_list(*, at: datetime, organization_id: uuid.UUID) -> dict[tuple[uuid.UUID | None, Meter], int]:
    """Millionths of a unit-hour by (flavor, meter), as one organization pays them at `at`."""
    parameters = {**divisors(), **instant(at), "projects": [], "organization": organization_id}
    rows = rows_of(sql_of("payer", "published", "tariff", "price_list"), parameters, projects=[])
    return {(flavor, Meter(meter)): int(micro) for flavor, meter, micro in rows}


@dataclass(frozen=True)
class Stretch:
    """One price over [starts_at, ends_at). per_hour: ten-thousandths of a millionth; less the discount, which is rounded to the
    millionth before (rating.md, 7).

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
    rows = rows_of(sql_of("payer", "published", "tariff", "price_stretches"), parameters, projects=[])
    return [
        Stretch(flavor, Meter(meter), starts_at, ends_at, int(each), tiers, rate, int(discount))
        for flavor, meter, starts_at, ends_at, each, tiers, rate, discount in rows
    ]


def instant(at: datetime) -> dict[str, Any]:
    return {"meters": list(Meter.values), "now": at, "first": at, "last": at + timedelta(seconds=1)}
