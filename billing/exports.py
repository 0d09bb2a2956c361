"""Statements, intervals and other tables as CSV, row by row: amounts as exact decimals, quarantined lines with an empty amount."""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

from django.db.models import Case, F, Q, QuerySet, When
from django.db.models.functions import Coalesce

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
INTERVAL_FIELDS = (
    *(
        "pk",
        "project__slug",
        "cluster_id",
        "started_at",
        "ended_at",
        "surplus",
        "holder_shown",
        "consumer_name",
    ),
    *("site__slug", "flavor__slug", "meter", "quantity", "ended_by", "owner", "node"),
)
# as `UsageInterval.holder_name`: who looks at a cluster that waited in another project does not learn its later name
HOLDER = Case(
    When(Q(cluster__isnull=False) & ~Q(cluster__project=F("project")), then=F("consumer_name")),
    default=Coalesce("workspace__name", "cluster__name"),
)


class _Echo:
    """A file that returns what is written to it, so that csv can stream."""

    def write(self, text: str) -> str:
        return text


def statement_csv(*, statement: Statement) -> Iterator[str]:
    """RFC 4180 rows with a header; the amounts add up to the statement's total."""
    return rows_csv(_statement_rows(statement))


def interval_rows(*, intervals: QuerySet[UsageInterval]) -> Iterator[Sequence[object]]:
    """Header first; as metered: whole seconds, UTC; an open interval has no end. Read by a cursor, with only the
    columns shown."""
    yield INTERVAL_COLUMNS
    shown = intervals.annotate(holder_shown=HOLDER).values_list(*INTERVAL_FIELDS)
    for key, project, cluster, started_at, ended_at, surplus, *words in shown.iterator(chunk_size=CHUNK):
        holder, consumer, site, flavor, meter, quantity, ended_by, owner, node = words
        yield (
            *(str(key), project, "cluster" if cluster else "workspace", holder, consumer, site, flavor or ""),
            *(meter, quantity, _utc(started_at), _utc(ended_at), ended_by, owner, node),
            "surplus" if surplus else "",
        )


def rows_csv(rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Any table as CSV, row by row. Cells are escaped, because a spreadsheet must not run a formula in a project's
    name."""
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
            line.currency,
        )


def _utc(moment: datetime | None) -> str:
    return "" if moment is None else moment.astimezone(UTC).isoformat()


def _harmless(cell: object) -> object:
    if not isinstance(cell, str) or cell[:1] not in {"=", "+", "-", "@", "\t", "\r"}:
        return cell
    return cell if NUMBER.fullmatch(cell) else f"'{cell}"
