"""A month of 10,000 workspaces is closed: how long, and how much memory the worker and its database connection take for it.

First one of 1,000: what grows with the number of workspaces shows in the ratio. Memory is what is taken beyond the start, at its
highest, read from the kernel 50 times a second; processor time is that of both.
"""

import os
import threading
import time
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

from django.db import connection

from billing.models import Invoice, InvoiceLine, InvoiceShare
from billing.months import month_span
from billing.services import rate_set
from billing.services.closing import month_close_request, month_close_run
from gpuaas.catalog.models import Flavor, Site
from gpuaas.metering.models import Meter, SiteMeter
from gpuaas.workspaces.models import Workspace
from tenants.actors import SYSTEM
from tenants.models import Organization, Project, User
from tests.bench.table import Measured
from tests.factories.catalog import stock_site

SMALL, LARGE = (date(2026, 9, 1), 1_000), (date(2026, 10, 1), 10_000)
PER_PROJECT, PER_ORGANIZATION = 20, 100
LIMIT_S = 60.0
TICKS = os.sysconf("SC_CLK_TCK")

INTERVALS = """
INSERT INTO metering_usageinterval (id, site_id, project_id, workspace_id, flavor_id, consumer_uid, consumer_name, node, meter,
    resource_name, quantity, started_at, ended_at, last_seen_at, ended_by, owner, surplus)
SELECT gen_random_uuid(), w.site_id, w.project_id, w.id, CASE WHEN m.meter LIKE 'gpu%%' THEN %(flavor)s::uuid END,
       w.id::text, 'bench', '', m.meter, m.meter, m.quantity, %(start)s::timestamptz + (w.number %% 700) * interval '1 hour',
       %(end)s, %(start)s, 'observed', '', false
FROM (SELECT w.*, row_number() OVER () AS number FROM workspaces_workspace w WHERE created_at = %(start)s) w,
     (VALUES ('gpu_held', 2), ('vcpu_held', 32), ('memory_held', 360), ('storage_held', 100)) m (meter, quantity)
"""


@dataclass
class Taken:
    """By one close. MiB beyond the start; processor seconds."""

    seconds: float = 0.0
    worker_mib: float = 0.0
    database_mib: float = 0.0
    worker_cpu: float = 0.0
    database_cpu: float = 0.0
    note: str = ""


def measure() -> list[Measured]:
    stage = _furnish()
    small, large = (_closed(*stage, *size) for size in (SMALL, LARGE))
    times = LARGE[1] // SMALL[1]
    what = f"a month of {LARGE[1]:,} workspaces"
    cpu = f"{large.worker_cpu:.1f} s of processor in the worker, {large.database_cpu:.1f} s in the database"
    return [
        _row(f"close {what}", "s", large.seconds, LIMIT_S, "the promise", f"{cpu}; {large.note}"),
        _row(
            "the same, processor time",
            "s",
            large.worker_cpu + large.database_cpu,
            times * (small.worker_cpu + small.database_cpu),
            f"{times} × a month of {SMALL[1]:,}, which took {small.seconds:.1f} s",
        ),
        _row("peak memory of the worker", "MiB", large.worker_mib, small.worker_mib, f"at {SMALL[1]:,}"),
        _row(
            "peak memory of its database connection",
            "MiB",
            large.database_mib,
            small.database_mib,
            f"at {SMALL[1]:,}",
        ),
    ]


def _row(what: str, unit: str, ours: float, floor: float, floor_is: str, note: str = "") -> Measured:
    return Measured(what, unit, ours, floor, floor_is, higher_is_better=False, note=note)


