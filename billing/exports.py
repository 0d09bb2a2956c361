"""Statements and other tables as CSV, row by row: amounts as exact decimals, quarantined lines with an empty amount."""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence

from billing.selectors import Statement

NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?")
COLUMNS = (
    "month",
    "project",
    "flavor",
    "gpu_type",
    "meter",
    "price_class",
    "status",
    "unit_price",
    "unit_seconds",
    "amount",
    "currency",
)


class _Echo:
    """A file that hands back what is written to it, so that csv can stream."""

    def write(self, text: str) -> str:
        return text


def statement_csv(*, statement: Statement) -> Iterator[str]:
    """RFC 4180 rows with a header; the amounts add up to the statement's total."""
    writer = csv.writer(_Echo())
    yield writer.writerow(COLUMNS)
    for line in statement.lines:
        yield writer.writerow(
            (
                f"{line.month:%Y-%m}",
                line.project,
                line.flavor or line.resource,
                line.gpu_type or "",
                line.meter.value,
                line.price_class,
                line.status.value,
                "" if line.unit_price is None else str(line.unit_price),
                line.unit_seconds,
                "" if line.amount is None else str(line.amount),
                statement.currency,
            )
        )


def rows_csv(rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Any table as CSV, row by row. A spreadsheet must not run what somebody named a project."""
    writer = csv.writer(_Echo())
    for row in rows:
        yield writer.writerow([_harmless(cell) for cell in row])


def _harmless(cell: object) -> object:
    if not isinstance(cell, str) or cell[:1] not in {"=", "+", "-", "@", "\t", "\r"}:
        return cell
    return cell if NUMBER.fullmatch(cell) else f"'{cell}"
