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
