"""Rows of usage.csv and rates.csv: read one by one, each either understood wholly or refused with its line number."""

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

USAGE = ("id", "project", "workspace", "flavor", "meter", "price_class", "quantity", "start", "end")
RATES = ("flavor", "meter", "price_class", "from", "to", "price")
# without these a row says nothing; storage has no flavor, and what a project holds need not be in a workspace
NEEDED = frozenset({"id", "project", "meter", "price_class"})

# RFC 3339, section 5.6, in whole seconds
_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_WHOLE = re.compile(r"\d{1,18}", re.ASCII)
_PRICE = re.compile(r"(\d{1,12})(?:\.(\d{1,6}))?", re.ASCII)

Value = str | int | datetime | None
Row = tuple[Value, ...]
Key = tuple[str, str, str]  # flavor, meter, price_class


@dataclass(frozen=True, order=True)
class BadRow:
    """`line` is where the row begins in the file, the header being line 1."""

    file: str
    line: int
    problem: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.problem}"


def usage_read(path: Path, bad: list[BadRow]) -> Iterator[Row]:
    """(line, id, project, workspace, flavor, meter, price_class, quantity, start, end); what is wrong goes to `bad`."""
    for line, cells in _cells(path, USAGE, bad):
        try:
            yield (line, *_usage(cells))
        except ValueError as error:
            bad.append(BadRow(path.name, line, str(error)))


def rates_read(path: Path, bad: list[BadRow], doubtful: set[Key]) -> Iterator[Row]:
    """(line, flavor, meter, price_class, from, to, price in millionths). `doubtful`: keys of which a row was refused."""
    for line, cells in _cells(path, RATES, bad):
        try:
            yield (line, *_rate(cells))
        except ValueError as error:
            doubtful.add((cells[0], cells[1], cells[2]))
            bad.append(BadRow(path.name, line, str(error)))


def _usage(cells: Sequence[str]) -> Row:
    start, end = _time("start", cells[7]), _time("end", cells[8])
    if end < start:
        raise ValueError(f"the end {cells[8]} is before the start {cells[7]}")
    return (*_names(USAGE[:6], cells), _whole("quantity", cells[6]), start, end)


def _rate(cells: Sequence[str]) -> Row:
    start, end = _time("from", cells[3]), _time("to", cells[4]) if cells[4] else None
    if end is not None and end <= start:
        raise ValueError(f"the rate ends at {cells[4]}, which is not after its start {cells[3]}")
    return (*_names(RATES[:3], cells), start, end, _price(cells[5]))


def _cells(path: Path, columns: Sequence[str], bad: list[BadRow]) -> Iterator[tuple[int, list[str]]]:
    """Rows with as many cells as there are columns. A file with another header has no rows that could be understood."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, strict=True)
        begins = 1
        while True:
            try:
                cells = next(reader, None)
            except (csv.Error, UnicodeDecodeError) as error:
                bad.append(BadRow(path.name, begins, f"this is no CSV in UTF-8: {error}"))
                return
            if cells is None and begins > 1:
                return
            if begins == 1 and tuple(cells or ()) != tuple(columns):
                bad.append(BadRow(path.name, 1, f"the header has to be {','.join(columns)}"))
                return
            if begins > 1 and cells:
                if len(cells) == len(columns):
                    yield begins, cells
                else:
                    problem = f"{len(cells)} cells where there are {len(columns)} columns"
                    bad.append(BadRow(path.name, begins, problem))
            begins = reader.line_num + 1


def _names(columns: Sequence[str], cells: Sequence[str]) -> tuple[str, ...]:
    for column, cell in zip(columns, cells, strict=False):
        if not cell and column in NEEDED:
            raise ValueError(f"{column} is empty")
        if "\x00" in cell:
            raise ValueError(f"{column} holds a NUL character")
    return tuple(cells[: len(columns)])


def _whole(column: str, text: str) -> int:
    if not _WHOLE.fullmatch(text):
        raise ValueError(f"{column} {text!r} is no whole number of 0 or more")
    return int(text)


def _price(text: str) -> int:
    """Millionths."""
    found = _PRICE.fullmatch(text)
    if found is None:
        raise ValueError(
            f"price {text!r} is no decimal number of 0 or more with at most 6 places, such as 2.40"
        )
    return int(found[1]) * 1_000_000 + int((found[2] or "").ljust(6, "0"))


def _time(column: str, text: str) -> datetime:
    problem = f"{column} {text!r} is no RFC 3339 time in whole seconds, such as 2026-10-01T00:00:00Z"
    if not _TIME.fullmatch(text):
        raise ValueError(problem)
    try:
        return datetime.fromisoformat(text.upper()).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ValueError(problem) from error
