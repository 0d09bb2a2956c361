"""A biller that counts second by second with fractions: slow, obvious, and written without a look at the SQL."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fractions import Fraction
from itertools import pairwise
from math import floor
from typing import Any


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


def cents(unit_seconds: int, micro: int, places: int = 2) -> int:
    """Of a currency with so many decimal places. Half up."""
    return floor(Fraction(unit_seconds * micro, 3600 * int(10 ** (6 - places))) + Fraction(1, 2))


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
    usage: Iterable[Used],
    rates: list[Terms],
    discounts: list[Lowered],
    start: datetime,
    end: datetime,
    places: int = 2,
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
        for micro, units in tiered(rate, before, held[at], totals[rate.start]):
            price = lowered(micro, discounts, at)
            seconds[price] = seconds.get(price, 0) + units
    return {
        price: (units, None if price is None else cents(units, price, places))
        for price, units in seconds.items()
    }


def tiered(rate: Terms, before: int, units: int, total: int) -> Iterable[tuple[int, int]]:
    """So many unit-seconds with `before` of the month before them, by the price of their tier."""
    if rate.tier_mode == "volume":
        yield tier_price(rate, total), units
        return
    bounds = [hours * 3600 for hours, _ in rate.tiers if before < hours * 3600 < before + units]
    for first, last in pairwise([before, *bounds, before + units]):
        yield tier_price(rate, first), last - first


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


def tax(subtotal: int, basis_points: int) -> int:
    """Half up; of what is below zero the same with a minus."""
    amount = floor(Fraction(abs(subtotal) * basis_points, 10_000) + Fraction(1, 2))
    return amount if subtotal >= 0 else -amount


@dataclass
class Document:
    """A month's document with its notes. left: of each line, by its key, what neither a note nor a later document has taken
    back yet."""

    number: str
    month: Any
    left: dict[Any, int]
    subtotal: int
    total: int
    paid: dict[str, int] = field(default_factory=dict)  # by the number of the credit; MONEY for payments
    given: int = 0  # what became credit
    below_zero: str = ""  # the newest document of it below zero

    @property
    def open(self) -> int:
        return self.total - sum(self.paid.values()) + self.given


MONEY = "money"


class Books:
    """Who owes what: one organization's documents, credits and money, each step by hand."""

    def __init__(self, basis_points: int) -> None:
        self.basis_points = basis_points
        self.documents: list[Document] = []
        self.credits: dict[str, int] = {}  # what is left, the oldest first
        self.money = 0

    def issue(self, number: str, month: Any, lines: dict[tuple[Any, Any], int]) -> Document:
        """lines: by the month of their usage and what it is."""
        subtotal = sum(lines.values())
        total = subtotal + tax(subtotal, self.basis_points)
        for before in self.documents:
            for key in before.left.keys() & lines.keys():
                if key[0] == before.month:
                    before.left[key] += min(lines[key], 0)
        row = Document(number, month, dict(lines), subtotal, total)
        row.below_zero = number if total < 0 else ""
        self.documents.append(row)
        self.settle()
        return row

    def pay(self, amount: int) -> None:
        self.money += amount
        self.settle()

    def note(self, row: Document, number: str, key: Any, amount: int) -> int:
        """Returns the total of the note, whose tax is what the tax of all changes by."""
        total = amount + tax(row.subtotal + amount, self.basis_points) - tax(row.subtotal, self.basis_points)
        row.left[key] += amount
        row.subtotal += amount
        row.total += total
        if total < 0:
            row.below_zero = number
            self.give_back(row)
        self.settle()
        return total

    def give_back(self, row: Document) -> None:
        """What is paid above the total goes back: money first, then the newest credit first."""
        newest = [name for name in reversed(self.credits) if name in row.paid]
        for name in [MONEY, *newest]:
            part = min(-row.open, row.paid.get(name, 0))
            if part > 0:
                row.paid[name] -= part
                self.take(name, -part)

    def take(self, name: str, part: int) -> None:
        if name == MONEY:
            self.money -= part
        else:
            self.credits[name] -= part

    def settle(self) -> None:
        """What is below zero is a credit; the oldest document is paid first, by the oldest credit first, then by money."""
        for row in self.documents:
            if row.open < 0:
                self.credits[row.below_zero] = self.credits.get(row.below_zero, 0) - row.open
                row.given -= row.open
        for row in self.documents:
            for name, left in [*self.credits.items(), (MONEY, self.money)]:
                part = min(left, row.open)
                if part > 0:
                    row.paid[name] = row.paid.get(name, 0) + part
                    self.take(name, part)
