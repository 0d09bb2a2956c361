"""Statements, intervals and other tables as CSV, row by row: amounts as exact decimals, quarantined lines with an empty amount."""

from collections.abc import Iterable, Iterator, Sequence

from django.db.models import BigIntegerField, Case, F, Q, QuerySet, When
from django.db.models.functions import Coalesce

from billing.selectors import Statement
from billing.wares import quantity_words
from gpuaas.core.csv_cells import csv_cell
from gpuaas.metering.models import TOKEN_METERS, UsageInterval

CHUNK = 2000  # rows

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
    "quantity",
    "unit",
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
    *("site__slug", "flavor__slug", "meter", "counted_shown", "ended_by", "owner", "node"),
)
# as `UsageInterval.holder_name`: who looks at a cluster that waited in another project does not learn its later name
HOLDER = Case(
    When(Q(cluster__isnull=False) & ~Q(cluster__project=F("project")), then=F("consumer_name")),
    default=Coalesce("workspace__name", "cluster__name"),
)
# as `UsageInterval.counted`
COUNTED = Case(
    When(meter__in=TOKEN_METERS, ended_at=F("started_at"), then=0),
    default=F("quantity"),
    output_field=BigIntegerField(),
)


def statement_csv(*, statement: Statement) -> Iterator[str]:
    """RFC 4180 rows with a header; the amounts add up to the statement's total."""
    return rows_csv(_statement_rows(statement))


def interval_rows(*, intervals: QuerySet[UsageInterval]) -> Iterator[Sequence[object]]:
    """Header first; as metered: whole seconds, UTC; an open interval has no end. Read by a cursor, with only the
    columns shown."""
    yield INTERVAL_COLUMNS
    shown = intervals.annotate(holder_shown=HOLDER, counted_shown=COUNTED).values_list(*INTERVAL_FIELDS)
    for key, project, cluster, started_at, ended_at, surplus, *words in shown.iterator(chunk_size=CHUNK):
        holder, consumer, site, flavor, meter, quantity, ended_by, owner, node = words
        yield (
            *(str(key), project, "cluster" if cluster else "workspace", holder, consumer, site, flavor or ""),
            *(meter, quantity, started_at, ended_at, ended_by, owner, node),
            "surplus" if surplus else "",
        )


def rows_csv(rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Any table as CSV, row by row."""
    for row in rows:
        yield ",".join(map(csv_cell, row)) + "\r\n"


def _statement_rows(statement: Statement) -> Iterator[Sequence[object]]:
    yield COLUMNS
    for line in statement.lines:
        yield (
            *(f"{line.month:%Y-%m}", line.project, line.flavor or line.resource, line.gpu_type or ""),
            *(line.meter.value, line.price_class, line.status.value),
            line.unit_price,
            line.unit_seconds,
            line.amount,
            line.currency,
            *quantity_words(line.meter, line.unit_seconds),
        )
