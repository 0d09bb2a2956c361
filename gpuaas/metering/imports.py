"""Usage metered elsewhere, imported as intervals: set-based, with tables that end with the caller's transaction.

An interval's key is made from its id in the file: a repeated row, at once or later, is the same row.
"""

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.db import connection

from gpuaas.core.clock import TO_THE_MINUTE
from gpuaas.core.sql import sql_read
from gpuaas.metering.final import final_until
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
    """`rows` were read, `written` of them were new and not empty."""

    rows: int
    written: int


def import_stage(*, rows: Iterable[Sequence[object]]) -> int:
    """Copies (line, id, project, workspace, flavor, meter, price_class, quantity, start, end) to a staging table;
    returns how many."""
    count = 0
    with connection.cursor() as cursor:
        cursor.execute(sql_read(SQL, "import_tables"))
        with cursor.copy("COPY import_usage FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
                count += 1
        meters: dict[str, Any] = {"shared": SHARED, "devices": DEVICES}
        cursor.execute(sql_read(SQL, "import_keys"), meters)
    return count


def import_problems(*, now: datetime) -> list[Problem]:
    """Why staged rows cannot be imported."""
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
    return problems


def import_write(*, actor: Actor, rows: int, source: str) -> tuple[Imported, list[Problem]]:
    """Creates intervals from staged rows. If it finds problems, the caller has to roll back."""
    with connection.cursor() as cursor:
        cursor.execute(sql_read(SQL, "import_rows") + sql_read(SQL, "import_write"))
        made: list[tuple[uuid.UUID, int, datetime, datetime]] = cursor.fetchall()
        written = sum(count for _, count, _, _ in made)
        problems: list[Problem] = []
        if written < rows:  # some were there before, or stand in the file twice
            cursor.execute(sql_read(SQL, "import_rows") + sql_read(SQL, "import_known"))
            problems = cursor.fetchall()
    for project_id, count, first, last in made if not problems else ():
        project = Project.objects.get(pk=project_id)
        after = {"file": source, "intervals": count, "from": first.isoformat(), "until": last.isoformat()}
        audit_record(actor=actor, action="usage.import", target=project, project=project, after=after)
    return Imported(rows, written), problems
