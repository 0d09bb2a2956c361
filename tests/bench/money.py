"""Pages and fields that show money, in a project of 2,000 workspaces with a month of usage: how long, how many statements, how many bytes.

The floor of each is what no answer can do without: the rows that it shows, added up by one hand-written statement without prices, and
of a page its bare template, drawn with values that are there already.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from typing import Any

import time_machine
from django.db import connection
from django.template import Context, Template
from django.test import Client
from django.test import utils as instruments
from django.test.utils import CaptureQueriesContext

from billing.models import Budget, RateCard
from billing.months import day_span, month_of, month_span
from billing.services.keeping import past_until, usage_keep
from gpuaas.catalog.models import Flavor
from gpuaas.core.clock import now
from gpuaas.core.ids import uuid7
from gpuaas.metering.models import Meter
from gpuaas.workspaces.models import Workspace, WorkspaceFlavor
from tenants.models import Project, User
from tests.bench.table import Measured
from tests.billing.stage import rate_make
from tests.factories.catalog import FlavorFactory
from tests.factories.tenants import OrganizationMembershipFactory, ProjectFactory, UserFactory

WORKSPACES, PODS = 2_000, 60_000
ROUNDS, SECONDS = 9, 4.0  # at least; a machine that is slow for a second does not make the median
DAY, BEFORE_MIDNIGHT = date(2026, 11, 20), timedelta(minutes=90)
HELD = """
INSERT INTO metering_usageinterval (id, site_id, project_id, workspace_id, flavor_id, consumer_uid, consumer_name, node, meter,
    resource_name, quantity, started_at, ended_at, last_seen_at, ended_by)
SELECT gen_random_uuid(), w.site_id, w.project_id, w.id, CASE WHEN m.meter = 'gpu_held' THEN %(flavor)s::uuid END,
       'money-' || w.id, w.name, '', m.meter, m.name, m.quantity, w.created_at, NULL, w.created_at, ''
FROM workspaces_workspace w
CROSS JOIN (VALUES ('gpu_held', 'nvidia.com/gpu', 2), ('vcpu_held', 'vcpu', 32), ('memory_held', 'memory', 360),
                   ('storage_held', 'storage', 100)) AS m (meter, name, quantity)
WHERE w.project_id = %(project)s
"""
PODS_RUN = """
INSERT INTO metering_usageinterval (id, site_id, project_id, workspace_id, flavor_id, consumer_uid, consumer_name, node, meter,
    resource_name, quantity, started_at, ended_at, last_seen_at, ended_by)
SELECT gen_random_uuid(), w.site_id, w.project_id, w.id, %(flavor)s::uuid, 'pod-' || n, 'pod-' || n, '', 'gpu_allocated', 'nvidia.com/gpu',
       1 + n %% 2, s.at, s.at + (n %% 7200 + 1) * interval '1 second', s.at, 'observed'
FROM generate_series(1, %(count)s) n
JOIN (SELECT *, row_number() OVER (ORDER BY id) - 1 AS number FROM workspaces_workspace WHERE project_id = %(project)s) w
    ON w.number = n %% %(workspaces)s
