"""Runs the SQL of rating.md; typed rows out, no ORM object per row."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

from django.db import connection

from billing.models import RateCard
from billing.money import amount_of, charge_divisor, price_of
from billing.months import Span
from gpuaas.core.clock import whole_second
from gpuaas.metering.models import Meter

SQL = Path(__file__).parent / "sql"


class LineStatus(StrEnum):
    BILLED = "billed"
    INCLUDED = "included"  # shown, no charge of its own
    QUARANTINED = "quarantined"  # used, and nobody has said what it costs: no amount, never zero


@dataclass(frozen=True)
class Cell:
    """Usage and charge of one line, or of one day or workspace of it. amount is None in quarantine."""

    month: date
    slot: date
    project_id: uuid.UUID
    project: str
    workspace_id: uuid.UUID | None
    workspace: str | None
    flavor_id: uuid.UUID | None
    flavor: str | None
    flavor_name: str | None
    gpu_type: str | None
    resource: str
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


@cache
def sql_text(name: str) -> str:
    return (SQL / f"{name}.sql").read_text("utf-8")


@cache
def sql_of(*names: str) -> str:
    """One statement from CTEs that build on each other."""
    return "WITH " + "".join(map(sql_text, names))


def rate_usage(
    *,
    card: RateCard,
    slots: Slots,
    now: datetime,
    projects: Sequence[uuid.UUID] | None,
    by_workspace: bool = False,
) -> list[Cell]:
    """Every cell with usage, priced by its own time. `projects` None = all of the platform."""
    parameters: dict[str, Any] = {
        "card": card.pk,
        "meters": list(Meter.values),
        "months": list(slots.months),
        "slots": [span.day for span in slots.spans],
        "starts": [span.starts_at for span in slots.spans],
        "ends": [span.ends_at for span in slots.spans],
        "now": whole_second(now),
        "projects": None if projects is None else list(projects),
        "by_workspace": by_workspace,
        "divisor": charge_divisor(card.currency),
    }
    with connection.cursor() as cursor:
        cursor.execute(sql_of("tariff", "portal_usage", "lines", "portal_rated"), parameters)
        return [_cell(row, card.currency) for row in cursor.fetchall()]


def burn_micro(
    *,
    card: RateCard,
    now: datetime,
    projects: Sequence[uuid.UUID] | None,
    workspace_id: uuid.UUID | None = None,
) -> dict[uuid.UUID, int]:
    """Millionths per hour of all open usage, by project."""
    parameters: dict[str, Any] = {
        "card": card.pk,
        "meters": list(Meter.values),
        "now": now,
        "projects": None if projects is None else list(projects),
        "workspace": workspace_id,
    }
    with connection.cursor() as cursor:
        cursor.execute(sql_of("tariff", "burn"), parameters)
        return {project: int(micro) for project, micro in cursor.fetchall()}


def _cell(row: tuple[Any, ...], currency: str) -> Cell:
    meter, price_class, status, price_micro, unit_seconds, minor = row[11:]
    amount = None if minor is None else amount_of(minor, currency)
    values: list[Any] = [
        *row[:11],
        Meter(meter),
        price_class,
        LineStatus(status),
        None if price_micro is None else price_of(price_micro),
        unit_seconds,
        amount_of(0, currency) if status == LineStatus.INCLUDED else amount,
    ]
    return Cell(*values)
