"""The list of workspaces at 10,000 rows, and what shows money at 2,000 workspaces (`money`): how many statements,
how long, how many bytes.
"""

import statistics
import time
from collections.abc import Callable
from datetime import timedelta

from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from gpuaas.catalog.models import Flavor
from gpuaas.core.clock import now
from gpuaas.core.ids import uuid7
from gpuaas.workspaces.models import Workspace, WorkspaceFlavor, WorkspaceMember
from tests.bench import money
from tests.bench.table import Measured
from tests.factories.catalog import SiteFactory
from tests.factories.tenants import ProjectFactory, ProjectMembershipFactory, UserFactory

ROWS, ROUNDS = 10_000, 15
FLOOR = (
    "SELECT w.*, p.slug, s.slug, u.username FROM workspaces_workspace w JOIN tenants_project p ON p.id = w.project_id "
    "JOIN catalog_site s ON s.id = w.site_id JOIN tenants_user u ON u.id = w.created_by_id "
    "WHERE p.slug = 'bench-list' ORDER BY w.id DESC LIMIT 51"
)


def measure() -> list[Measured]:
    client = _stage()
    floor = median_ms(_floor)
    pages = {
        "workspace list, API": "/api/v1/projects/bench-list/workspaces",
        "workspace list, page": "/p/bench-list/workspaces/",
    }
    return [*(_measured(client, what, url, floor) for what, url in pages.items()), *money.measure()]


def _measured(client: Client, what: str, url: str, floor: float) -> Measured:
    with CaptureQueriesContext(connection) as queries:
        assert client.get(url).status_code == 200
    note = f"{len(queries)} statements at {ROWS:,} rows"
    ours = median_ms(lambda: client.get(url))
    return Measured(what, "ms", ours, floor, "one SQL statement", higher_is_better=False, note=note)


def _floor() -> object:
    with connection.cursor() as cursor:
        cursor.execute(FLOOR)
        return cursor.fetchall()


def median_ms(call: Callable[[], object]) -> float:
    call()
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        call()
        times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times)


def _stage() -> Client:
    project = ProjectFactory.create(slug="bench-list")
    user = UserFactory.create(username="bench")
    ProjectMembershipFactory.create(project=project, user=user, role="member")
    site = SiteFactory.create(slug="bench-site")
    flavor = Flavor.objects.filter(slug="h100.1").first() or _flavor()
    moment = now()
    rows = [
        Workspace(
            id=uuid7(),
            project=project,
            site=site,
            name=f"ws-{number}",
            state="ready",
            lease_ends_at=moment + timedelta(days=28),
            created_by=user,
            created_at=moment,
        )
        for number in range(ROWS)
    ]
    Workspace.objects.bulk_create(rows, batch_size=2000)
    WorkspaceFlavor.objects.bulk_create(
        [WorkspaceFlavor(workspace=w, flavor=flavor, count=1, confirmed=1) for w in rows]
    )
    WorkspaceMember.objects.bulk_create([WorkspaceMember(workspace=w, user=user, role="admin") for w in rows])
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    client = Client()
    client.force_login(user)
    return client


def _flavor() -> Flavor:
    from tests.factories.catalog import FlavorFactory

    return FlavorFactory.create(slug="h100.1")
