"""Files in, files out: the lines agree with a second-by-second count, and every bad row is named."""

import csv
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

USAGE = "id,project,workspace,flavor,meter,price_class,quantity,start,end"
RATES = "flavor,meter,price_class,from,to,price"
RATE = "h100,gpu_held,on_demand,2026-01-01T00:00:00Z,,2.40"

pytestmark = pytest.mark.django_db


def run(folder: Path, usage: list[str], rates: list[str], **options: str) -> list[dict[str, str]]:
    for name, rows in (("usage.csv", [USAGE, *usage]), ("rates.csv", [RATES, *rates])):
        (folder / name).write_text("\n".join(rows) + "\n", encoding="utf-8", errors="surrogateescape")
    given = {"timezone": "Europe/Berlin", "currency": "EUR", "month": "2026-10", **options}
    call_command(
        "rate", usage=folder / "usage.csv", rates=folder / "rates.csv", out=folder / "lines.csv", **given
    )
    with (folder / "lines.csv").open(encoding="utf-8", newline="") as file:
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
    ("zone", "month", "amount"),
    [
        ("Europe/Berlin", "2026-10", "745.00"),
        ("Europe/Berlin", "2026-03", "743.00"),
        ("Europe/Berlin", "2026-01", "744.00"),
        ("America/New_York", "2026-03", "743.00"),
        ("America/New_York", "2026-11", "721.00"),
        ("Australia/Lord_Howe", "2026-04", "720.50"),
        ("Australia/Lord_Howe", "2026-10", "743.50"),
        ("Asia/Kathmandu", "2026-10", "744.00"),
        ("Pacific/Apia", "2011-12", "720.00"),  # had no 30 December
        ("UTC", "2028-02", "696.00"),
    ],
)
def test_a_month_has_the_hours_of_its_time_zone(tmp_path: Path, zone: str, month: str, amount: str) -> None:
    usage = [used(start="2000-01-01T00:00:00Z", end="2099-12-31T00:00:00Z")]
    rates = ["h100,gpu_held,on_demand,1999-01-01T00:00:00Z,,1"]
    (line,) = run(tmp_path, usage, rates, month=month, timezone=zone)
    assert (int(line["unit_seconds"]) / 3600, line["amount"]) == (float(amount), amount)


def test_a_bound_of_the_month_lies_where_the_zone_has_it(tmp_path: Path) -> None:
    """Kathmandu is 5 h 45 min ahead."""
    usage = [used(start="2026-09-30T18:14:59Z", end="2026-09-30T18:15:02Z")]
    (line,) = run(tmp_path, usage, [RATE], timezone="Asia/Kathmandu")
    assert line["unit_seconds"] == "2"


