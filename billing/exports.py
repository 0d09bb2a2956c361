"""Statements, intervals and other tables as CSV, row by row: amounts as exact decimals, quarantined lines with an empty amount."""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

from django.db.models import QuerySet

from billing.selectors import Statement
from gpuaas.metering.models import UsageInterval

CHUNK = 2000  # rows

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
INTERVAL_COLUMNS = (
    *("id", "project", "held_by", "holder", "consumer", "site", "flavor", "meter", "quantity"),
    *("started_at", "ended_at", "ended_by", "owner", "node", "surplus"),
)


class _Echo:
    """A file that hands back what is written to it, so that csv can stream."""

    def write(self, text: str) -> str:
        return text


def statement_csv(*, statement: Statement) -> Iterator[str]:
    """RFC 4180 rows with a header; the amounts add up to the statement's total."""
    return rows_csv(_statement_rows(statement))


def interval_rows(*, intervals: QuerySet[UsageInterval]) -> Iterator[Sequence[object]]:
    """Header first; as metered: whole seconds, UTC; an open one has no end. Read by a cursor, not all at once."""
    yield INTERVAL_COLUMNS
    for row in intervals.iterator(chunk_size=CHUNK):
        yield (
            *(str(row.pk), row.project.slug, "cluster" if row.cluster_id else "workspace", row.holder_name),
            *(
                row.consumer_name,
                row.site.slug,
                row.flavor.slug if row.flavor else "",
                row.meter,
                row.quantity,
            ),
            *(_utc(row.started_at), _utc(row.ended_at), row.ended_by, row.owner, row.node),
            "surplus" if row.surplus else "",
        )


def rows_csv(rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Any table as CSV, row by row. A spreadsheet must not run what somebody named a project."""
    writer = csv.writer(_Echo())
    for row in rows:
        yield writer.writerow([_harmless(cell) for cell in row])


def _statement_rows(statement: Statement) -> Iterator[Sequence[object]]:
    yield COLUMNS
    for line in statement.lines:
        yield (
            *(f"{line.month:%Y-%m}", line.project, line.flavor or line.resource, line.gpu_type or ""),
            *(line.meter.value, line.price_class, line.status.value),
            "" if line.unit_price is None else str(line.unit_price),
            line.unit_seconds,
            "" if line.amount is None else str(line.amount),
            statement.currency,
        )


def _utc(moment: datetime | None) -> str:
    return "" if moment is None else moment.astimezone(UTC).isoformat()


def _harmless(cell: object) -> object:
    if not isinstance(cell, str) or cell[:1] not in {"=", "+", "-", "@", "\t", "\r"}:
        return cell
    return cell if NUMBER.fullmatch(cell) else f"'{cell}"
