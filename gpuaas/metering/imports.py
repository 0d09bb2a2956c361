"""Usage metered elsewhere, imported as intervals: set-based, with tables that end with the caller's transaction.

An interval's key is made from its id in the file: a repeated row, at once or later, is the same row. What one import
writes is a batch, which can be taken back whole. Imports and take-backs come one after the other (`imports_lock`), and
commit while no month is being closed (`closes_wait`), so that a close has counted all of a batch or nothing.
"""

import uuid
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from django.db import connection

from gpuaas.core.clock import TO_THE_MINUTE
from gpuaas.core.errors import Invalid
from gpuaas.core.sql import sql_read
from gpuaas.metering.final import final_until
from gpuaas.metering.models import STREAMED_METERS, Meter, UsageImport, UsageImportSum, UsageInterval
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.models import Project

SQL = Path(__file__).parent / "sql"
SHARED = [str(each) for each in (Meter.VCPU_HELD, Meter.MEMORY_HELD, Meter.STORAGE_HELD)]
DEVICES = [str(each) for each in (Meter.GPU_HELD, *STREAMED_METERS)]
EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)  # there are no months before
MOST = 1_000_000_000  # units; a month of as many still fits into what is rated
LONGEST = 253  # characters of an id, that of a consumer's name
LONGEST_NAME = 100
IMPORTS, CLOSES = (8191, 2), (8191, 3)  # advisory locks, taken in this order

Problem = tuple[int, str]  # the line, and what is wrong there
Spans = Sequence[tuple[date, datetime, datetime]]  # months, with the moments at which they start and end


class Overlap(StrEnum):
    """By what a new row's workspace, meter and GPUs are counted at the same time."""

    FILE = "file"
    IMPORTS = "imports"
    METERED = "metered"


@dataclass(frozen=True)
class Imported:
    """`rows` were read, `written` of them were new and not empty: those are the `batch`, None without any."""

    rows: int
    written: int
    batch: UsageImport | None = None
    sums: list[UsageImportSum] = field(default_factory=list)


def imports_lock() -> None:
    """Until the transaction ends, nobody else imports usage or takes a batch back."""
    _lock("pg_advisory_xact_lock", IMPORTS)


def closes_wait() -> None:
    """Waits for a close that is under way; until the transaction ends, none begins."""
    _lock("pg_advisory_xact_lock", CLOSES)


def closes_try() -> bool:
    """`closes_wait` for who does not wait: False if a close is under way."""
    return bool(_lock("pg_try_advisory_xact_lock", CLOSES))


def closes_share() -> None:
    """For whoever closes a month or makes it final: until the transaction ends, no batch comes or goes."""
    _lock("pg_advisory_xact_lock_shared", CLOSES)


def _lock(function: str, key: tuple[int, int]) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {function}(%s, %s)", key)
        return cursor.fetchall()[0][0]


