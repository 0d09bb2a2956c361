"""Months and days of the billing time zone, converted once to UTC (DST makes months of 743 and 745 hours)."""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from gpuaas.core import clock
from gpuaas.core.errors import Invalid

MONTH_PATTERN = re.compile(r"\A([0-9]{4})-(0[1-9]|1[0-2])\Z")
billing_zone = clock.billing_zone


@dataclass(frozen=True)
class Span:
    """[starts_at, ends_at) in UTC; `day` is its first day in the billing time zone."""

    day: date
    starts_at: datetime
    ends_at: datetime

    @property
    def seconds(self) -> int:
        return int((self.ends_at - self.starts_at).total_seconds())


def month_parse(text: str) -> date:
    """The first day of a month written 2026-11. Raises Invalid on `month`."""
    match = MONTH_PATTERN.match(text)
    year = int(match[1]) if match else 0
    if match is None or not clock.FIRST_YEAR <= year <= clock.LAST_YEAR:
        raise Invalid.field("month", "write a month as YYYY-MM, for example 2026-11")
    return date(year, int(match[2]), 1)


def month_of(at: datetime) -> date:
    """The month in which an instant lies, by the billing time zone."""
    return at.astimezone(billing_zone()).date().replace(day=1)


def month_next(month: date) -> date:
    return (month.replace(day=1) + timedelta(days=32)).replace(day=1)


def month_previous(month: date) -> date:
    return (month.replace(day=1) - timedelta(days=1)).replace(day=1)


def month_span(month: date, zone: ZoneInfo | None = None) -> Span:
    """By the billing time zone where none is named."""
    first = month.replace(day=1)
    return Span(first, _midnight(first, zone), _midnight(month_next(first), zone))


def month_days(month: date) -> list[Span]:
    first, following = month.replace(day=1), month_next(month)
    days = [first + timedelta(days=number) for number in range((following - first).days)]
    return [day_span(day) for day in days]


def day_span(day: date) -> Span:
    return Span(day, _midnight(day), _midnight(day + timedelta(days=1)))


def months_between(starts_at: datetime, ends_at: datetime) -> list[date]:
    """Every month that [starts_at, ends_at] touches, in order."""
    months, last = [month_of(starts_at)], month_of(ends_at)
    while months[-1] < last:
        months.append(month_next(months[-1]))
    return months


def _midnight(day: date, zone: ZoneInfo | None = None) -> datetime:
    return datetime.combine(day, time(), tzinfo=zone or billing_zone()).astimezone(UTC)
