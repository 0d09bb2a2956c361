"""Moves intervals that ended in final months into Parquet files, a month at a time, and deletes them.

A file is written under another name and read back; then its sum is recorded here; then it gets its name and its
manifest; then its intervals are deleted, piece by piece, each only if it still is what the file says. Who is killed
anywhere leaves what the next run goes on with: an interval is in the database, in a recorded file, or in both until
it is deleted.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq
from django.db import connection, transaction
from django.db.models import Min
from django.db.models.functions import Coalesce, Now

from gpuaas import __version__
from gpuaas.core import clock
from gpuaas.core.errors import Conflict, Permanent
from gpuaas.core.files import PARTIAL, file_sum, folder_sync
from gpuaas.core.sql import sql_read
from gpuaas.metering.models import FinalMonth, UsageFile, UsageInterval
from tenants.actors import Actor
from tenants.audit import audit_record

SQL = Path(__file__).parent / "sql"
FILE_FORMAT = 1
ROWS = 10_000  # in memory at once, of a row group, and of one DELETE
LOCK = (8191, 1)
MOMENT = pa.timestamp("us", tz="UTC")
COLUMNS: dict[str, pa.DataType] = {
    **dict.fromkeys(("id", "site_id", "site", "project_id", "project", "workspace_id"), pa.string()),
    **dict.fromkeys(("cluster_id", "holder", "flavor_id", "flavor", "consumer_uid"), pa.string()),
    **dict.fromkeys(("consumer_name", "node", "owner", "meter", "resource_name"), pa.string()),
    "quantity": pa.int64(),
    **dict.fromkeys(("started_at", "ended_at", "last_seen_at"), MOMENT),
    "ended_by": pa.string(),
    "surplus": pa.bool_(),
}
SCHEMA = pa.schema(list(COLUMNS.items()))

Tell = Callable[[str], None]


@dataclass
class Content:
    """What was written to a file, or read from it; the same if `digest` is."""

    rows: int = 0
    unit_seconds: dict[str, int] = field(default_factory=dict)
    digest: Any = field(default_factory=hashlib.sha256)

    def add(self, batch: pa.RecordBatch) -> None:
        columns = batch.to_pydict()
        self.digest.update(repr(columns).encode())
        self.rows += batch.num_rows
        names = ("meter", "quantity", "started_at", "ended_at")
        for meter, quantity, started_at, ended_at in zip(*(columns[name] for name in names), strict=True):
            seconds = int((ended_at - started_at).total_seconds())
            self.unit_seconds[meter] = self.unit_seconds.get(meter, 0) + quantity * seconds


def intervals_archive(*, actor: Actor, folder: Path, until: datetime, tell: Tell) -> int:
    """Archives all intervals that ended by `until`, which lies in a final month; returns how many were deleted.

    Raises Conflict while another run is under way or if `folder` is not what it has to be, Permanent if a file is not
    what was written. Nothing that is not safely in a file is ever deleted.
    """
    if not folder.is_dir():
        raise Conflict(f"{folder} is not a folder")
    with _alone():
        gone = sum(_clear(folder, file, tell) for file in UsageFile.objects.filter(cleared_at=None))
        while (month := _month_next(until)) is not None:
            gone += _clear(folder, _write(actor, folder, month, until, tell), tell)
    return gone


@contextmanager
def _alone() -> Iterator[None]:
    """For as long as this connection lives; who is killed lets go at once."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s, %s)", LOCK)
        if not cursor.fetchall()[0][0]:
            raise Conflict("another run archives usage now")
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_unlock(%s, %s)", LOCK)


def _month_next(until: datetime) -> FinalMonth | None:
    """The final month of the oldest end."""
    oldest = UsageInterval.objects.filter(ended_at__lte=until).aggregate(oldest=Min("ended_at"))["oldest"]
    return FinalMonth.objects.filter(ends_at__gte=oldest).first() if oldest else None


