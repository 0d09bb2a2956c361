"""Usage that is not invoiced yet, for operators: by month, in every currency."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

from billing.models import MonthClose
from billing.months import month_of, month_previous, month_span, months_between
from billing.rating import Cell, LineStatus, Slots, rate_usage
from billing.selectors.checklist import month_due
from billing.states import CloseState
from gpuaas.core import clock
from tenants.actors import Actor
from tenants.selectors import platform_require


@dataclass(frozen=True)
class MonthSum:
    """totals by currency; quarantined: number of lines without a price, so without an amount."""

    month: date
    closed: bool
    totals: dict[str, Decimal]
    quarantined: int


def months_behind(*, actor: Actor, now: datetime | None = None) -> list[MonthSum]:
    """The previous month and all older ones that are not closed, oldest first; rated in one pass."""
    platform_require(actor=actor)
    moment = now or clock.now()
    last = month_previous(month_of(moment))
    first = min(month_due(now=moment), last)
    months = months_between(month_span(first).starts_at, month_span(last).starts_at)
    spans = [month_span(month) for month in months]
    cells = rate_usage(slots=Slots([span.day for span in spans], spans), now=moment, projects=None)
    closed = set(
        MonthClose.objects.filter(state=CloseState.CLOSED, month__in=months).values_list("month", flat=True)
    )
    cells_of: dict[date, list[Cell]] = {month: [] for month in months}
    for cell in cells:
        cells_of[cell.month].append(cell)
    return [
        MonthSum(
            month=month,
            closed=month in closed,
            totals=totals_of(rows),
            quarantined=sum(row.status is LineStatus.QUARANTINED for row in rows),
        )
        for month, rows in cells_of.items()
    ]


def totals_of(cells: Iterable[Cell]) -> dict[str, Decimal]:
    """By currency; quarantined cells have no amount."""
    totals: dict[str, Decimal] = {}
    for cell in cells:
        if cell.amount is not None:
            totals[cell.currency] = totals.get(cell.currency, Decimal(0)) + cell.amount
    return dict(sorted(totals.items()))
