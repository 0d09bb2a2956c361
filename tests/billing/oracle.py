"""A biller that counts second by second with fractions: slow, obvious, and written without a look at the SQL."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from math import floor


@dataclass(frozen=True)
class Used:
    start: datetime
    end: datetime
    quantity: int


@dataclass(frozen=True)
class Priced:
    start: datetime
    end: datetime | None
    micro: int


def price_at(rates: Iterable[Priced], at: datetime) -> int | None:
    for rate in rates:
        if rate.start <= at and (rate.end is None or at < rate.end):
            return rate.micro
    return None


def lines(
    usage: Iterable[Used], rates: list[Priced], start: datetime, end: datetime
) -> dict[int | None, tuple[int, int | None]]:
    """Unit price → (unit-seconds, cents) of one flavor and meter in [start, end); price None has no cents."""
    seconds: dict[int | None, int] = {}
    for used in usage:
        at = max(used.start, start)
        while at < min(used.end, end):
            micro = price_at(rates, at)
            seconds[micro] = seconds.get(micro, 0) + used.quantity
            at += timedelta(seconds=1)
    return {
        micro: (count, None if micro is None else cents(count, micro)) for micro, count in seconds.items()
    }


def cents(unit_seconds: int, micro: int) -> int:
    """Half up."""
    return floor(Fraction(unit_seconds * micro, 3600) / 10_000 + Fraction(1, 2))


@dataclass(frozen=True)
class Terms:
    """A price with what may be agreed on. tiers: (from unit-hours, millionths), lowest first."""

    start: datetime
    end: datetime | None
    micro: int
    tier_mode: str
    tiers: list[tuple[int, int]]
    increment: int
    minimum: int


@dataclass(frozen=True)
class Lowered:
    """A discount over [start, end)."""

    start: datetime
    end: datetime
    basis_points: int


def lines_by_terms(
    usage: Iterable[Used], rates: list[Terms], discounts: list[Lowered], start: datetime, end: datetime
) -> dict[int | None, tuple[int, int | None]]:
    """As `lines`. Every unit-second has a place in its rate's month, in the order of time, and so a tier."""
    held: dict[datetime, int] = {}
    for used in (padded(one, rates) for one in usage):
        at = max(used.start, start)
        while at < min(used.end, end):
            held[at] = held.get(at, 0) + used.quantity
            at += timedelta(seconds=1)
    totals: dict[datetime, int] = {}
    for at, units in held.items():
        if (rate := terms_at(rates, at)) is not None:
            totals[rate.start] = totals.get(rate.start, 0) + units
    reached: dict[datetime, int] = {}
    seconds: dict[int | None, int] = {}
    for at in sorted(held):
        rate = terms_at(rates, at)
        if rate is None:
            seconds[None] = seconds.get(None, 0) + held[at]
            continue
        before = reached.get(rate.start, 0)
        reached[rate.start] = before + held[at]
        for place in range(before, before + held[at]):
            micro = tier_price(rate, totals[rate.start] if rate.tier_mode == "volume" else place)
            price = lowered(micro, discounts, at)
            seconds[price] = seconds.get(price, 0) + 1
    return {
        price: (units, None if price is None else cents(units, price)) for price, units in seconds.items()
    }


def padded(used: Used, rates: list[Terms]) -> Used:
    rate = terms_at(rates, used.start)
    if rate is None:
        return used
    lasts = int((used.end - used.start).total_seconds())
    while lasts % rate.increment:
        lasts += 1
    return Used(used.start, used.start + timedelta(seconds=max(lasts, rate.minimum)), used.quantity)


def terms_at(rates: list[Terms], at: datetime) -> Terms | None:
    return next((rate for rate in rates if rate.start <= at and (rate.end is None or at < rate.end)), None)


def tier_price(rate: Terms, place: int) -> int:
    """Of the unit-second with `place` before it (graduated), or of a month with so many (volume)."""
    reached = [micro for hours, micro in rate.tiers if place >= hours * 3600]
    return reached[-1] if reached else rate.micro


def lowered(micro: int, discounts: list[Lowered], at: datetime) -> int:
    """Half up to the millionth."""
    points = next((row.basis_points for row in discounts if row.start <= at < row.end), 0)
    return floor(Fraction(micro * (10_000 - points), 10_000) + Fraction(1, 2))