CROSS JOIN LATERAL (
    SELECT w.created_at + (n::bigint * 7919 %% extract(EPOCH FROM %(now)s - w.created_at)::bigint) * interval '1 second' AS at
) s
"""
TOTALS = """
SELECT meter, flavor_id, sum(quantity * extract(EPOCH FROM %(now)s - greatest(started_at, %(first)s))::bigint)
FROM metering_usageinterval WHERE project_id = %(project)s AND ended_at IS NULL GROUP BY 1, 2
"""
HOLDERS = """
SELECT holder, sum(units) FROM (
    SELECT k.holder, k.unit_seconds AS units FROM billing_keptholder k JOIN billing_keptmonth m ON m.id = k.kept_id
    WHERE m.project_id = %(project)s AND m.month = %(month)s
    UNION ALL
    SELECT workspace_id, quantity * extract(EPOCH FROM coalesce(ended_at, %(now)s) - greatest(started_at, %(until)s))::bigint
    FROM metering_usageinterval WHERE project_id = %(project)s AND (ended_at IS NULL OR ended_at > %(until)s)
) u GROUP BY 1 ORDER BY 2 DESC LIMIT 50
"""
# what home asks for by itself where there are more workspaces than it shows: what each of them costs
SECOND = "home, its second answer"
PAGES = {
    "home": ("/p/bench-money/", TOTALS),
    SECOND: ("/p/bench-money/", HOLDERS),
    "costs of the organization": ("/o/{organization}/costs/", TOTALS),
    "the same by workspace": ("/o/{organization}/costs/?by=workspace", HOLDERS),
    "the same by day": ("/o/{organization}/costs/?by=day", TOTALS),
    "budgets of the organization": ("/o/{organization}/budgets/", TOTALS),
    "usage and cost of the project": ("/p/bench-money/usage/", HOLDERS),
    "workspaces of the project": ("/p/bench-money/workspaces/", HOLDERS),
    "one workspace": ("/p/bench-money/workspaces/{workspace}/", HOLDERS),
    "costs, API": ("/api/v1/projects/bench-money/costs", HOLDERS),
    "breakdown by workspace, API": ("/api/v1/projects/bench-money/costs/breakdown", HOLDERS),
    "budgets, API": ("/api/v1/organizations/{organization}/budgets", TOTALS),
}


def measure() -> list[Measured]:
    """In the evening, when most has ended since midnight, whatever the time of the run."""
    with time_machine.travel(day_span(DAY).ends_at - BEFORE_MIDNIGHT):
        return _measure()


def _measure() -> list[Measured]:
    client, project = _stage()
    while usage_keep(now=now()):
        pass
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
    newest = Workspace.objects.filter(project=project).order_by("-pk")[:1]
    places = {"organization": project.organization.slug, "workspace": newest[0].pk}
    return [
        _measured(client, project, what, url.format(**places), rows) for what, (url, rows) in PAGES.items()
    ]


def _measured(client: Client, project: Project, what: str, url: str, rows: str) -> Measured:
    headers = {"HX-Request": "true"} if what == SECOND else {}
    with _remembered(), CaptureQueriesContext(connection) as queries:
        answer = client.get(url, headers=headers)
    assert answer.status_code == 200, f"{url}: {answer.status_code}"
    note = f"{len(queries)} statements, {len(answer.content) / 1000:,.0f} kB at {WORKSPACES:,} workspaces"
    contexts: Any = answer.context
    drawn = answer.templates[:1]
    context = Context(contexts[0].flatten() if drawn else {})
    floor = _median_ms(lambda: (_added(rows, project), [template.render(context) for template in drawn]))
    ours = _median_ms(lambda: client.get(url, headers=headers))
    said = "the same rows, one SQL statement" + (", and the bare template" if drawn else "")
    return Measured(what, "ms", ours, floor, said, False, note)


@contextmanager
def _remembered() -> Iterator[None]:
    """Answers have their templates and contexts, which costs time: only while nothing is measured."""
    bare = Template._render  # type: ignore[attr-defined]
    Template._render = instruments.instrumented_test_render  # type: ignore[attr-defined]
    try:
        yield
    finally:
        Template._render = bare  # type: ignore[attr-defined]


def _added(rows: str, project: Project) -> object:
    moment = now()
    month = month_of(moment)
    first = month_span(month).starts_at
    asked: dict[str, Any] = {
        "project": project.pk,
        "now": moment,
        "month": month,
        "first": first,
        "until": past_until(moment),
    }
    with connection.cursor() as cursor:
        cursor.execute(rows, asked)
        return cursor.fetchall()


def _median_ms(call: Callable[[], object]) -> float:
    call()
    times: list[float] = []
    started = time.perf_counter()
    while len(times) < ROUNDS or time.perf_counter() < started + SECONDS:
        began = time.perf_counter()
        call()
        times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times)


def _stage() -> tuple[Client, Project]:
    project = ProjectFactory.create(slug="bench-money")
    user = UserFactory.create(username="bench-money")
    OrganizationMembershipFactory.create(organization=project.organization, user=user, role="owner")
    flavor: Flavor = FlavorFactory.create(slug="bench-money.1")
    moment = now()
    began = month_span(month_of(moment - timedelta(days=31))).starts_at
    _workspaces(project, user, flavor, began, moment)
    asked: dict[str, Any] = {
        "flavor": flavor.pk,
        "project": project.pk,
        "count": PODS,
        "workspaces": WORKSPACES,
        "now": moment,
    }
    with connection.cursor() as cursor:
        cursor.execute(HELD, asked)
        cursor.execute(PODS_RUN, asked)
    card = RateCard.objects.create(slug="bench-money", name="Bench", currency="EUR")
    rate_make(card, flavor, 2_400_000, began)
    for meter in (Meter.VCPU_HELD, Meter.MEMORY_HELD, Meter.STORAGE_HELD):
        rate_make(card, None, 3_001, began, meter=meter)
    _budgets(project)
    client = Client()
    client.force_login(user)
    return client, project


def _workspaces(project: Project, user: User, flavor: Flavor, began: datetime, moment: datetime) -> None:
    seconds = int((moment - began).total_seconds()) - 3600
    rows = [
        Workspace(
            id=uuid7(),
            project=project,
            site=flavor.pool.site,
            name=f"ws-{number:04}",
            state="ready",
            lease_ends_at=moment + timedelta(days=28),
            created_by=user,
            created_at=began + timedelta(seconds=number * 7919 % seconds),
            ready_at=moment,
        )
        for number in range(WORKSPACES)
    ]
    Workspace.objects.bulk_create(rows, batch_size=2000)
    WorkspaceFlavor.objects.bulk_create(
        [WorkspaceFlavor(workspace=row, flavor=flavor, count=2, confirmed=2) for row in rows]
    )


def _budgets(project: Project) -> None:
    for level, of, period in (
        ("organization", None, "month"),
        ("project", project, "month"),
        ("project", project, "quarter"),
    ):
        row = Budget.objects.create(
            organization=project.organization,
            project=of,
            name=f"{level} by {period}",
            measure="money",
            amount=10**9,
            period=period,
            level=level,
            created_by="bench",
        )
        row.thresholds.create(percent=100, action="block")