def _write(actor: Actor, folder: Path, month: FinalMonth, until: datetime, tell: Tell) -> UsageFile:
    """The next file of the month, checked and recorded, still under its partial name."""
    name = f"usage-{month.month:%Y-%m}-{month.files.count() + 1}.parquet"
    if (folder / name).exists():
        raise Conflict(
            f"{folder} already has {name}, which this database does not know: it is another portal's, or this database "
            "was restored from a backup made before it. Choose another folder"
        )
    partial = folder / f"{name}{PARTIAL}"
    before = FinalMonth.objects.filter(month__lt=month.month).last()
    bounds = {"after": before.ends_at if before else None, "until": min(month.ends_at, until)}
    written, found = _rows_write(partial, bounds), Content()
    for batch in _batches(partial):
        found.add(batch)
    if found.digest.digest() != written.digest.digest():
        raise Permanent(f"{partial} is not what was written to it; nothing was deleted. Check the disk")
    with transaction.atomic():
        FinalMonth.objects.filter(pk=month.pk).update(archived_at=Coalesce("archived_at", Now()))
        file = UsageFile.objects.create(
            month=month,
            name=name,
            sha256=file_sum(partial),
            rows=written.rows,
            unit_seconds=dict(sorted(written.unit_seconds.items())),
            written_at=clock.now(),
        )
        after = {"file": name, "intervals": file.rows, "sha256": file.sha256}
        audit_record(actor=actor, action="usage.archive", target=month, after=after)
    tell(f"{name}: {file.rows:,} intervals written and read back")
    return file


def _rows_write(partial: Path, bounds: dict[str, datetime | None]) -> Content:
    """By a cursor of the database, as one snapshot; on disk when it returns."""
    written = Content()
    with transaction.atomic(), connection.chunked_cursor() as cursor, _private(partial) as file:
        cursor.execute(sql_read(SQL, "archive_rows"), bounds)
        with pq.ParquetWriter(file, SCHEMA, compression="zstd") as writer:
            while rows := cursor.fetchmany(ROWS):
                columns = [
                    pa.array(values, type=kind)
                    for values, kind in zip(zip(*rows, strict=True), SCHEMA.types, strict=True)
                ]
                batch = pa.record_batch(columns, schema=SCHEMA)
                writer.write_batch(batch)
                written.add(batch)
        file.flush()
        os.fsync(file.fileno())
    return written


def _batches(path: Path) -> Iterator[pa.RecordBatch]:
    """As they were written."""
    with pq.ParquetFile(path) as file:
        for number in range(file.num_row_groups):
            yield file.read_row_group(number).combine_chunks().to_batches()[0]


def _clear(folder: Path, file: UsageFile, tell: Tell) -> int:
    """Deletes what is in a recorded file; returns how many there still were."""
    path = _named(folder, file)
    _manifest_write(folder, file)
    gone = 0
    for batch in _batches(path):
        with connection.cursor() as cursor:
            cursor.execute(sql_read(SQL, "archive_clear"), batch.to_pydict())
            gone += cursor.rowcount
    UsageFile.objects.filter(pk=file.pk).update(cleared_at=clock.now())
    tell(f"{file.name}: {gone:,} intervals deleted from the database")
    return gone


def _named(folder: Path, file: UsageFile) -> Path:
    """The file under its name, with the sum that was recorded."""
    path, partial = folder / file.name, folder / f"{file.name}{PARTIAL}"
    if not path.exists() and partial.exists():
        _sum_require(partial, file)
        partial.rename(path)
        folder_sync(folder)
    if not path.exists():
        raise Conflict(
            f"{file.name} is recorded, its intervals are not all deleted yet, and it is not in {folder}: name the folder "
            "where it is"
        )
    _sum_require(path, file)
    return path


def _sum_require(path: Path, file: UsageFile) -> None:
    if file_sum(path) != file.sha256:
        raise Permanent(f"{path} is not what was written: its sum differs. Nothing more was deleted")


def _manifest_write(folder: Path, file: UsageFile) -> None:
    manifest = {
        "format": FILE_FORMAT,
        "portal": __version__,
        "month": f"{file.month.month:%Y-%m}",
        "ends_at": file.month.ends_at.isoformat(),
        "file": file.name,
        "sha256": file.sha256,
        "rows": file.rows,
        "unit_seconds": file.unit_seconds,
        "written_at": file.written_at.isoformat(),
        "columns": {name: str(kind) for name, kind in COLUMNS.items()},
    }
    path = (folder / file.name).with_suffix(".json")
    partial = path.with_suffix(f".json{PARTIAL}")
    with _private(partial) as handle:
        handle.write(json.dumps(manifest, indent=2).encode())
        handle.flush()
        os.fsync(handle.fileno())
    partial.rename(path)
    folder_sync(folder)


def _private(path: Path) -> IO[bytes]:
    """Anew, and readable by its owner alone."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")
