"""Where budgets stand: spent so far, expected by the end of the period, and whether a day is unusual.

All budgets at once: what was used is rated in one pass, what is still to come in a second one, in which everything that
is held now is held until the period ends. So the forecast is made by the very code that will make the invoice.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from statistics import median_low
from typing import Any

from django.db import connection

from billing.models import Budget, Measure
from billing.months import Span, billing_zone, day_span, month_next
from billing.periods import BudgetPeriod, period_at
from billing.rating import Slots, rated_sql, sql_text
from tenants.models import Project

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
    """Amounts as the budget counts them: minor units or GPU-seconds. Out of its fixed period there is none."""

    budget: Budget
    period: BudgetPeriod
    at: datetime
    spent: int
    forecast: int
    anomaly: Anomaly | None = None

    @property
    def percent(self) -> int:
        """Rounded down: 100 is said when it is reached."""
        return self.spent * 100 // self.budget.amount

    def reached(self, percent: int) -> bool:
        return self.spent * 100 >= self.budget.amount * percent


@dataclass(frozen=True)
class Window:
    """The days that are counted for a budget."""

    budget: Budget
    first: date
    last: date


def budgets_read(budgets: Sequence[Budget], *, now: datetime) -> dict[uuid.UUID, Reading]:
    """By budget; 3 queries however many there are. Budgets out of their fixed period have no reading."""
    today = now.astimezone(billing_zone()).date()
    periods = [(row, found) for row in budgets if (found := period_at(row, now=now)) is not None]
    if not periods:
        return {}
    history = today - timedelta(days=HISTORY_DAYS + 1)
    so_far = _days([Window(row, min(found.first, history), today) for row, found in periods], now=now)
    month = today.replace(day=1)
    end = max(found.span.ends_at for _, found in periods)
    to_come = _days([Window(row, month, found.last) for row, found in periods], now=now, until=end)
    readings = {}
    for row, found in periods:
        days, later = so_far.get(row.pk, {}), to_come.get(row.pk, {})
        before = _sum(days, found.first, min(today, month - timedelta(days=1)))
        readings[row.pk] = Reading(
            budget=row,
            period=found,
            at=now,
            spent=_sum(days, found.first, today),
            forecast=before + _sum(later, max(found.first, month), found.last),
            anomaly=anomaly_of(days, today),
        )
    return readings


def anomaly_of(days: Days, today: date) -> Anomaly | None:
    """Today so far or yesterday, the worse, where it is at least three times the median of the four weeks before."""
    yesterday = today - timedelta(days=1)
    past = [days.get(yesterday - timedelta(days=number), 0) for number in range(1, HISTORY_DAYS + 1)]
    used = [spent for spent in past if spent]
    if len(used) < HISTORY_LEAST:
        return None
    usual = median_low(used)
    day = max((yesterday, today), key=lambda one: days.get(one, 0))
    spent = days.get(day, 0)
    return Anomaly(day, spent, usual) if spent >= UNUSUAL * usual else None


def _days(
    windows: Sequence[Window], *, now: datetime, until: datetime | None = None
) -> dict[uuid.UUID, Days]:
    """By budget and day what it counts. Whole months are rated, as lines are rounded by month."""
    first = min(window.first for window in windows).replace(day=1)
    last = max(window.last for window in windows)
    money = {window.budget.pk: window.budget.measure == Measure.MONEY for window in windows}
    found: dict[uuid.UUID, Days] = {}
    for budget, day, minor, gpu_seconds in _rated(windows, _spans(first, last), now, until):
        found.setdefault(budget, {})[day] = minor if money[budget] else gpu_seconds
    return found


def _rated(
    windows: Sequence[Window], spans: Sequence[Span], now: datetime, until: datetime | None
) -> list[tuple[Any, ...]]:
    """(budget, day, minor units, GPU-seconds). With `until`, all that is open now is taken to stay so until then."""
    budgets = [window.budget for window in windows]
    slots = Slots([span.day.replace(day=1) for span in spans], spans)
    sql, parameters = rated_sql(slots=slots, now=until or now, projects=_projects(budgets), by_workspace=True)
    parameters |= {
        "budgets": [row.pk for row in budgets],
        "organizations": [row.organization_id for row in budgets],
        "own_projects": [row.project_id for row in budgets],
        "workspaces": [row.workspace_id for row in budgets],
        "firsts": [window.first for window in windows],
        "lasts": [window.last for window in windows],
    }
    with connection.cursor() as cursor:
        cursor.execute(sql + sql_text("budget_days"), parameters)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


def _projects(budgets: Sequence[Budget]) -> list[uuid.UUID]:
    whole = {row.organization_id for row in budgets if row.project_id is None}
    named = {row.project_id for row in budgets if row.project_id is not None}
    below = Project.objects.filter(organization__in=whole).order_by().values_list("pk", flat=True)
    return [*named, *(pk for pk in below if pk not in named)]


def _spans(first: date, last: date) -> list[Span]:
    end = month_next(last)
    return [day_span(first + timedelta(days=number)) for number in range((end - first).days)]


def _sum(days: Days, first: date, last: date) -> int:
    return sum(spent for day, spent in days.items() if first <= day <= last)


def reading_of(budget: Budget, *, now: datetime) -> Reading | None:
    return budgets_read([budget], now=now).get(budget.pk)
