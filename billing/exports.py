"""Statements as CSV, row by row: amounts as exact decimals, quarantined lines with an empty amount."""

import csv
from collections.abc import Iterator

from billing.selectors import Statement

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
