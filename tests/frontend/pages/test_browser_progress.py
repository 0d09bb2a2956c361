"""Long work in a browser while it is held in the middle: steps and numbers, the same after a reload and for somebody else."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
import time_machine
from django.urls import reverse
from playwright.sync_api import Browser, expect

from billing.services.closing import month_close_request
from gpuaas.catalog.models import Flavor, Site
from gpuaas.clusters.models import ClusterOperationStep
from gpuaas.core import clock
from gpuaas.metering.imports import IMPORTS
from gpuaas.metering.models import ImportProgress
from gpuaas.providers.sandbox.dials import dials_set
from gpuaas.providers.sandbox.models import SandboxClusterObject
from gpuaas.workspaces.models import Workspace
from tenants.actors import SYSTEM, Actor
from tenants.audit import audit_record
from tenants.models import AuditEntry, Project, User
from tests.billing.stage import workspace_make
from tests.billing.test_import import END, START, file_of, row
from tests.clusters.stage import offered, order, run_now, settle
from tests.factories.billing import MONTH
from tests.factories.quotas import limits_give
from tests.factories.tenants import UserFactory
from tests.frontend.operator.test_closing import AFTER, PAGE, stopped_worker, three
from tests.frontend.pages.browsing import (
    NEEDED,
    connection_words,
    context_for,
    looked_at,
    opened,
    until,
)
from tests.frontend.pages.server import served

pytestmark = NEEDED
__all__ = ["three"]  # a fixture


@pytest.fixture
def address() -> Iterator[str]:
    with served() as url:
        yield url


@pytest.mark.usefixtures("three")
def test_a_close_counts_organizations(chromium: Browser, address: str, olga: User, as_olga: Actor) -> None:
    with time_machine.travel(AFTER):
        month_close_request(actor=as_olga, month=MONTH)
        page, complaints = opened(context_for(chromium, address, olga))
        page.goto(address + PAGE)
        expect(page.locator("main")).to_contain_text("Waiting for a worker. One starts within 30 seconds.")
        with stopped_worker():
            for _ in range(2):
                expect(page.locator("main")).to_contain_text("Rating and writing.")
                expect(page.locator("main .g-meter__text")).to_have_text("1 of 3 organizations")
                expect(page.locator("main .g-skeleton")).to_have_count(0)
                looked_at(page, "desk", picture="close-under-way")
                page.reload()
        expect(page.locator("main")).to_contain_text("3 documents, requested by olga")
    assert complaints == []


@contextmanager
def another_import() -> Iterator[None]:
    """One that is under way; the next waits for its end, with its own rows read."""
    with psycopg.connect(connection_words(), autocommit=True) as other:
        other.execute("SELECT pg_advisory_lock(%s, %s)", IMPORTS)
        yield


@pytest.fixture
def workspace(project: Project, h100: Flavor, alice: User) -> Workspace:
    return workspace_make(project, h100, alice)


def test_an_import_of_usage_counts_its_rows(
    chromium: Browser, address: str, olga: User, workspace: Workspace, tmp_path: Path
) -> None:
    file = file_of(tmp_path, *(row(f"r-{number}", start=START, end=END) for number in range(2000)))
    page, complaints = opened(context_for(chromium, address, olga))
    home = address + reverse("frontend:operator_usage_imports")
    page.goto(home)
    page.locator("input[type=file]").set_input_files(file)
    for name in ("overlap_file", "reopen"):
        page.locator(f"input[name={name}]").check()
    looks: list[str] = []
    page.on("request", lambda sent: looks.append(sent.url) if sent.resource_type == "xhr" else None)
    theirs, _ = opened(
        context_for(chromium, address, UserFactory.create(username="oskar", platform_role="operator"))
    )
    with another_import():
        page.get_by_role("button", name="Preview").click(no_wait_after=True)
        theirs.goto(home)
        for _ in range(2):
            expect(theirs.locator("#under-way")).to_contain_text("usage.csv, by olga")
            expect(theirs.locator("#under-way")).to_contain_text("Step 2 of 5, since")
            expect(theirs.locator("#under-way")).to_contain_text("2,000 rows are read.")
            theirs.reload()
        looks.clear()
        until(lambda: theirs.evaluate("1") and home in looks, "a page whose form is sent looks no more")
        looked_at(theirs, "desk", picture="import-under-way")
    expect(page.locator("main")).to_contain_text("2,000 of 2,000 rows would be imported")
    with another_import():
        page.get_by_role("button", name="Import usage").click(no_wait_after=True)
        expect(theirs.locator("#under-way")).to_contain_text("Step 2 of 5, since")
    expect(page.locator("h1")).to_have_text("usage.csv")
    expect(theirs.locator("#under-way > *")).to_have_count(0)
    assert not ImportProgress.objects.exists()
    assert complaints == []


def test_an_export_goes_on_while_the_page_is_left(
    chromium: Browser, address: str, alice: User, limited: Project
) -> None:
    """A download is the browser's own: it counts the bytes, and no reload cuts it off. Here it waits for its rows."""
    for number in range(3):
        audit_record(
            actor=SYSTEM, action="project.update", target=limited, project=limited, after={"number": number}
        )
    page, complaints = opened(context_for(chromium, address, alice))
    page.goto(address + reverse("frontend:audit", args=[limited.slug]))
    with psycopg.connect(connection_words()) as other:
        other.execute("LOCK TABLE tenants_auditentry IN ACCESS EXCLUSIVE MODE")
        with page.expect_download() as begun:
            page.get_by_role("link", name="CSV").click()
        page.goto(f"{address}/p/weather-lm/members/")
        page.reload()
        expect(page.locator("h1")).to_have_text("Members")
    rows = begun.value.path().read_text().splitlines()
    assert len(rows) == 1 + AuditEntry.objects.filter(project_id=limited.pk).count() > 3
    assert complaints == []


def test_an_order_of_a_cluster_shows_its_steps(
    chromium: Browser,
    address: str,
    alice: User,
    as_alice: Actor,
    as_olga: Actor,
    project: Project,
    site: Site,
) -> None:
    """While its machines take an hour; when they are there, the page says so by itself."""
    offered(as_olga, site)
    limits_give(project)
    cluster = order(as_alice, project)
    page, complaints = opened(context_for(chromium, address, alice))
    page.goto(f"{address}/p/weather-lm/clusters/{cluster.pk}/")
    steps = page.locator("#cluster-live .g-fall__step")
    expect(steps.first, "what is reserved with the order").to_have_attribute("data-state", "done")
    dials_set(site.pk, machine_ms=3_600_000)
    run_now(cluster)
    known = ClusterOperationStep.objects.filter(operation__cluster=cluster)
    done = known.filter(state="done").count()
    assert 0 < done < known.count()
    for _ in range(2):
        expect(page.locator("#cluster-live .g-fall__step[data-state=done]")).to_have_count(done)
        expect(steps).to_have_count(known.count())
        expect(page.locator("#cluster-live [aria-current=step]")).to_have_count(1)
        looked_at(page, "desk", picture="cluster-under-way")
        page.reload()
    dials_set(site.pk, machine_ms=0)
    SandboxClusterObject.objects.filter(tag=cluster.pk).update(ready_at=clock.now())
    assert settle(cluster).state == "ready"
    expect(page.locator(".g-head .badge")).to_have_text("Ready")
    assert complaints == []
