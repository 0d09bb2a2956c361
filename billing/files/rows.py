"""Rows of usage.csv and rates.csv, read one by one; each is parsed completely or refused with its line number."""

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

USAGE = ("id", "project", "workspace", "flavor", "meter", "price_class", "quantity", "start", "end")
RATES = ("flavor", "meter", "price_class", "from", "to", "price")
# without these a row says nothing; storage has no flavor, and what a project holds need not be in a workspace
NEEDED = frozenset({"id", "project", "meter", "price_class"})

# RFC 3339, section 5.6, in whole seconds. Later Pythons take 24:00:00 for midnight and minutes of an offset above 59.
_TIME = re.compile(
    r"\d{4}-\d\d-\d\d[Tt ]([01]\d|2[0-3]):[0-5]\d:[0-5]\d([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)", re.ASCII
)
_WHOLE = re.compile(r"\d{1,30}", re.ASCII)
_PRICE = re.compile(r"(\d{1,30})(?:\.(\d{1,6}))?", re.ASCII)
_NO_TEXT = re.compile("[\x00\ud800-\udfff]")

Value = str | int | datetime | None
Row = tuple[Value, ...]
Key = tuple[str, str, str]  # flavor, meter, price_class


@dataclass(frozen=True, order=True)
class BadRow:
    """`line` is where the row starts in the file, the header being line 1."""

    file: str
    line: int
    problem: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {' '.join(self.problem.split())}"


@dataclass
class Doubts:
    """Keys that refused rows of rates.csv may have covered, or all: usage of these may have a rate after all."""

    keys: set[Key] = field(default_factory=set)
    all: bool = False

    def about(self, cells: Sequence[str]) -> None:
        if len(cells) >= 3:
            self.keys.add((cells[0], cells[1], cells[2]))


def usage_read(path: Path, bad: list[BadRow]) -> Iterator[Row]:
    """(line, id, project, workspace, flavor, meter, price_class, quantity, start, end); errors go to `bad`."""
    for line, cells in _cells(path, USAGE, bad, Doubts()):
        try:
            yield (line, *_usage(cells))
        except ValueError as error:
            bad.append(BadRow(path.name, line, str(error)))


def rates_read(path: Path, bad: list[BadRow], doubts: Doubts) -> Iterator[Row]:
    """(line, flavor, meter, price_class, from, to, price in millionths); errors go to `bad` and `doubts`."""
    for line, cells in _cells(path, RATES, bad, doubts):
        try:
            yield (line, *_rate(cells))
        except ValueError as error:
            doubts.about(cells)
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


def _cells(
    path: Path, columns: Sequence[str], bad: list[BadRow], doubts: Doubts
) -> Iterator[tuple[int, list[str]]]:
    """Rows with as many cells as there are columns. A file with another header has no valid rows."""
    rows = _rows(path)
    _, header = next(rows, (1, []))
    if header != list(columns):
        doubts.all = True
        bad.append(BadRow(path.name, 1, f"the header must be {','.join(columns)}, in UTF-8"))
        return
    for line, cells in rows:
        if isinstance(cells, str):
            problem = cells
        elif len(cells) != len(columns):
            problem = f"{len(cells)} cells instead of {len(columns)}, which are {','.join(columns)}"
        else:
            yield line, cells
            continue
        doubts.about(cells if isinstance(cells, list) else [])
        bad.append(BadRow(path.name, line, problem))


def _rows(path: Path) -> Iterator[tuple[int, list[str] | str]]:
    """(first line, cells or the error). Blank lines are skipped.

    Bytes that are not UTF-8 arrive as surrogates: the decoder reads ahead, so its own error would not know the line.
    """
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        reader = csv.reader(file, strict=True)
        while True:
            begins = reader.line_num + 1
            try:
                cells = next(reader, None)
            except csv.Error as error:
                yield begins, f"this is not valid CSV: {error}"
                continue
            if cells is None:
                return
            if any(map(_NO_TEXT.search, cells)):
                yield begins, "this is not UTF-8 text, or it contains a NUL character"
            elif cells or begins == 1:
                yield begins, cells


def _names(columns: Sequence[str], cells: Sequence[str]) -> tuple[str, ...]:
    for column, cell in zip(columns, cells, strict=False):
        if not cell and column in NEEDED:
            raise ValueError(f"{column} is empty")
    return tuple(cells[: len(columns)])


def _whole(column: str, text: str) -> int:
    if not _WHOLE.fullmatch(text):
        raise ValueError(f"{column} {text!r} is not a whole number of 0 or more")
    return int(text)


def _price(text: str) -> int:
    """In millionths."""
    match = _PRICE.fullmatch(text)
    if match is None:
        raise ValueError(
            f"price {text!r} is not a decimal number of 0 or more with at most 6 decimal places, such as 2.40"
        )
    return int(match[1]) * 1_000_000 + int((match[2] or "").ljust(6, "0"))


def _time(column: str, text: str) -> datetime:
    problem = f"{column} {text!r} is not an RFC 3339 time in whole seconds, such as 2026-10-01T00:00:00Z"
    if not _TIME.fullmatch(text):
        raise ValueError(problem)
    try:
        return datetime.fromisoformat(text.upper()).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ValueError(problem) from error
