"""Visits are counted by what came of them."""

import pytest
from prometheus_client import REGISTRY

from billing.services.site_removal import site_remove
from gpuaas.catalog.models import Site
from gpuaas.core import claims
from gpuaas.lifecycle.visits import visit
from gpuaas.metering.models import UsageInterval
from gpuaas.providers.sandbox.dials import ALWAYS, dials_set, failure_plan
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services import workspace_delete
from gpuaas.workspaces.services.rows import WORKSPACE
from tenants.actors import Actor
from tenants.models import Project
from tests.workspaces.stage import fast, ready, request, run_now, settle

pytestmark = pytest.mark.django_db


def visits(site: str, state: str) -> dict[str, float]:
    """By outcome, since the process began."""
    found = next(metric for metric in REGISTRY.collect() if metric.name == "gpuaas_visits")
    about = {"holder": "workspace", "site": site, "state": state}
    return {
        sample.labels["outcome"]: sample.value
        for sample in found.samples
        if sample.name == "gpuaas_visits_total" and about.items() <= sample.labels.items()
    }


@pytest.fixture
def before(site: Site) -> str:
    """The site under a name that no other test counts."""
    Site.objects.filter(pk=site.pk).update(slug=f"visited-{site.pk.hex[-8:]}")
    fast(site)
    return f"visited-{site.pk.hex[-8:]}"


def test_a_visit_that_brings_it_there(as_alice: Actor, project: Project, before: str) -> None:
    settle(request(as_alice, project))
    assert set(visits(before, "requested") | visits(before, "provisioning")) == {"done"}


def test_a_site_that_is_down_and_then_refuses(
    as_alice: Actor, project: Project, site: Site, before: str
) -> None:
    workspace = request(as_alice, project)
    dials_set(site.pk, down=True)
    run_now(workspace)
    run_now(workspace)
    dials_set(site.pk, down=False)
    failure_plan(site.pk, verb="create:quota", error="permanent", times=ALWAYS)
    assert settle(workspace).state == "failed"
    found = visits(before, "provisioning")
    assert found["failed"] == 1
    assert found["later"] >= 3


def test_a_removed_site_is_not_asked_what_a_deletion_has_left(
    as_alice: Actor, as_olga: Actor, project: Project, site: Site
) -> None:
    """The last look after a deletion is due when the site may be gone already."""
    workspace = ready(as_alice, project, site)
    workspace_delete(actor=as_alice, workspace=workspace)
    assert settle(workspace).state == "deleted"
    UsageInterval.objects.filter(site=site).delete()
    Site.objects.filter(pk=site.pk).update(enabled=False)
    site_remove(actor=as_olga, site=site, name=site.slug)
    dials_set(site.pk, down=True)  # as one that nobody has credentials for
    for _ in range(2):
        row = run_now(workspace)
        assert (row.due_at, row.claim_until, row.attempts) == (None, None, 0)
        assert row.conditions["Reachable"]["status"] == "True"


def test_a_visit_that_lost_its_claim_or_broke(as_alice: Actor, project: Project, before: str) -> None:
    """Neither wrote anything, so the site is not known."""
    workspace = request(as_alice, project)
    was = visits("", workspace.state)

    def lost(_: Workspace) -> None:
        raise claims.ClaimLost("another process has it")

    def broken(_: Workspace) -> None:
        raise ZeroDivisionError

    for work in (lost, broken):
        Workspace.objects.filter(pk=workspace.pk).update(claim_until=None)
        visit(WORKSPACE, workspace.pk, work)
        Workspace.objects.filter(pk=workspace.pk).update(due_at=workspace.due_at)
    now = visits("", workspace.state)
    assert {word: now[word] - was.get(word, 0) for word in now} == {"lost": 1, "error": 1}
    assert visits(before, workspace.state) == {}
