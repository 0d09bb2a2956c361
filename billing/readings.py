"""The state of budgets: spent so far, expected by the end of the period, and whether a day is unusual.

All budgets at once: past usage is rated in one pass; the future is what runs now, until each lease ends (running.py),
so that the forecast is the same as on every page.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from statistics import median_low
from typing import Any

from billing.forecasts import Owners, budgets_rest, counted_by, owners_of
from billing.models import Budget, Measure
from billing.months import Span, billing_zone, day_span, month_next
from billing.periods import BudgetPeriod, period_at
from billing.rating import Slots, rated_sql
from billing.tariffs import Tariff, rows_of, sql_text, tariff_read

HISTORY_DAYS = 28  # of which the usual day is the median
HISTORY_LEAST = 7  # days with usage, before there is a usual day
UNUSUAL = 3  # times the usual day

Days = dict[date, int]


@dataclass(frozen=True)
class Anomaly:
    """`times` the usual day, rounded down."""

    day: date
    spent: int
    usual: int

    @property
    def times(self) -> int:
        return self.spent // self.usual


@dataclass(frozen=True)
class Reading:
    """Amounts in the budget's measure: minor units or GPU-seconds. None outside a fixed period."""

    budget: Budget
    period: BudgetPeriod
    at: datetime
    spent: int
    forecast: int
    anomaly: Anomaly | None = None

    @property
    def percent(self) -> int:
        """Rounded down, so that 100 means reached."""
        return self.spent * 100 // self.budget.amount

    def reached(self, percent: int) -> bool:
        return self.spent * 100 >= self.budget.amount * percent


@dataclass(frozen=True)
class Window:
    """The days that count for a budget."""

    budget: Budget
    first: date
    last: date


def budgets_read(
    budgets: Sequence[Budget], *, now: datetime, anomalies: bool = True
) -> dict[uuid.UUID, Reading]:
    """By budget, in a bounded number of queries. Budgets outside their fixed period have no reading. Without anomalies the
    weeks before the period are not rated.

    The usage of one workspace or cluster is its share of the lines of its project, so these are rated by holder, separately.
    """
    today = now.astimezone(billing_zone()).date()
    periods = [(row, found) for row in budgets if (found := period_at(row, now=now)) is not None]
    if not periods:
        return {}
    history = today - timedelta(days=HISTORY_DAYS + 1 if anomalies else 0)
    windows = [Window(row, min(found.first, history), today) for row, found in periods]
    owners = owners_of(row for row, _ in periods)
    first, end = _whole_months(windows)
    tariff = tariff_read(
        first=day_span(first).starts_at,
        last=max(day_span(end).starts_at, *(found.span.ends_at for _, found in periods)),
        projects=list(owners),
    )
    so_far = _days(windows, now, owners, tariff)
    to_come = budgets_rest(periods, now=now, owners=owners, tariff=tariff)
    readings = {}
    for row, found in periods:
        days = so_far.get(row.pk, {})
        spent = _sum(days, found.first, today)
        readings[row.pk] = Reading(
            budget=row,
            period=found,
            at=now,
            spent=spent,
            forecast=spent + to_come[row.pk],
            anomaly=anomaly_of(days, today) if anomalies else None,
        )
    return readings


def anomaly_of(days: Days, today: date) -> Anomaly | None:
    """Today so far or yesterday, whichever is higher, if it is at least three times the median of the four weeks
    before."""
    yesterday = today - timedelta(days=1)
    past = [days.get(yesterday - timedelta(days=number), 0) for number in range(1, HISTORY_DAYS + 1)]
    used = [spent for spent in past if spent]
    if len(used) < HISTORY_LEAST:
        return None
    usual = median_low(used)
    day = max((yesterday, today), key=lambda one: days.get(one, 0))
    spent = days.get(day, 0)
    return Anomaly(day, spent, usual) if spent >= UNUSUAL * usual else None


def _days(windows: Sequence[Window], now: datetime, owners: Owners, tariff: Tariff) -> dict[uuid.UUID, Days]:
    """Amounts by budget and day. Full months are rated, because lines are rounded by month."""
    money = {window.budget.pk: window.budget.measure == Measure.MONEY for window in windows}
    days: dict[uuid.UUID, Days] = {}
    for by_holder in (False, True):
        asked = [window for window in windows if (window.budget.holder_id is not None) is by_holder]
        rows = _rated(asked, now, owners, tariff, by_holder=by_holder) if asked else ()
        for budget, day, minor, gpu_seconds in rows:
            days.setdefault(budget, {})[day] = minor if money[budget] else gpu_seconds
    return days


def _rated(
    windows: Sequence[Window], now: datetime, owners: Owners, tariff: Tariff, *, by_holder: bool
) -> list[tuple[Any, ...]]:
    """(budget, day, minor units, GPU-seconds)."""
    budgets = [window.budget for window in windows]
    spans = _spans(windows)
    sql, parameters = rated_sql(
        slots=Slots([span.day.replace(day=1) for span in spans], spans),
        now=now,
        projects=counted_by(budgets, owners),
        by_holder=by_holder,
        stored=True,
        tariff=tariff,
    )
    parameters |= {
        "budgets": [row.pk for row in budgets],
        "organizations": [row.organization_id for row in budgets],
        "own_projects": [row.project_id for row in budgets],
        "holders_of": [row.holder_id for row in budgets],
        "firsts": [window.first for window in windows],
        "lasts": [window.last for window in windows],
    }
    statement = sql + sql_text("cards") + sql_text("budget_days")
    return rows_of(statement, parameters, projects=parameters["projects_asked"])


def _whole_months(windows: Sequence[Window]) -> tuple[date, date]:
    """The first day of the months that the windows touch, and the day after their last one."""
    first = min(window.first for window in windows).replace(day=1)
    return first, month_next(max(window.last for window in windows))


def _spans(windows: Sequence[Window]) -> list[Span]:
    first, end = _whole_months(windows)
    return [day_span(first + timedelta(days=number)) for number in range((end - first).days)]


def _sum(days: Days, first: date, last: date) -> int:
    return sum(spent for day, spent in days.items() if first <= day <= last)


def reading_of(budget: Budget, *, now: datetime) -> Reading | None:
    return budgets_read([budget], now=now).get(budget.pk)
