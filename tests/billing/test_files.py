"""Files in, files out: the lines agree with a second-by-second count, and every bad row is named."""

import csv
import random
from collections import Counter
from datetime import UTC, datetime, timedelta, timezone
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.core.management import CommandError, call_command
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

USAGE = "id,project,workspace,flavor,meter,price_class,quantity,start,end"
RATES = "flavor,meter,price_class,from,to,price"
BERLIN = ZoneInfo("Europe/Berlin")
OCTOBER = datetime(2026, 10, 1, tzinfo=BERLIN).astimezone(UTC)
NOVEMBER = datetime(2026, 11, 1, tzinfo=BERLIN).astimezone(UTC)
RATE = "h100,gpu_held,on_demand,2026-01-01T00:00:00Z,,2.40"

pytestmark = pytest.mark.django_db


def run(folder: Path, usage: list[str], rates: list[str], **options: str) -> list[dict[str, str]]:
    (folder / "usage.csv").write_text("\n".join([USAGE, *usage]) + "\n")
    (folder / "rates.csv").write_text("\n".join([RATES, *rates]) + "\n")
    given = {"timezone": "Europe/Berlin", "currency": "EUR", "month": "2026-10", **options}
    call_command(
        "rate", usage=folder / "usage.csv", rates=folder / "rates.csv", out=folder / "lines.csv", **given
    )
    with (folder / "lines.csv").open() as file:
        return list(csv.DictReader(file))


def refused(
    folder: Path, capsys: pytest.CaptureFixture[str], usage: list[str], rates: list[str]
) -> list[str]:
    """The complaints; nothing may have been written."""
    with pytest.raises(CommandError, match="nothing was written"):
        run(folder, usage, rates)
    assert not (folder / "lines.csv").exists()
    return capsys.readouterr().err.splitlines()


def used(
    number: int | str = 1,
    *,
    start: str = "2026-10-05T10:00:00Z",
    end: str = "2026-10-05T12:00:00Z",
    **more: str,
) -> str:
    row = {
        "project": "nlp",
        "workspace": "train",
        "flavor": "h100",
        "meter": "gpu_held",
        "quantity": "1",
        **more,
    }
    names = [
        row["project"],
        row["workspace"],
        row["flavor"],
        row["meter"],
        row.get("price_class", "on_demand"),
    ]
    return ",".join([str(number), *names, row["quantity"], start, end])


def test_a_line_holds_one_price_and_is_exact(tmp_path: Path) -> None:
    rates = [
        "h100,gpu_held,on_demand,2026-01-01T00:00:00Z,2026-10-05T11:00:00Z,2.00",
        "h100,gpu_held,on_demand,2026-10-05T13:00:00+02:00,,3",
    ]
    assert run(tmp_path, [used(quantity="2")], rates) == [
        {
            "project": "nlp",
            "flavor": "h100",
            "meter": "gpu_held",
            "price_class": "on_demand",
            "price": price,
            "unit_seconds": "7200",
            "amount": amount,
        }
        for price, amount in (("2.00", "4.00"), ("3.00", "6.00"))
    ]


@pytest.mark.parametrize(
    ("month", "seconds", "amount"),
    [("2026-10", "2682000", "745.00"), ("2026-03", "2674800", "743.00"), ("2026-01", "2678400", "744.00")],
)
def test_a_month_has_the_hours_of_its_time_zone(
    tmp_path: Path, month: str, seconds: str, amount: str
) -> None:
    usage = [used(start="2025-12-01T00:00:00Z", end="2026-12-01T00:00:00Z")]
    rates = ["h100,gpu_held,on_demand,2025-01-01T00:00:00Z,,1"]
    (line,) = run(tmp_path, usage, rates, month=month)
    assert (line["unit_seconds"], line["amount"]) == (seconds, amount)


@pytest.mark.parametrize(
    ("currency", "price", "seconds", "amount"),
    [
        ("EUR", "0.18", 100, "0.01"),  # exactly half a cent
        ("EUR", "0.179999", 100, "0.00"),
        ("JPY", "300", 6, "1"),
        ("JPY", "299.999999", 6, "0"),
        ("KWD", "0.018", 100, "0.001"),
    ],
)
def test_half_of_the_smallest_coin_rounds_up(
    tmp_path: Path, currency: str, price: str, seconds: int, amount: str
) -> None:
    end = datetime(2026, 10, 5, 10, tzinfo=UTC) + timedelta(seconds=seconds)
    usage = [used(end=end.isoformat())]
    (line,) = run(
        tmp_path, usage, [f"h100,gpu_held,on_demand,2026-01-01T00:00:00Z,,{price}"], currency=currency
    )
    assert line["amount"] == amount


