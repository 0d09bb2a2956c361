"""Helpers: the portal on another database, its programs as processes, and a site that a restore does not move."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, datetime
from pathlib import Path

from django.db import connection

from billing.models import Invoice
from billing.months import month_of, month_span
from billing.rating import Cell, Slots, rate_usage
from billing.selectors.documents import invoice_rows, invoice_verify, pdf_of
from billing.services import rate_set
from billing.services.pdfs import pdfs_make
from deploy.embedded.postgres import PROGRAMS
from gpuaas.catalog.models import Flavor
from gpuaas.core import clock
from gpuaas.metering.meter import Meters
from gpuaas.metering.models import Meter, SiteMeter
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import Project, User
from tests.billing.closed import month_close
from tests.billing.stage import interval_make, utc, workspace_make
from tests.metering.meters import ROOT, environment_here
from tests.metering.test_meter import wait_for

OCTOBER = date(2026, 10, 1)
Document = tuple[str, str, bytes | None, list[tuple[str, ...]]]


@contextmanager
def elsewhere(name: str) -> Iterator[None]:
    """Inside, the portal's database is this one of the same server."""
    own = connection.settings_dict["NAME"]
    connection.close()
    connection.settings_dict["NAME"] = name
    try:
        yield
    finally:
        connection.close()
        connection.settings_dict["NAME"] = own


def manage(*words: str, **more: str) -> subprocess.Popen[str]:
    """`manage.py` as a process on the present database, in a group of its own."""
    connection.ensure_connection()
    environment = {**environment_here(), "GPUAAS_POSTGRES_PROGRAMS": PROGRAMS, **more}
    return subprocess.Popen(
        [sys.executable, "manage.py", *words],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def program(name: str, *words: str, database: str) -> None:
    given = connection.settings_dict
    where = ["-U", str(given["USER"]), "-h", str(given["HOST"]), "-d", database]
    if given["PORT"]:
        where += ["-p", str(given["PORT"])]
    environment = {**os.environ, "PGPASSWORD": str(given["PASSWORD"] or "")}
    command = [str(Path(PROGRAMS) / name), *where, *words]
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)


def site_carry(source: str, target: str, file: Path) -> None:
    """The simulated site of `source` goes on beside the database `target`, as a real one does while a portal is restored."""
    program("pg_dump", "--data-only", "--table=public.sandbox_*", f"--file={file}", database=source)
    with elsewhere(target), connection.cursor() as cursor:
        cursor.execute(
            "SELECT string_agg(format('%I', tablename), ', ') FROM pg_tables WHERE tablename LIKE 'sandbox\\_%'"
        )
        (names,) = cursor.fetchone()
        cursor.execute(f"TRUNCATE {names} CASCADE")
    program("psql", "--quiet", "--set=ON_ERROR_STOP=1", f"--file={file}", database=target)


@contextmanager
def metered(begun: Callable[[], object]) -> Iterator[None]:
    """The meter, with its warden, has listed the site once `begun` is true, and goes on to hear from it."""
    stop = threading.Event()
    thread = threading.Thread(target=Meters(stop=stop).run, daemon=True)
    thread.start()
    try:
        wait_for(begun, seconds=60)
        yield
        heard = clock.now()
        wait_for(SiteMeter.objects.filter(last_proof_at__gt=heard).exists, seconds=60)
    finally:
        stop.set()
        thread.join(timeout=60)
    assert not thread.is_alive()


def rated(until: datetime) -> list[Cell]:
    """What everybody owes for the open month up to then."""
    month = month_of(until)
    slots = Slots(months=[month], spans=[month_span(month)])
    return sorted(rate_usage(slots=slots, now=until, projects=None), key=repr)


def bill(as_olga: Actor, project: Project, h100: Flavor, alice: User) -> None:
    """October is closed and on paper; usage goes on since then."""
    rate_set(actor=as_olga, flavor=h100, meter=Meter.GPU_HELD, price="2.40", valid_from=utc("2026-01-01"))
    row = workspace_make(project, h100, alice, name="counted")
    Workspace.objects.filter(pk=row.pk).update(state="deleted", due_at=None)
    interval_make(row, h100, utc("2026-10-02 00:00:00"), utc("2026-10-29 13:37:11"), quantity=2)
    interval_make(row, h100, utc("2026-11-01 07:00:00"), None, quantity=3)
    month_close(as_olga, OCTOBER)
    pdfs_make()


def documents() -> list[Document]:
    """Every invoice as tenants get it: number, fingerprint, the file on paper, the lines."""
    found = []
    for row in Invoice.objects.order_by("number"):
        assert invoice_verify(invoice=row)
        lines = [tuple(map(str, line)) for line in invoice_rows(invoice=row)]
        found.append((row.number, row.content_hash, pdf_of(invoice=row), lines))
    return found


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
