"""The SQL that writes documents: usage becomes lines and shares, these become documents. Runs in a transaction of its
caller.

Nothing is decided here: services decide what is closed or corrected, the database checks that it adds up.
"""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from itertools import groupby
from operator import itemgetter
from time import monotonic
from typing import Any

from django.conf import settings
from django.db import connection

from billing.models import InvoiceSeries
from billing.months import billing_zone, month_days, month_span
from billing.rating import Slots, rated_sql
from billing.states import PREFIXES, InvoiceKind
from billing.tariffs import sql_text
from gpuaas.core.clock import whole_second

# the most of a batch: what is in memory at once, and how often progress is told
INTERVALS, ORGANIZATIONS = 4_000, 200


@dataclass
class Steps:
    """What was done, for the operator: a name, how many rows, how long. The same step of several batches is one."""

    done: list[dict[str, Any]] = field(default_factory=list)
    began: float = field(default_factory=monotonic)

    def add(self, name: str, rows: int) -> None:
        now = monotonic()
        step = next((each for each in self.done if each["name"] == name), None)
        if step is None:
            step = {"name": name, "rows": 0, "seconds": 0.0}
            self.done.append(step)
        step["rows"] += rows
        step["seconds"] = round(step["seconds"] + now - self.began, 3)
        self.began = now


@dataclass(frozen=True)
class Batch:
    """Organizations that are rated and written together; their projects by the month that is rated."""

    organizations: tuple[uuid.UUID, ...]
    projects: Mapping[date, Sequence[uuid.UUID]]


@dataclass(frozen=True)
class Party:
    """The recipient of a document, as it is frozen on it."""

    organization_id: uuid.UUID
    slug: str
    currency: str
    tax_rate_bp: int
    tax_label: str
    name: str
    address: str
    reference: str


def sql_run(name: str, parameters: dict[str, Any] | None = None) -> int:
    """Returns how many rows the statement wrote."""
    with connection.cursor() as cursor:
        cursor.execute(sql_text(name), parameters)
        rows: int = cursor.rowcount
    return rows


def tables_make() -> None:
    sql_run("close_tables")


def tables_clear() -> None:
    """Empties the tables for the next batch."""
    sql_run("close_next")


def parties_write(parties: Iterable[Party]) -> None:
    columns = (
        "organization_id",
        "slug",
        "currency",
        "tax_rate_bp",
        "tax_label",
        "name",
        "address",
        "reference",
    )
    rows = [tuple(getattr(party, column) for column in columns) for party in parties]
    with connection.cursor() as cursor:
        cursor.executemany("INSERT INTO close_account VALUES (%s, %s, %s, %s, %s, %s, %s, %s)", rows)


def changed_find(*, month: date, earlier: Sequence[date]) -> list[Batch]:
    """Whose usage is rated: of the month everything, of `earlier` closed months those that changed since they were
    rated.

    Read before the usage itself: changes in between are found by the next close, so nothing is lost. Batches are in
    the order in which invoices are numbered.
    """
    months = [*earlier, month]
    spans = [month_span(each) for each in months]
    parameters = {
        "month": month,
        "months": months,
        "starts": [span.starts_at for span in spans],
        "ends": [span.ends_at for span in spans],
    }
    sql_run("close_prints", parameters)
    sql_run("close_changed", parameters)
    return _batches_read()


def month_find(*, month: date) -> list[Batch]:
    """All that a closed month is or was rated from."""
    span = month_span(month)
    parameters = {"month": month, "months": [month], "starts": [span.starts_at], "ends": [span.ends_at]}
    sql_run("close_prints", parameters)
    sql_run("final_changed", parameters)
    return _batches_read()


def _batches_read() -> list[Batch]:
    with connection.cursor() as cursor:
        cursor.execute(sql_text("close_batches"))
        return batches_of(cursor.fetchall())


def batches_of(rows: Iterable[tuple[uuid.UUID, date, Sequence[uuid.UUID], int]]) -> list[Batch]:
    """Rows of (organization, month, projects, intervals), grouped by organization, in batches of a bounded size.

    An organization is never split, so the memory needed depends on the largest organization, not on the platform.
    """
    batches: list[Batch] = []
    organizations: list[uuid.UUID] = []
    projects: dict[date, list[uuid.UUID]] = {}
    size = 0
    for organization, of_it in groupby(rows, key=itemgetter(0)):
        parts = list(of_it)
        added = sum(intervals for *_, intervals in parts)
        if organizations and (size + added > INTERVALS or len(organizations) >= ORGANIZATIONS):
            batches.append(Batch(tuple(organizations), projects))
            organizations, projects, size = [], {}, 0
        organizations.append(organization)
        size += added
        for _, month, named, _ in parts:
            projects.setdefault(month, []).extend(named)
    return [*batches, Batch(tuple(organizations), projects)] if organizations else batches


def cells_write(*, month: date, projects: Sequence[uuid.UUID], now: datetime) -> int:
    """Rates the month by workspace and day; open usage counts to the end of the month."""
    days = month_days(month)
    moment = max(whole_second(now), month_span(month).ends_at)
    sql, parameters = rated_sql(
        slots=Slots([month] * len(days), days), now=moment, projects=projects, by_holder=True
    )
    with connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO close_cell {sql} {sql_text('close_cells')}", parameters)
        rows: int = cursor.rowcount
    return rows


def numbers_take(*, kind: InvoiceKind, now: datetime, count: int) -> tuple[str, int]:
    """The series of the year and the first of `count` numbers. The series stays locked until the transaction ends."""
    name = f"{PREFIXES[kind]}-{now.astimezone(billing_zone()).year}"
    InvoiceSeries.objects.bulk_create([InvoiceSeries(name=name)], ignore_conflicts=True)
    series = InvoiceSeries.objects.select_for_update().get(name=name)
    first = series.next_number
    InvoiceSeries.objects.filter(pk=name).update(next_number=first + count)
    return name, first


def documents_write(*, now: datetime, by: str, steps: Steps) -> list[uuid.UUID]:
    """Writes heads, lines, shares, fingerprints and ledger entries from the tables of the close; returns their ids."""
    due_on = (now.astimezone(billing_zone()) + timedelta(days=settings.BILLING_DUE_DAYS)).date()
    parameters = {"now": now, "by": by, "due_on": due_on}
    steps.add("invoices", sql_run("issue_invoices", parameters))
    steps.add("lines", sql_run("issue_lines"))
    steps.add("shares", sql_run("issue_shares"))
    with connection.cursor() as cursor:
        cursor.execute("SELECT id FROM close_invoice ORDER BY number")
        made = [pk for (pk,) in cursor.fetchall()]
        cursor.execute(
            f"UPDATE billing_invoice b SET content_hash = h.hash FROM ({sql_text('invoice_hash')}) h "  # noqa: S608  a file of ours
            "WHERE b.id = h.id",
            {"invoices": made},
        )
    steps.add("fingerprints", len(made))
    steps.add("ledger", sql_run("issue_ledger", parameters))
    return made