def test_a_row_that_comes_twice_counts_once_however_its_times_are_written(tmp_path: Path) -> None:
    again = used(start="2026-10-05T12:00:00+02:00", end="2026-10-05t12:00:00z", quantity="01")
    (line,) = run(tmp_path, [used(), again, used(2)], [RATE])
    assert line["unit_seconds"] == "14400"


def test_lines_are_sorted_and_usage_outside_of_the_month_needs_no_rate(tmp_path: Path) -> None:
    usage = [
        used(1, project="zoo"),
        used(2, flavor="a100"),
        used(3, meter="gpu_allocated"),
        used(4, flavor="unknown", start="2026-09-05T10:00:00Z", end="2026-09-30T22:00:00Z"),
        used(5, flavor="", meter="storage_held", workspace="", quantity="100"),
    ]
    rates = [
        RATE,
        RATE.replace("h100", "a100"),
        RATE.replace("gpu_held", "gpu_allocated"),
        ",storage_held,on_demand,2026-01-01T00:00:00Z,,0.0002",
    ]
    lines = run(tmp_path, usage, rates)
    keys = [(line["project"], line["flavor"], line["meter"]) for line in lines]
    assert keys == sorted(keys)
    assert keys[0] == ("nlp", "", "storage_held")
    assert [line["amount"] for line in lines] == ["0.04", "4.80", "4.80", "4.80"]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (used(start="2026-10-05T10:00:00.5Z"), "start '2026-10-05T10:00:00.5Z' is no RFC 3339"),
        (used(start="2026-10-05T10:00:00"), "is no RFC 3339"),
        (used(start="2026-02-30T10:00:00Z"), "is no RFC 3339"),
        (used(start="0001-01-01T00:00:00+14:00"), "is no RFC 3339"),
        (used(end="2026-10-05T09:59:59Z"), "before the start"),
        (used(quantity="1.5"), "no whole number"),
        (used(quantity="-1"), "no whole number"),
        (used(quantity="1_0"), "no whole number"),
        (used(quantity="٣"), "no whole number"),
        (used(quantity=""), "no whole number"),
        (used(project=""), "project is empty"),
        (used(""), "id is empty"),
        (used() + ",more", "10 cells"),
        ("1,nlp", "2 cells"),
        (used(flavor="b200"), "no rate for b200"),
        (
            used(start="2025-12-31T23:00:00Z", end="2026-10-02T00:00:00Z", price_class="spot"),
            "no rate for h100",
        ),
    ],
)
def test_a_bad_row_of_usage_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], row: str, words: str
) -> None:
    (said,) = refused(tmp_path, capsys, [used("good"), row], [RATE])
    assert said.startswith("usage.csv:3: ")
    assert words in said


@pytest.mark.parametrize(
    ("rows", "lines", "words"),
    [
        (["h100,gpu_held,on_demand,2026-01-01T00:00:00Z,,-1"], [2], "no decimal number"),
        (["h100,gpu_held,on_demand,2026-01-01T00:00:00Z,,1e3"], [2], "no decimal number"),
        (["h100,gpu_held,on_demand,2026-01-01T00:00:00Z,,NaN"], [2], "no decimal number"),
        (["h100,gpu_held,on_demand,2026-01-01T00:00:00Z,,0.1234567"], [2], "at most 6 places"),
        (["h100,gpu_held,on_demand,2026-01-01,,1"], [2], "is no RFC 3339"),
        (["h100,gpu_held,on_demand,2026-01-01T00:00:00Z,2026-01-01T00:00:00Z,1"], [2], "not after its start"),
        ([RATE, RATE], [3], "overlaps"),
        (
            [
                "h100,gpu_held,on_demand,2026-01-01T00:00:00Z,2026-10-20T00:00:00Z,1",
                "h100,gpu_held,on_demand,2026-10-20T00:00:01Z,,1",
            ],
            [3],
            "gap",
        ),
        (["h100,gpu_held,on_demand,2026-10-05T10:00:01Z,,1"], [], "for 1 s of its time"),
    ],
)
def test_a_bad_row_of_rates_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], rows: list[str], lines: list[int], words: str
) -> None:
    said = refused(tmp_path, capsys, [used()], rows)
    assert [text.partition(": ")[0] for text in said] == (
        [f"rates.csv:{line}" for line in lines] or ["usage.csv:2"]
    )
    assert words in said[0]


def test_every_bad_row_is_reported_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    usage = [
        used(),
        used(quantity="9"),
        used(3, quantity="x"),
        used(4, flavor="b200"),
        used(5, flavor="a100"),
    ]
    rates = [RATE, RATE, "a100,gpu_held,on_demand,never,,1"]
    said = refused(tmp_path, capsys, usage, rates)
    places = [text.partition(": ")[0] for text in said]
    assert places == ["rates.csv:3", "rates.csv:4", "usage.csv:3", "usage.csv:4", "usage.csv:5"]
    assert "another meaning in line 2" in said[2]


