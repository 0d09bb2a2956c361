"""Runs the SQL of rating.md; typed rows out, no ORM object per row."""

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from itertools import pairwise
from typing import Any

from django.conf import settings
from django.db import connection, transaction

from billing.invoiced import invoiced_of
from billing.money import amount_of, price_of
from billing.months import Span, billing_zone, day_span, month_span
from billing.tariffs import Tariff, divisors, instant, rows_of, sql_of, sql_text, tariff_read
from gpuaas.core.clock import whole_second
from gpuaas.metering.capacity import levels_parameters, levels_sql
from gpuaas.metering.models import STREAMED_METERS, Meter
from quotas.models import PoolReservation

# counted by what sites say: only these can miss something
OBSERVED = [meter.value for meter in STREAMED_METERS]
# what a price adds to a session at most (services/drafts.py)
ADDED_MOST = timedelta(days=1)
# changes of price in the slots up to which usage is added up by pieces first; every interval is compared with every piece
FEW = 30


class LineStatus(StrEnum):
    BILLED = "billed"
    INCLUDED = "included"  # shown, no charge of its own
    QUARANTINED = "quarantined"  # used, and nobody has said what it costs: no amount, never zero


@dataclass(frozen=True)
class Cell:
    """Usage and charge of one line, or of one day or holder of it. amount is None in quarantine.

    holder: a workspace or (is_cluster) a cluster; None for a line of both, and for what nobody held. surplus: held
    beyond the purchase. estimated: a part of the line touches a gap of the meter. card_share: the part of a card that a unit
    is, where units are GPUs.
    """

    month: date
    slot: date
    project_id: uuid.UUID
    project: str
    holder_id: uuid.UUID | None
    holder: str | None
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
    card_share: Decimal


@dataclass(frozen=True)
class Slots:
    """The time cells of a question: full months, or days of months."""

    months: Sequence[date]
    spans: Sequence[Span]

    def cut(self, bounds: Sequence[datetime]) -> list[tuple[date, Span]]:
        """The slots in pieces, cut at every bound inside them; with their months."""
        pieces = []
        for month, span in zip(self.months, self.spans, strict=True):
            inside = sorted({at for at in bounds if span.starts_at < at < span.ends_at})
            edges = pairwise([span.starts_at, *inside, span.ends_at])
            pieces += [(month, replace(span, starts_at=start, ends_at=end)) for start, end in edges]
        return pieces

    def parted(self, final: date | None) -> tuple["Slots", "Slots"]:
        """Those of months after the last final one, and the others."""
        pairs = list(zip(self.months, self.spans, strict=True))
        parts = [
            [pair for pair in pairs if (final is None or pair[0] > final) is live] for live in (True, False)
        ]
        live, done = (Slots([month for month, _ in part], [span for _, span in part]) for part in parts)
        return live, done


def idle_sql() -> str:
    """`, asked …` up to the CTE `idle`; `payer` comes before it. Parameters: first, last, projects_asked, `levels_parameters`."""
    return "".join([sql_text("portal_reserved_pools"), levels_sql(), sql_text("portal_idle")])