def import_stage(*, rows: Iterable[Sequence[object]]) -> int:
    """Copies (line, id, project, workspace, flavor, meter, price_class, quantity, start, end) to staging tables;
    returns how many. Waits for another import that is under way."""
    count = 0
    with connection.cursor() as cursor:
        cursor.execute(sql_read(SQL, "import_tables"))
        with cursor.copy("COPY import_usage FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
                count += 1
        meters: dict[str, Any] = {"shared": SHARED, "devices": DEVICES}
        cursor.execute(sql_read(SQL, "import_keys"), meters)
        imports_lock()
        cursor.execute(sql_read(SQL, "import_told"), {"most": MOST, "longest": LONGEST})
    return count


def import_problems(*, now: datetime) -> list[Problem]:
    """Why staged rows can never be imported."""
    with connection.cursor() as cursor:
        final = final_until()
        parameters: dict[str, Any] = {
            "earliest": EARLIEST,
            "now": now,
            "most": MOST,
            "longest": LONGEST,
            "final": final,
            "final_words": f"{final:{TO_THE_MINUTE}}" if final else "",
        }
        cursor.execute(sql_read(SQL, "import_checks"), parameters)
        problems: list[Problem] = cursor.fetchall()
        cursor.execute(sql_read(SQL, "import_known"))
        problems += cursor.fetchall()
    return problems


def import_overlaps(*, now: datetime, allowed: Collection[Overlap]) -> list[tuple[int, Overlap, str]]:
    """Staged rows that would be counted twice: line, by what, and the words; without kinds that are `allowed`."""
    with connection.cursor() as cursor:
        cursor.execute(sql_read(SQL, "import_overlaps"), {"now": now, "allowed": list(map(str, allowed))})
        return [(line, Overlap(kind), words) for line, kind, words in cursor.fetchall()]


def import_early(*, zone: str, floor: datetime) -> list[tuple[date, int, int]]:
    """Months before `floor` in which new staged rows start: month, first line, number of rows."""
    with connection.cursor() as cursor:
        cursor.execute(sql_read(SQL, "import_early"), {"zone": zone, "floor": floor})
        found: list[tuple[date, int, int]] = cursor.fetchall()
    return found


def import_write(*, actor: Actor, rows: int, source: str, name: str, now: datetime) -> Imported:
    """Creates a batch of the staged rows that are new, if there are any.

    `name`: empty for that of the file, with a number if that is taken. Raises Invalid on `name` if it is too long or
    an import has it.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT min(started_at), max(ended_at) FROM import_told WHERE NOT known")
        starts_at, ends_at = cursor.fetchall()[0]
    if starts_at is None:
        return Imported(rows, 0)
    batch = UsageImport.objects.create(
        name=_name_free(name.strip(), source),
        file=source,
        imported_at=now,
        imported_by=actor.name,
        rows=rows,
        intervals=0,
        starts_at=starts_at,
        ends_at=ends_at,
    )
    with connection.cursor() as cursor:
        cursor.execute(sql_read(SQL, "import_write"), {"batch": batch.pk})
        made: list[tuple[uuid.UUID, int, datetime, datetime]] = cursor.fetchall()
    batch.intervals = sum(count for _, count, _, _ in made)
    batch.save(update_fields=["intervals"])
    for project_id, count, first, last in made:
        project = Project.objects.get(pk=project_id)
        after = {"file": source, "intervals": count, "from": first.isoformat(), "until": last.isoformat()}
        audit_record(actor=actor, action="usage.import", target=batch, project=project, after=after)
    return Imported(rows, batch.intervals, batch)


def import_sums(*, batch: UsageImport, spans: Spans, now: datetime) -> list[UsageImportSum]:
    """Writes down what a new batch brought, and what else is there."""
    months, starts, ends = (list(each) for each in zip(*spans, strict=True))
    parameters: dict[str, Any] = {
        "batch": batch.pk,
        "now": now,
        "months": months,
        "starts": starts,
        "ends": ends,
    }
    with connection.cursor() as cursor:
        cursor.execute(sql_read(SQL, "import_sums"), parameters)
    return list(batch.sums.select_related("project"))


def import_remove(*, actor: Actor, batch: UsageImport, now: datetime) -> None:
    """Deletes the intervals of a batch and writes down who did. The caller knows that no invoice rests on them."""
    UsageInterval.objects.filter(batch=batch).delete()
    batch.taken_back_at, batch.taken_back_by = now, actor.name
    batch.save(update_fields=["taken_back_at", "taken_back_by"])
    for project in Project.objects.filter(pk__in=batch.sums.values("project")).order_by("slug"):
        after = {"file": batch.file, "import": str(batch.pk)}
        audit_record(actor=actor, action="usage.import_take_back", target=batch, project=project, after=after)


def _name_free(name: str, source: str) -> str:
    if len(name) > LONGEST_NAME or not name.isprintable():
        raise Invalid.field("name", f"write at most {LONGEST_NAME} characters, all of them printable")
    wanted = name or source[-LONGEST_NAME + 10 :]
    taken = set(UsageImport.objects.filter(name__startswith=wanted).values_list("name", flat=True))
    if wanted not in taken:
        return wanted
    if name:
        raise Invalid.field("name", f"an import is called {name} already; choose another name")
    number = 2
    while f"{wanted} ({number})" in taken:
        number += 1
    return f"{wanted} ({number})"