def test_numbers_of_any_size_are_exact(tmp_path: Path) -> None:
    quantity, price = 10**30 - 1, 10**30 - 1
    rates = [f"h100,gpu_held,on_demand,2026-01-01T00:00:00Z,,{price}.999999"]
    (line,) = run(tmp_path, [used(quantity=str(quantity))], rates)
    cents, rest = divmod(2 * quantity * (price * 10**6 + 999_999), 10_000)
    cents += rest >= 5_000
    assert line["unit_seconds"] == str(7200 * quantity)
    assert line["amount"] == f"{cents // 100}.{cents % 100:02d}"


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
        (used(start="2026-10-05T10:00:00.000Z"), "is not an RFC 3339"),
        (used(start="2026-10-04T24:00:00Z"), "is not an RFC 3339"),
        (used(start="2026-10-05T09:59:60Z"), "is not an RFC 3339"),
        (used(start="2026-10-05T10:00Z"), "is not an RFC 3339"),
        (used(start="20261005T100000Z"), "is not an RFC 3339"),
        (used(start="2026-10-05T10:00:00+0200"), "is not an RFC 3339"),
        (used(start="2026-10-05T10:00:00+24:00"), "is not an RFC 3339"),
        (used(start="2026-10-05T10:00:00+01:60"), "is not an RFC 3339"),
        (used(start=""), "is not an RFC 3339"),
        (used(start="2026-10-05T10:00:00.5Z"), "start '2026-10-05T10:00:00.5Z' is not an RFC 3339"),
        (used(start="2026-10-05T10:00:00"), "is not an RFC 3339"),
        (used(start="2026-02-30T10:00:00Z"), "is not an RFC 3339"),
        (used(start="0001-01-01T00:00:00+14:00"), "is not an RFC 3339"),
        (used(end="2026-10-05T09:59:59Z"), "before the start"),
        (used(quantity="1.5"), "not a whole number"),
        (used(quantity="-1"), "not a whole number"),
        (used(quantity="1_0"), "not a whole number"),
        (used(quantity="٣"), "not a whole number"),
        (used(quantity=""), "not a whole number"),
        (used(project=""), "project is empty"),
        (used(""), "id is empty"),
        (used(project="caf\udce9"), "not UTF-8 text"),
        (used(project="a\x00b"), "a NUL character"),
        (used(project='"nlp"x'), "not valid CSV"),
        (used() + ",more", "10 cells instead of 9, which are id,project,workspace,"),
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
        (["h100,gpu_held,on_demand,2026-01-01T00:00:00Z,,-1"], [2], "not a decimal number"),
        (["h100,gpu_held,on_demand,2026-01-01T00:00:00Z,,1e3"], [2], "not a decimal number"),
        (["h100,gpu_held,on_demand,2026-01-01T00:00:00Z,,NaN"], [2], "not a decimal number"),
        (["h100,gpu_held,on_demand,2026-01-01T00:00:00Z,,0.1234567"], [2], "at most 6 decimal places"),
        (["h100,gpu_held,on_demand,2026-01-01,,1"], [2], "is not an RFC 3339"),
        (["h100,gpu_held,on_demand,2026-01-01T00:00:00Z,2026-01-01T00:00:00Z,1"], [2], "not after its start"),
        (
            [RATE, RATE],
            [3],
            "from 2026-01-01T00:00:00Z overlaps the rate before it, whose to is empty",
        ),
        (
            [
                "h100,gpu_held,on_demand,2026-01-01T00:00:00Z,2026-10-20T00:00:00Z,1",
                "h100,gpu_held,on_demand,2026-10-19T23:59:59Z,,1",
            ],
            [3],
            "from 2026-10-19T23:59:59Z overlaps the rate before it, whose to is 2026-10-20T00:00:00Z",
        ),
        (
            [
                "h100,gpu_held,on_demand,2026-01-01T00:00:00Z,2026-10-20T00:00:00Z,1",
                "h100,gpu_held,on_demand,2026-10-20T00:00:01Z,,1",
            ],
            [3],
            "from 2026-10-20T00:00:01Z leaves a gap after the rate before it, whose to is 2026-10-20T00:00:00Z",
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


def test_a_gap_is_found_under_rates_that_overlap(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Three times the second hour is not the first hour as well."""
    rates = ["h100,gpu_held,on_demand,2026-10-05T11:00:00Z,,1"] * 3
    said = refused(tmp_path, capsys, [used()], rates)
    places = [text.partition(": ")[0] for text in said]
    assert places == ["rates.csv:3", "rates.csv:4", "usage.csv:2"]
    assert "for 3600 s of its time" in said[2]


def test_rows_are_told_by_the_lines_on_which_they_begin(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bytes of no text far into the file, cells of several lines, blank ones: all that is wrong has its own number."""
    usage = [used(number) for number in range(2000)]
    usage += [
        "",
        '"two\nlines",' + used().partition(",")[2],
        used("\udcff"),
        used("x", quantity="-1"),
        '9,"open',
    ]
    said = refused(tmp_path, capsys, usage, [RATE])
    assert [text.partition(": ")[0] for text in said] == [f"usage.csv:{line}" for line in (2005, 2006, 2007)]
    assert "unexpected end" in said[2]


def test_files_of_spreadsheets_are_read(tmp_path: Path) -> None:
    """A byte order mark, CRLF, blank lines, quoted cells; names that need quotes come back as they were."""
    usage = ["", used("1", project='"a, ""b""\r\nß"'), "", used('"2"', project="Ω"), ""]
    rows = {"usage.csv": [USAGE, *usage], "rates.csv": [RATES, RATE, ""]}
    for name, lines in rows.items():
        (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).encode())
    assert command(tmp_path) == (0, "")
    with (tmp_path / "lines.csv").open(encoding="utf-8", newline="") as file:
        assert [line["project"] for line in csv.DictReader(file)] == ['a, "b"\r\nß', "Ω"]


def command(folder: Path, **options: str) -> tuple[int, str]:
    """The exit code of `manage.py rate`, and what it says at its end."""
    given = {"timezone": "Europe/Berlin", "currency": "EUR", "month": "2026-10"}
    for name, file in (("usage", "usage.csv"), ("rates", "rates.csv"), ("out", "lines.csv")):
        given[name] = str(folder / file)
    try:
        call_command("rate", *(f"--{name}={text}" for name, text in {**given, **options}.items()))
    except CommandError as error:
        return error.returncode, str(error)
    return 0, ""


def test_what_was_written_before_stays_where_rows_are_refused(tmp_path: Path) -> None:
    run(tmp_path, [used()], [RATE])
    before = (tmp_path / "lines.csv").read_bytes()
    (tmp_path / "usage.csv").write_text(f"{USAGE}\n{used()}\n{used(quantity='x')}\n")
    assert command(tmp_path) == (1, "1 rows cannot be rated; nothing was written")
    assert (tmp_path / "lines.csv").read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} == {"usage.csv", "rates.csv", "lines.csv"}