@pytest.mark.parametrize(
    "options", [{"timezone": "Europe/Atlantis"}, {"timezone": ""}, {"currency": "euro"}, {"month": "2026-13"}]
)
def test_options_that_mean_nothing_are_refused(tmp_path: Path, options: dict[str, str]) -> None:
    with pytest.raises(CommandError):
        run(tmp_path, [used()], [RATE], **options)
    assert not (tmp_path / "lines.csv").exists()


def test_files_that_are_none_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "usage.csv").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "rates.csv").write_text("price,flavor\n")
    options: dict[str, Any] = {
        "rates": tmp_path / "rates.csv",
        "out": tmp_path / "lines.csv",
        "timezone": "UTC",
        "currency": "EUR",
        "month": "2026-10",
    }
    with pytest.raises(CommandError, match="nothing was written"):
        call_command("rate", usage=tmp_path / "usage.csv", **options)
    said = capsys.readouterr().err
    assert "rates.csv:1: the header has to be" in said
    assert "usage.csv:1: this is no CSV" in said
    with pytest.raises(CommandError, match="No such file"):
        call_command("rate", usage=tmp_path / "none.csv", **options)


ORIGIN = NOVEMBER - timedelta(seconds=300)
intervals = st.lists(
    st.tuples(
        st.integers(0, 600),
        st.integers(0, 400),
        st.integers(0, 9),
        st.sampled_from("ab"),
        st.sampled_from("xy"),
    ),
    max_size=8,
)
changes = st.lists(
    st.tuples(st.integers(1, 900), st.integers(0, 9_999_999)), max_size=3, unique_by=lambda c: c[0]
)


@given(usage=intervals, prices=changes, seed=st.integers(0, 99))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_lines_agree_with_a_count_second_by_second(
    tmp_path: Path, usage: Any, prices: Any, seed: int
) -> None:
    """In any order, with rows repeated and times of any offset."""
    steps = [(-10_000_000, 1_000_000), *sorted(prices)]
    ends = [start for start, _ in steps[1:]] + [None]
    rates = [
        f"{flavor},gpu_held,on_demand,{_text(start)},{'' if end is None else _text(end)},{Decimal(micro).scaleb(-6):f}"
        for flavor in "xy"
        for (start, micro), end in zip(steps, ends, strict=True)
    ]
    rows = [
        used(
            n,
            project=project,
            flavor=flavor,
            quantity=str(quantity),
            start=_text(s, n),
            end=_text(s + lasts, -n),
        )
        for n, (s, lasts, quantity, project, flavor) in enumerate(usage)
    ]
    rows += rows[::2]
    random.Random(seed).shuffle(rows)
    for month, first, last in (
        ("2026-10", OCTOBER, NOVEMBER),
        ("2026-11", NOVEMBER, NOVEMBER + timedelta(days=9)),
    ):
        expected = _counted(usage, steps, first, last)
        found = run(tmp_path, rows, rates, month=month)
        assert {
            (line["project"], line["flavor"], int(Decimal(line["price"]) * 1_000_000)): (
                int(line["unit_seconds"]),
                Decimal(line["amount"]),
            )
            for line in found
        } == {key: (count, _cents(count, key[2])) for key, count in expected.items()}


def _counted(usage: Any, steps: Any, first: datetime, last: datetime) -> Counter[tuple[str, str, int]]:
    """Unit-seconds by project, flavor and price, one second after the other."""
    counted: Counter[tuple[str, str, int]] = Counter()
    for start, lasts, quantity, project, flavor in usage:
        for second in range(start, start + lasts):
            if first <= ORIGIN + timedelta(seconds=second) < last and quantity:
                micro = next(price for begins, price in reversed(steps) if begins <= second)
                counted[project, flavor, micro] += quantity
    return counted


def _text(second: int, offset: int = 0) -> str:
    return (ORIGIN + timedelta(seconds=second)).astimezone(timezone(timedelta(hours=offset))).isoformat()


def _cents(unit_seconds: int, micro: int) -> Decimal:
    exact = Fraction(unit_seconds * micro, 3600 * 10_000)
    return (Decimal(exact.numerator) / Decimal(exact.denominator)).quantize(
        Decimal(1), rounding=ROUND_HALF_UP
    ) / 100


def test_the_day_of_the_month_is_that_of_the_option(tmp_path: Path) -> None:
    """The portal's own billing time zone plays no part."""
    usage = [used(start="2026-10-31T22:30:00Z", end="2026-10-31T23:30:00Z")]
    assert [line["unit_seconds"] for line in run(tmp_path, usage, [RATE])] == ["1800"]
    assert [line["unit_seconds"] for line in run(tmp_path, usage, [RATE], timezone="UTC")] == ["3600"]
