"""A file of intervals taken into the portal: read and checked, previewed, written, each against a raw COPY of the same rows."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from django.db import connection, transaction

from billing.files import files_import
from billing.files.rows import USAGE, usage_read
from gpuaas.catalog.models import Flavor
from gpuaas.metering.imports import import_problems, import_stage
from gpuaas.metering.models import UsageInterval
from gpuaas.workspaces.models import Workspace
from tenants.actors import SYSTEM
from tests.bench.table import Measured
from tests.billing.stage import utc
from tests.factories.catalog import FlavorFactory
from tests.factories.tenants import ProjectFactory, UserFactory

INTERVALS, PROJECTS, ROUNDS, PIECE = 200_000, 200, 3, 1 << 20
TABLE, BARE = "metering_usageinterval", "COPY of the same rows into a bare table"
NOW = utc("2026-12-01")


class Watch:
    """Seconds on the clock, and of processor time of this process and of the database's."""

    def __init__(self) -> None:
        self.wall = self.cpu = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        began, used = time.perf_counter(), _cpu()
        yield
        self.wall, self.cpu = time.perf_counter() - began, _cpu() - used


def measure() -> list[Measured]:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "usage.csv"
        _stage(file)
        read, staged = Watch(), Watch()
        shown, taken, copied, bare = Watch(), Watch(), Watch(), Watch()
        for _ in range(ROUNDS):
            _keep(staged, _raw_stage(file))
            _keep(read, _read(file))
            _keep(shown, _preview(file))
            _keep(taken, _take(file))
            for raw, best in zip(_raw_writes(), (bare, copied), strict=True):
                _keep(best, raw)
    return [
        _row("usage.csv read, checked and staged", read, staged, "COPY of the same file, unchecked"),
        _row("usage.csv → preview with its sums, rolled back", shown, bare, BARE),
        _row("usage.csv → intervals, committed", taken, copied, "COPY of the same rows into the same table"),
        _row("usage.csv → intervals, beside a bare table", taken, bare, BARE),
    ]


def _row(what: str, ours: Watch, floor: Watch, floor_is: str) -> Measured:
    per = " and ".join(f"{INTERVALS / each.cpu:,.0f}" for each in (ours, floor))
    note = f"{INTERVALS:,} rows; per second of processor time {per}"
    return Measured(what, "/s", INTERVALS / ours.wall, INTERVALS / floor.wall, floor_is, note=note)


def _keep(best: Watch, found: Watch) -> None:
    """The round in which others took the least."""
    if not best.wall or found.wall < best.wall:
        best.wall, best.cpu = found.wall, found.cpu


def _read(file: Path) -> Watch:
    watch = Watch()
    with transaction.atomic():
        with watch.running():
            bad: list[object] = []
            count = import_stage(rows=usage_read(file, bad))  # type: ignore[arg-type]
            problems = import_problems(now=NOW)
        assert (count, bad, problems) == (INTERVALS, [], [])
        transaction.set_rollback(True)
    return watch


def _raw_stage(file: Path) -> Watch:
    watch, columns = Watch(), ", ".join(f'"{name}" text' for name in USAGE)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"CREATE TEMPORARY TABLE raw_stage ({columns}) ON COMMIT DROP")
        with watch.running():
            _copy("COPY raw_stage FROM STDIN (FORMAT csv, HEADER)", file.read_bytes())
    return watch


def _preview(file: Path) -> Watch:
    watch = Watch()
    _empty()
    with watch.running():
        done = files_import(actor=SYSTEM, usage=file, now=NOW, check=True)
    assert (done.written, UsageInterval.objects.count()) == (INTERVALS, 0)
    return watch


def _take(file: Path) -> Watch:
    watch = Watch()
    _empty()
    with watch.running():
        done = files_import(actor=SYSTEM, usage=file, now=NOW)
    assert done.written == UsageInterval.objects.count() == INTERVALS
    return watch


def _empty() -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"TRUNCATE {TABLE}")


def _raw_writes() -> Iterator[Watch]:
    """What was just taken in, out and in again: into a table without an index, a constraint or a trigger, and into its own."""
    with connection.cursor() as cursor:
        with cursor.copy(f"COPY {TABLE} TO STDOUT") as copy:
            data = b"".join(map(bytes, copy))
        cursor.execute(f"CREATE TABLE bench_bare AS SELECT * FROM {TABLE} WITH NO DATA")
        for table in ("bench_bare", TABLE):
            watch = Watch()
            cursor.execute(f"TRUNCATE {table}")
            with watch.running(), transaction.atomic():
                _copy(f"COPY {table} FROM STDIN", data)
            yield watch
        cursor.execute("DROP TABLE bench_bare")


def _copy(sql: str, data: bytes) -> None:
    with connection.cursor() as cursor, cursor.copy(sql) as copy:
        for start in range(0, len(data), PIECE):
            copy.write(data[start : start + PIECE])


def _cpu() -> float:
    """Of this process and of its database connection's, which is on this machine."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        ((pid,),) = cursor.fetchall()
    ticks = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
    return time.process_time() + sum(map(int, ticks)) / 100


def _stage(file: Path) -> None:
    flavors: list[Flavor] = [FlavorFactory.create(slug=f"bench-{number}") for number in range(4)]
    user, site = UserFactory.create(username="bench-ingest"), flavors[0].pool.site
    Flavor.objects.filter(pk__in=[each.pk for each in flavors]).update(pool=flavors[0].pool)
    for number in range(PROJECTS):
        project = ProjectFactory.create(slug=f"bench-ingest-{number}")
        Workspace.objects.create(
            project=project, site=site, name="train", lease_ends_at=NOW, created_by=user, created_at=NOW
        )
    with file.open("w", encoding="utf-8") as rows:
        rows.write(",".join(USAGE) + "\n")
        for n in range(INTERVALS):
            at = n // PROJECTS  # a minute of its own in its workspace, or the import is refused
            day, hour, minute = 1 + at % 30, at // 30 % 24, at // 720
            begins, ends = (f"2026-11-{day:02}T{hour:02}:{minute:02}:{second:02}Z" for second in (n % 7, 59))
            names = f"bench-ingest-{n % PROJECTS},train,bench-{n % 4},gpu_allocated,on_demand"
            rows.write(f"pod-{n},{names},{1 + n % 8},{begins},{ends}\n")