def rated_sql(
    *,
    slots: Slots,
    now: datetime,
    projects: Sequence[uuid.UUID] | None,
    by_holder: bool = False,
    draft_id: uuid.UUID | None = None,
    stored: bool = False,
    holders: Sequence[uuid.UUID] | None = None,
    tariff: Tariff | None = None,
) -> tuple[str, dict[str, Any]]:
    """`WITH …` that ends with the CTE `rated`, and its parameters: for a SELECT, or an INSERT … that text SELECT.

    rated: month, slot (first day of it), project, holder (a workspace or cluster; null unless by_holder), flavor (nil UUID =
    none), resource, meter, price_class, surplus, status, price_micro, unit_seconds, minor (null = quarantined or included),
    estimated. `payer` has project, organization, currency. Slots have to cover whole months: tiers and rounding are a month's.
    With draft_id that draft's prices stand in for all those of its card, at all times.
    holders: only what these workspaces or clusters held, and what nobody did, each sum rounded as if there were no others;
    all of it where a price has tiers, as they are a project's. A final month is as invoiced (section 17).
    stored: past usage is taken from the stored sums (rating.md, section 16); the cells are the same, sooner.
    tariff: read before, of these projects (and others) over the slots (and more).
    """
    parameters: dict[str, Any] = {
        **time_parameters(slots, now),
        "observed": OBSERVED,
        "projects_asked": None if projects is None else list(projects),
        "by_holder": by_holder,
    }
    asked = {name: parameters[name] for name in ("first", "last")}
    tariff = tariff or tariff_read(**asked, projects=projects, draft_id=draft_id)
    live, final = slots.parted(tariff.final_month)
    if final.spans:
        parameters |= (
            time_parameters(live, now, around=slots) | divisors() | invoiced_of(final.months, final.spans)
        )
    parameters["holders"] = None if tariff.is_tiered or holders is None else list(holders)
    head = _head(live, tariff, parameters, _idle(tariff, parameters), stored=stored)
    sql = [sql_of("portal_tariff", "portal_slots"), *head, *_tail(tariff, final)]
    return "".join(sql), {**parameters, **tariff.arrays_for(**asked), "most_added": tariff.most_added}


def _idle(tariff: Tariff, parameters: dict[str, Any]) -> str:
    """`idle_sql` where a pool is reserved; its parameters are added to those given."""
    if not tariff.is_reserved:
        return ""
    parameters |= levels_parameters(**{name: parameters[name] for name in ("first", "last", "now")})
    return idle_sql()


def _head(slots: Slots, tariff: Tariff, parameters: dict[str, Any], idle: str, *, stored: bool) -> list[str]:
    """What comes between the tariff and the tiers; its parameters are added to those given."""
    pieces = slots.cut(tariff.bounds)
    if len(pieces) > len(slots.spans) + FEW:
        return [*_usage(tariff, idle), sql_text("price"), sql_text("counted")]
    if stored and parameters["holders"] is None and not tariff.most_added and not tariff.is_graduated:
        parameters |= kept_parameters(slots, tariff.bounds)
        return kept_sql(idle, by_holder=parameters["by_holder"])
    parameters |= _pieces(pieces)
    return [*_usage(tariff, idle), *map(sql_text, ("counted_pieces", "price", "counted_added"))]


def _tail(tariff: Tariff, final: Slots) -> Iterator[str]:
    tiers = "graduated" if tariff.is_graduated else "not_graduated"
    volume = "volume" if tariff.is_tiered else "no_volume"
    return map(sql_text, (tiers, volume, "cells", "invoiced" if final.spans else "not_invoiced", "lines"))


def _usage(tariff: Tariff, idle: str) -> list[str]:
    sessions = usage_sql(tariff)
    return [sessions, idle, sql_text("portal_reserved")] if idle else [sessions, sql_text("portal_metered")]


def usage_sql(tariff: Tariff) -> str:
    """Up to the CTE `metered`."""
    return sql_text("portal_sessions" if tariff.most_added else "portal_usage")


def kept_sql(idle: str, *, by_holder: bool) -> list[str]:
    """What comes between the tariff and the tiers where what is past is kept."""
    before = [f"{idle.removeprefix(', ')}, "] if idle else []
    used = sql_text("kept_pieces") + (sql_text("kept_idle") if idle else "")
    names = ("kept_told" if by_holder else "kept_added", "price", "counted_added")
    return [*before, used, *map(sql_text, names)]


def kept_parameters(slots: Slots, bounds: Sequence[datetime]) -> dict[str, Any]:
    """The slots, cut at the bounds and at the midnights around them: pieces are whole days, or parts of one day."""
    zone = billing_zone()
    days = [day_span(at.astimezone(zone).date()) for at in bounds]
    pieces = slots.cut([*bounds, *(at for day in days for at in (day.starts_at, day.ends_at))])
    return _pieces(pieces) | {
        "zone": settings.BILLING_TIME_ZONE,
        "piece_whole": [
            all(_begins_day(bound) for bound in (span.starts_at, span.ends_at)) for _, span in pieces
        ],
    }


