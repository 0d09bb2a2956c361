"""Usage that was metered elsewhere, taken in as intervals: set-based, by tables that end with the caller's transaction.

An interval's key is made of its id in the file: whatever is repeated, at once or later, is the same row.
"""

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from django.db import connection

from gpuaas.metering.models import STREAMED_METERS, Meter
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.models import Project

SQL = Path(__file__).parent / "sql"
SHARED = [str(each) for each in (Meter.VCPU_HELD, Meter.MEMORY_HELD, Meter.STORAGE_HELD)]
DEVICES = [str(each) for each in (Meter.GPU_HELD, *STREAMED_METERS)]
EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)  # there are no months before
MOST = 1_000_000_000  # units; a month of as many still fits into what is rated
LONGEST = 253  # characters of an id, that of a consumer's name

Problem = tuple[int, str]  # the line, and what is wrong there


@dataclass(frozen=True)
class Imported:
    """`rows` were told, `written` of them were new and held something."""

    rows: int
    written: int


def import_stage(*, rows: Iterable[Sequence[object]]) -> int:
    """Copy (line, id, project, workspace, flavor, meter, price_class, quantity, start, end) beside the usage; how many."""
    count = 0
    with connection.cursor() as cursor:
        cursor.execute(_sql("import_tables"))
        with cursor.copy("COPY import_usage FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
                count += 1
        meters: dict[str, Any] = {"shared": SHARED, "devices": DEVICES}
        cursor.execute(_sql("import_keys"), meters)
    return count


def import_problems(*, now: datetime) -> list[Problem]:
    """Why rows that are staged cannot be taken in."""
    with connection.cursor() as cursor:
        parameters: dict[str, Any] = {"earliest": EARLIEST, "now": now, "most": MOST, "longest": LONGEST}
        cursor.execute(_sql("import_checks"), parameters)
        found: list[Problem] = cursor.fetchall()
    return found


def import_write(*, actor: Actor, rows: int, source: str) -> tuple[Imported, list[Problem]]:
    """Make intervals of what is staged and has no problems. Where it finds problems the caller has to roll back."""
    with connection.cursor() as cursor:
        cursor.execute(_sql("import_rows") + _sql("import_write"))
        made: list[tuple[uuid.UUID, int, datetime, datetime]] = cursor.fetchall()
        written = sum(count for _, count, _, _ in made)
        problems: list[Problem] = []
        if written < rows:  # some were there before, or stand in the file twice
            cursor.execute(_sql("import_rows") + _sql("import_known"))
            problems = cursor.fetchall()
    for project_id, count, first, last in made if not problems else ():
        project = Project.objects.get(pk=project_id)
        after = {"file": source, "intervals": count, "from": first.isoformat(), "until": last.isoformat()}
        audit_record(actor=actor, action="usage.import", target=project, project=project, after=after)
    return Imported(rows, written), problems


@cache
def _sql(name: str) -> str:
    return (SQL / f"{name}.sql").read_text("utf-8")