def test_no_table_of_the_portal_is_touched(tmp_path: Path) -> None:
    with CaptureQueriesContext(connection) as seen:
        run(tmp_path, [used()], [RATE])
    text = " ".join(query["sql"] for query in seen)
    assert "file_usage" in text
    portal = set(connection.introspection.django_table_names())
    assert not [name for name in portal if name in text]


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
    ("options", "words"),
    [
        ({"timezone": "Europe/Atlantis"}, "unknown time zone 'Europe/Atlantis'"),
        ({"timezone": "Europe"}, "unknown time zone 'Europe'"),
        ({"timezone": "../zone"}, "unknown time zone"),
        ({"timezone": ""}, "unknown time zone"),
        ({"currency": "euro"}, "its three-letter ISO 4217 code"),
        ({"month": "2026-13"}, "a month as YYYY-MM"),
        ({"month": "2026-1"}, "a month as YYYY-MM"),
        ({"out": "/no/such/folder/lines.csv"}, "/no/such/folder/lines.csv cannot be written"),
        ({"out": "/"}, "/ cannot be written"),
        ({"usage": "/no/such/file.csv"}, "No such file or directory"),
    ],
)
def test_options_that_mean_nothing_are_refused(tmp_path: Path, options: dict[str, str], words: str) -> None:
    run(tmp_path, [used()], [RATE])
    (tmp_path / "lines.csv").unlink()
    code, said = command(tmp_path, **options)
    assert code == 1
    assert words in said
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
    assert "rates.csv:1: the header must be" in said
    assert "usage.csv:1: the header must be" in said
    with pytest.raises(CommandError, match="No such file"):
        call_command("rate", usage=tmp_path / "none.csv", **options)


def test_the_day_of_the_month_is_that_of_the_option(tmp_path: Path) -> None:
    """The portal's own billing time zone plays no part."""
    usage = [used(start="2026-10-31T22:30:00Z", end="2026-10-31T23:30:00Z")]
    assert [line["unit_seconds"] for line in run(tmp_path, usage, [RATE])] == ["1800"]
    assert [line["unit_seconds"] for line in run(tmp_path, usage, [RATE], timezone="UTC")] == ["3600"]
