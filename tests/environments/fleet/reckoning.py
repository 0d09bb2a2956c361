"""What an invoice has to say, worked out from what was used and from the prices that were set, with fractions.

Written from `billing/rating.md`: cut at months and at changes of price (2), rounded once per line (4), shared out by the largest
remainder (5). `tests/billing/oracle.py` counts second by second, which the hours of two hundred environments are too many for.
"""

import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from fractions import Fraction
from math import floor

from billing.months import month_days, months_between

CENT = 3600 * 10_000  # unit-seconds times millionths in one


@dataclass(frozen=True)
class Used:
    """Over [start, end), in whole seconds. flavor: its slug, "" where there is none."""

    workspace: uuid.UUID
    project: str
    flavor: str
    meter: str
    quantity: int
    start: datetime
    end: datetime


@dataclass(frozen=True)
class Priced:
    flavor: str
    meter: str
    micro: int
    start: datetime


@dataclass(frozen=True, order=True)
class Line:
    """micro: None where the meter has no price; what it counts is included then, and costs 0."""

    month: date
    project: str
    flavor: str
    meter: str
    micro: int | None


Part = tuple[date, uuid.UUID]  # a day of a workspace
Parts = dict[Line, Counter[Part]]


def parts_of(usage: Iterable[Used], prices: Sequence[Priced]) -> Parts:
    """Unit-seconds of each line, by day and workspace."""
    found: Parts = {}
    for used in usage:
        for start, end, micro in _priced(used, prices):
            for day, seconds in _days(start, end):
                line = Line(day.replace(day=1), used.project, used.flavor, used.meter, micro)
                found.setdefault(line, Counter())[day, used.workspace] += seconds * used.quantity
    return found


def cents(line: Line, unit_seconds: int) -> int:
    return floor(Fraction(unit_seconds * (line.micro or 0), CENT) + Fraction(1, 2))


def shares(line: Line, parts: Counter[Part]) -> dict[Part, int]:
    """Of the line's cents, by the largest remainder; ties to the earlier day, then the lower id."""
    exact = {part: Fraction(seconds * (line.micro or 0), CENT) for part, seconds in parts.items()}
    whole = {part: floor(each) for part, each in exact.items()}
    left = cents(line, parts.total()) - sum(whole.values())
    first = sorted(exact, key=lambda part: (whole[part] - exact[part], part[0], str(part[1])))
    return {part: whole[part] + (part in first[:left]) for part in whole}


def _priced(used: Used, prices: Sequence[Priced]) -> Iterator[tuple[datetime, datetime, int | None]]:
    """Each price holds until the next one of the same ware begins; before the first there is none."""
    ware = used.flavor, used.meter
    mine: list[tuple[datetime, int | None]] = []
    mine += sorted((each.start, each.micro) for each in prices if (each.flavor, each.meter) == ware)
    if not mine or used.start < mine[0][0]:
        mine.insert(0, (used.start, None))
    ends = [start for start, _ in mine[1:]] + [used.end]
    for (start, micro), end in zip(mine, ends, strict=True):
        if max(start, used.start) < min(end, used.end):
            yield max(start, used.start), min(end, used.end), micro


def _days(start: datetime, end: datetime) -> Iterator[tuple[date, int]]:
    for month in months_between(start, end):
        for span in month_days(month):
            seconds = int((min(end, span.ends_at) - max(start, span.starts_at)).total_seconds())
            if seconds > 0:
                yield span.day, seconds
