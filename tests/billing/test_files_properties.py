"""Files of random usage and prices, in any order, zone, offset and currency: the lines are what is counted second by second."""

import random
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from math import floor
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from billing.money import minor_places
from billing.months import month_span
from tests.billing.test_files import run

pytestmark = pytest.mark.django_db
BOUNDED = settings(
    max_examples=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
Steps = list[tuple[int, int]]  # from which second on, millionths
Lines = dict[tuple[str, str, int], tuple[int, Decimal]]


class Used(NamedTuple):
    """Seconds since ORIGIN, which is shortly before a month's end."""

    start: int
    lasts: int
    quantity: int
    project: str
    flavor: str


intervals = st.lists(
    st.builds(
        Used,
        st.integers(0, 600),
        st.integers(0, 400),
        st.integers(0, 9) | st.just(10**12),
        st.sampled_from("ab"),
        st.sampled_from("xy"),
    ),
    max_size=8,
)
changes = st.lists(
    st.tuples(st.integers(1, 900), st.integers(0, 9_999_999)), max_size=3, unique_by=lambda change: change[0]
)
zones = st.sampled_from(
    ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Pacific/Chatham", "UTC"]
)
currencies = st.sampled_from(["EUR", "JPY", "KWD", "CLF"])


class Case:
    """Usage and prices around the end of October 2026 in a zone, as files and as a count."""

    def __init__(self, usage: list[Used], prices: Steps, zone: str, currency: str = "EUR") -> None:
        self.usage, self.currency, self.zone = usage, currency, ZoneInfo(zone)
        self.steps: Steps = [(-10_000_000, 1_000_000), *sorted(prices)]
        self.bound = month_span(date(2026, 11, 1), self.zone).starts_at
        self.origin = self.bound - timedelta(seconds=300)

    def rates(self) -> list[str]:
        ends = [start for start, _ in self.steps[1:]] + [None]
        return [
            f"{flavor},gpu_held,on_demand,{self._text(start)},{'' if end is None else self._text(end)},"
            f"{Decimal(micro).scaleb(-6):f}"
            for flavor in "xy"
            for (start, micro), end in zip(self.steps, ends, strict=True)
        ]

    def rows(self, usage: Iterable[Used] | None = None, *, offset: int = 0) -> list[str]:
        return [
            f"{number},{u.project},train,{u.flavor},gpu_held,on_demand,{u.quantity},"
            f"{self._text(u.start, number + offset)},{self._text(u.start + u.lasts, -number)}"
            for number, u in enumerate(self.usage if usage is None else usage)
        ]

    def rated(self, folder: Path, month: str, rows: list[str] | None = None) -> Lines:
        found = run(
            folder,
            self.rows() if rows is None else rows,
            self.rates(),
            month=month,
            timezone=str(self.zone),
            currency=self.currency,
        )
        return {
            (line["project"], line["flavor"], int(Decimal(line["price"]) * 1_000_000)): (
                int(line["unit_seconds"]),
                Decimal(line["amount"]),
            )
            for line in found
        }

    def counted(self, first: datetime, last: datetime) -> Lines:
        """One second after the other, with fractions."""
        counted: Counter[tuple[str, str, int]] = Counter()
        for used in self.usage:
            for second in range(used.start, used.start + used.lasts):
                if first <= self.origin + timedelta(seconds=second) < last and used.quantity:
                    micro = next(price for begins, price in reversed(self.steps) if begins <= second)
                    counted[used.project, used.flavor, micro] += used.quantity
        return {key: (units, self._amount(units * key[2])) for key, units in counted.items()}

    def _amount(self, numerator: int) -> Decimal:
        smallest = int(10 ** minor_places(self.currency))
        return Decimal(floor(Fraction(numerator * smallest, 3600 * 10**6) + Fraction(1, 2))) / smallest

    def _text(self, second: int, offset: int = 0) -> str:
        zone = timezone(timedelta(minutes=45 * offset))
        return (self.origin + timedelta(seconds=second)).astimezone(zone).isoformat()


@given(usage=intervals, prices=changes, seed=st.integers(0, 99), zone=zones, currency=currencies)
@BOUNDED
def test_lines_agree_with_a_count_second_by_second(
    tmp_path: Path, usage: list[Used], prices: Steps, seed: int, zone: str, currency: str
) -> None:
    """In any order, with rows repeated and times of any offset."""
    case = Case(usage, prices, zone, currency)
    rows = case.rows()
    rows += case.rows(offset=3)[::2]
    random.Random(seed).shuffle(rows)
    ends = datetime(2027, 1, 1, tzinfo=UTC)
    assert case.rated(tmp_path, "2026-10", rows) == case.counted(case.bound - timedelta(days=9), case.bound)
    assert case.rated(tmp_path, "2026-11", rows) == case.counted(case.bound, ends)


@given(usage=intervals, prices=changes, seed=st.integers(0, 99), zone=zones)
@BOUNDED
def test_order_and_repetition_change_no_byte(
    tmp_path: Path, usage: list[Used], prices: Steps, seed: int, zone: str
) -> None:
    case = Case(usage, prices, zone)
    case.rated(tmp_path, "2026-11")
    before = (tmp_path / "lines.csv").read_bytes()
    rows = [*case.rows(), *case.rows(offset=1)]
    random.Random(seed).shuffle(rows)
    case.rated(tmp_path, "2026-11", rows)
    assert (tmp_path / "lines.csv").read_bytes() == before


@given(usage=intervals, prices=changes, zone=zones, cut=st.integers(1, 399))
@BOUNDED
def test_cutting_rows_changes_no_byte(
    tmp_path: Path, usage: list[Used], prices: Steps, zone: str, cut: int
) -> None:
    case = Case(usage, prices, zone)
    pieces = [
        piece
        for used in usage
        for piece in (
            used._replace(lasts=min(cut, used.lasts)),
            used._replace(start=used.start + cut, lasts=used.lasts - cut),
        )
        if piece.lasts > 0
    ]
    case.rated(tmp_path, "2026-11")
    before = (tmp_path / "lines.csv").read_bytes()
    case.rated(tmp_path, "2026-11", case.rows(pieces))
    assert (tmp_path / "lines.csv").read_bytes() == before


@given(usage=intervals, prices=changes, zone=zones)
@BOUNDED
def test_months_share_out_all_seconds_and_no_more(
    tmp_path: Path, usage: list[Used], prices: Steps, zone: str
) -> None:
    case = Case(usage, prices, zone)
    months = [case.rated(tmp_path, month) for month in ("2026-09", "2026-10", "2026-11", "2026-12")]
    billed = sum(units for lines in months for units, _ in lines.values())
    assert billed == sum(used.lasts * used.quantity for used in usage)
    year = case.counted(case.bound - timedelta(days=99), case.bound + timedelta(days=99))
    for key, (units, _) in year.items():
        assert sum(lines[key][0] for lines in months if key in lines) == units


@given(usage=intervals, prices=changes, zone=zones, more=intervals)
@BOUNDED
def test_more_usage_costs_no_less_and_projects_add_up(
    tmp_path: Path, usage: list[Used], prices: Steps, zone: str, more: list[Used]
) -> None:
    case = Case(usage, prices, zone)
    before = case.rated(tmp_path, "2026-11")
    after = case.rated(tmp_path, "2026-11", case.rows([*usage, *more]))
    assert all(after[key][1] >= amount for key, (_, amount) in before.items())
    alone = [
        case.rated(tmp_path, "2026-11", case.rows([used for used in usage if used.project == project]))
        for project in "ab"
    ]
    assert {**alone[0], **alone[1]} == before
