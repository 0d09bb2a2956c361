"""A month of 10,000 workspaces is closed: how long, and how much memory the worker and its database connection take for it."""

import resource
import time
from datetime import date, timedelta

from django.db import connection

from billing.models import Invoice, InvoiceShare
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

MONTH = date(2026, 10, 1)
WORKSPACES, PROJECTS, ORGANIZATIONS = 10_000, 500, 100
LIMIT_S = 60.0

INTERVALS = """
INSERT INTO metering_usageinterval (id, site_id, project_id, workspace_id, flavor_id, consumer_uid, consumer_name, node, meter,
    resource_name, quantity, started_at, ended_at, last_seen_at, ended_by, owner, surplus)
SELECT gen_random_uuid(), w.site_id, w.project_id, w.id, CASE WHEN m.meter LIKE 'gpu%%' THEN %(flavor)s::uuid END,
       w.id::text, 'bench', '', m.meter, m.meter, m.quantity, %(start)s::timestamptz + (w.number %% 700) * interval '1 hour',
       NULL, %(start)s, '', '', false
FROM (SELECT w.*, row_number() OVER () AS number FROM workspaces_workspace w) w,
     (VALUES ('gpu_held', 2), ('vcpu_held', 32), ('memory_held', 360), ('storage_held', 100)) m (meter, quantity)
"""


def measure() -> list[Measured]:
    _furnish()
    month_close_request(actor=SYSTEM, month=MONTH, now=month_span(MONTH).ends_at + timedelta(days=3))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.monotonic()
    row = month_close_run(month=MONTH, now=month_span(MONTH).ends_at + timedelta(days=3))
    took = time.monotonic() - began
    grew = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    shares = InvoiceShare.objects.count()
    if row.state != "closed" or Invoice.objects.count() != ORGANIZATIONS:
        raise SystemExit(f"the month was not closed: {row.state} {row.refusal}")
    slowest = max(row.steps, key=lambda step: step["seconds"])
    note = (
        f"{ORGANIZATIONS} invoices, {shares:,} shares; the worker grew by {grew:.0f} MiB; "
        f"slowest step: {slowest['name']}, {slowest['seconds']:.1f} s"
    )
    what = f"close a month of {WORKSPACES:,} workspaces"
    return [Measured(what, "s", took, LIMIT_S, "the promise", higher_is_better=False, note=note)]


def _furnish() -> None:
    site = stock_site()
    Site.objects.filter(pk=site.pk).update(enabled=True)
    SiteMeter.objects.create(site=site, last_proof_at=month_span(MONTH).ends_at)
    flavor = Flavor.objects.get(slug="h100.1", pool__site=site)
    for what, meter, price in ((flavor, Meter.GPU_HELD, "2.40"), (None, Meter.STORAGE_HELD, "0.00012")):
        rate_set(actor=SYSTEM, flavor=what, meter=meter, price=price, valid_from=month_span(MONTH).starts_at)
    user = User.objects.create(username="bench")
    organizations = Organization.objects.bulk_create(
        [Organization(slug=f"bench-{n}", name=f"Bench {n}") for n in range(ORGANIZATIONS)]
    )
    projects = Project.objects.bulk_create(
        [
            Project(organization=organizations[n % ORGANIZATIONS], slug=f"bench-p-{n}", name=f"Bench {n}")
            for n in range(PROJECTS)
        ]
    )
    _workspaces(site, projects, user)
    with connection.cursor() as cursor:
        cursor.execute(INTERVALS, {"flavor": flavor.pk, "start": month_span(MONTH).starts_at})
        cursor.execute("ANALYZE")


def _workspaces(site: Site, projects: list[Project], user: User) -> None:
    rows = [
        Workspace(
            project=projects[n % PROJECTS],
            site=site,
            name=f"w-{n}",
            lease_ends_at=month_span(MONTH).ends_at + timedelta(days=300),
            created_by=user,
            created_at=month_span(MONTH).starts_at,
        )
        for n in range(WORKSPACES)
    ]
    Workspace.objects.bulk_create(rows, batch_size=2000)
