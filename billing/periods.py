"""The period of a budget that holds a moment: days of the billing time zone, converted once to UTC."""

from dataclasses import dataclass
from datetime import date, datetime, timedelta

from billing.models import Budget, Period
from billing.months import Span, billing_zone, day_span, month_next


@dataclass(frozen=True)
class BudgetPeriod:
    """From `first` to `last`, both inclusive; `span` is the same in UTC."""

    first: date
    last: date
    span: Span

    @property
    def words(self) -> str:
        if self.first.day == 1 and self.last == month_next(self.first) - timedelta(days=1):
            return f"{self.first:%B %Y}"
        return f"{self.first.day} {self.first:%b} to {self.last.day} {self.last:%b %Y}"


def period_at(budget: Budget, *, now: datetime) -> BudgetPeriod | None:
    """None before and after a fixed period."""
    today = now.astimezone(billing_zone()).date()
    if budget.period == Period.FIXED:
        if (
            budget.starts_on is None
            or budget.ends_on is None
            or not budget.starts_on <= today <= budget.ends_on
        ):
            return None
        return _period(budget.starts_on, budget.ends_on)
    first = today.replace(day=1)
    if budget.period == Period.MONTH:
        return _period(first, month_next(first) - timedelta(days=1))
    first = date(today.year, 3 * ((today.month - 1) // 3) + 1, 1)
    return _period(first, month_next(month_next(month_next(first))) - timedelta(days=1))


def _period(first: date, last: date) -> BudgetPeriod:
    starts_at = day_span(first).starts_at
    return BudgetPeriod(first, last, Span(first, starts_at, day_span(last).ends_at))