def _closed(site: Site, flavor: Flavor, user: User, month: date, count: int) -> Taken:
    """The month's workspaces are of projects of their own; they end with it."""
    span = month_span(month)
    _workspaces(site, _projects(month, count), user, month, count)
    with connection.cursor() as cursor:
        cursor.execute(INTERVALS, {"flavor": flavor.pk, "start": span.starts_at, "end": span.ends_at})
        cursor.execute("VACUUM ANALYZE")
    SiteMeter.objects.update_or_create(site=site, defaults={"last_proof_at": span.ends_at})
    moment = span.ends_at + timedelta(days=3)
    month_close_request(actor=SYSTEM, month=month, now=moment)
    connection.close()  # a connection of its own: memory of what was done before is not its
    with Watch() as taken:
        row = month_close_run(month=month, now=moment)
    if row.state != "closed" or row.invoices != count // PER_ORGANIZATION:
        raise SystemExit(f"the month was not closed: {row.state} {row.refusal}")
    slowest = max(row.steps, key=lambda step: step["seconds"])
    shares = InvoiceShare.objects.filter(line__charge_month=month).count()
    lines = InvoiceLine.objects.filter(charge_month=month).count()
    invoices = Invoice.objects.filter(month=month).count()
    taken.note = (
        f"{invoices} invoices, {lines:,} lines, {shares:,} shares; "
        f"slowest step: {slowest['name']}, {slowest['seconds']:.1f} s"
    )
    return taken


class Watch:
    """Reads what this process and its database connection hold, until the block ends."""

    def __enter__(self) -> Taken:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            ((self.backend,),) = cursor.fetchall()
        self.taken, self.over = Taken(), threading.Event()
        self.spent = self._spent()
        self.thread = threading.Thread(target=self._look, daemon=True)
        self.thread.start()
        self.began = time.monotonic()
        return self.taken

    def __exit__(self, *failure: object) -> None:
        self.taken.seconds = time.monotonic() - self.began
        self.over.set()
        self.thread.join()
        worker, database = self._spent()
        self.taken.worker_cpu, self.taken.database_cpu = worker - self.spent[0], database - self.spent[1]

    def _look(self) -> None:
        while not self.over.wait(0.02):
            worker, database = self._memory()
            self.taken.worker_mib = max(self.taken.worker_mib, worker)
            self.taken.database_mib = max(self.taken.database_mib, database)

    def _memory(self) -> tuple[float, float]:
        return _anonymous_mib(os.getpid()), _anonymous_mib(self.backend)

    def _spent(self) -> tuple[float, float]:
        return _processor(os.getpid()), _processor(self.backend)


def _anonymous_mib(pid: int) -> float:
    """What is the process's own: pages of the database's shared cache are not."""
    said = Path(f"/proc/{pid}/status").read_text("utf-8")
    (kib,) = (line.split()[1] for line in said.splitlines() if line.startswith("RssAnon:"))
    return int(kib) / 1024


def _processor(pid: int) -> float:
    after_name = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / TICKS


def _furnish() -> tuple[Site, Flavor, User]:
    site = stock_site()
    Site.objects.filter(pk=site.pk).update(enabled=True)
    flavor = Flavor.objects.get(slug="h100.1", pool__site=site)
    for what, meter, price in ((flavor, Meter.GPU_HELD, "2.40"), (None, Meter.STORAGE_HELD, "0.00012")):
        rate_set(
            actor=SYSTEM, flavor=what, meter=meter, price=price, valid_from=month_span(SMALL[0]).starts_at
        )
    return site, flavor, User.objects.create(username="bench")


def _projects(month: date, count: int) -> list[Project]:
    organizations = Organization.objects.bulk_create(
        [
            Organization(slug=f"bench-{month:%m}-{n}", name=f"Bench {n}")
            for n in range(count // PER_ORGANIZATION)
        ]
    )
    rows = [
        Project(
            organization=organizations[n % len(organizations)],
            slug=f"bench-{month:%m}-p-{n}",
            name=f"Bench {n}",
        )
        for n in range(count // PER_PROJECT)
    ]
    return Project.objects.bulk_create(rows)


def _workspaces(site: Site, projects: list[Project], user: User, month: date, count: int) -> None:
    rows = [
        Workspace(
            project=projects[n % len(projects)],
            site=site,
            name=f"w-{month:%m}-{n}",
            lease_ends_at=month_span(month).ends_at + timedelta(days=300),
            created_by=user,
            created_at=month_span(month).starts_at,
        )
        for n in range(count)
    ]
    Workspace.objects.bulk_create(rows, batch_size=2000)