def _begins_day(at: datetime) -> bool:
    """Not by the hour of the clock: where it is put back at one, midnight comes twice."""
    return at == day_span(at.astimezone(billing_zone()).date()).starts_at


def _pieces(pieces: Sequence[tuple[date, Span]]) -> dict[str, Any]:
    return {
        "piece_numbers": list(range(len(pieces))),
        "piece_months": [month for month, _ in pieces],
        "piece_slots": [span.day for _, span in pieces],
        "piece_starts": [span.starts_at for _, span in pieces],
        "piece_ends": [span.ends_at for _, span in pieces],
        "piece_always": [True] * len(pieces),
    }


@contextmanager
def hashed() -> Iterator[None]:
    """A transaction that rates the whole platform: uses hash joins and grouping whatever the planner expects.

    The planner cannot estimate what a tariff matches, and would sort a million rows that it takes for one.
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
    by_holder: bool = False,
    draft_id: uuid.UUID | None = None,
    stored: bool = True,
    holders: Sequence[uuid.UUID] | None = None,
    wanted: Sequence[uuid.UUID] | None = None,
) -> list[Cell]:
    """Every cell with usage, priced by its own time. `projects` None = the whole platform. stored, holders: as in `rated_sql`.

    wanted: only the cells of these workspaces or clusters are read: their shares of the lines of all.
    """
    sql, parameters = rated_sql(
        slots=slots,
        now=now,
        projects=projects,
        by_holder=by_holder,
        draft_id=draft_id,
        stored=stored,
        holders=holders,
    )
    parameters["wanted"] = None if wanted is None else list(wanted)
    statement = sql + sql_text("cards") + sql_text("portal_rated")
    with hashed() if projects is None else nullcontext():
        return [_cell(row) for row in rows_of(statement, parameters, projects=projects)]


@dataclass(frozen=True)
class IdleRow:
    """So many GPUs of a reserved pool are idle. price_micro None: no price is set."""

    reservation_id: uuid.UUID
    project_id: uuid.UUID
    flavor_id: uuid.UUID
    gpus: int
    reserved_until: datetime | None
    price_micro: int | None


def idle_at(*, at: datetime, projects: Sequence[uuid.UUID] | None) -> list[IdleRow]:
    """For every pool that is reserved at `at`, by the same statement that rates it; 1 query if there is none, else
    2."""
    moment = whole_second(at)
    reserved = PoolReservation.objects.filter(valid_from__lte=moment).exclude(valid_to__lte=moment)
    if projects is not None:
        reserved = reserved.filter(project__in=projects)
    if not reserved.exists():
        return []
    asked = instant(moment)
    named = None if projects is None else list(projects)
    parameters = {
        **divisors(),
        **asked,
        **levels_parameters(first=moment, last=asked["last"], now=asked["last"]),
        "projects": named,
        "projects_asked": named,
    }
    sql = "".join([sql_of("payer", "published", "tariff"), idle_sql(), sql_text("burn_idle")])
    return [
        IdleRow(key, project, flavor, int(gpus), until, None if micro is None else int(micro))
        for key, project, flavor, gpus, until, micro in rows_of(sql, parameters, projects=named)
    ]


def time_parameters(slots: Slots, now: datetime, around: Slots | None = None) -> dict[str, Any]:
    spans = slots.spans or (around or slots).spans
    months = {month: month_span(month).starts_at for month in slots.months}
    return {
        "months": list(slots.months),
        "slots": [span.day for span in slots.spans],
        "starts": [span.starts_at for span in slots.spans],
        "ends": [span.ends_at for span in slots.spans],
        "month_starts": [months[month] for month in slots.months],
        "first": min(span.starts_at for span in spans),
        "last": max(span.ends_at for span in spans),
        "now": whole_second(now),
    }


def _cell(row: tuple[Any, ...]) -> Cell:
    meter, price_class, status, price_micro, unit_seconds, minor, card_share = row[15:]
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
        card_share,
    ]
    return Cell(*values)
