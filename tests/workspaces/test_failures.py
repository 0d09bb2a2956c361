"""A site that does not answer, refuses, or answers late: nothing is lost, everything is said."""

from datetime import timedelta

import pytest

from gpuaas.catalog.models import Site
from gpuaas.core.clock import now
from gpuaas.core.errors import Conflict
from gpuaas.providers.sandbox.dials import ALWAYS, dials_set, failure_plan
from gpuaas.providers.sandbox.models import SandboxNamespace, SandboxQuota
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services import workspace_delete, workspace_resize, workspace_retry
from quotas.models import Limit
from tenants.actors import Actor
from tenants.models import Project
from tests.factories.quotas import counters_must_match
from tests.workspaces.stage import fast, namespaces, ready, request, run_now, settle

pytestmark = pytest.mark.django_db
H100 = "gpu:h100-sxm-80gb"


def test_a_site_that_is_down_is_waited_for_and_the_page_says_so(
    as_alice: Actor, project: Project, site: Site
) -> None:
    fast(site)
    dials_set(site.pk, down=True)
    workspace = request(as_alice, project)
    for _ in range(12):
        workspace = run_now(workspace)

    assert workspace.state == "provisioning"
    condition = workspace.conditions["Reachable"]
    assert (condition["status"], condition["reason"]) == ("False", "NoAnswer")
    assert workspace.due_at is not None
    assert now() < workspace.due_at < now() + timedelta(seconds=61)

    dials_set(site.pk, down=False)
    workspace = settle(workspace)
    assert workspace.state == "ready"
    assert workspace.conditions["Reachable"]["status"] == "True"
    assert workspace.attempts == 0


@pytest.mark.parametrize("step", ["namespace", "quota", "confirmed", "limits", "network", "access"])
@pytest.mark.parametrize("error", ["lost", "unavailable", "unauthorized"])
def test_any_step_may_be_lost_once(
    as_alice: Actor, project: Project, site: Site, step: str, error: str
) -> None:
    fast(site)
    failure_plan(site.pk, verb=f"create:{step}", error=error)

    workspace = settle(request(as_alice, project))

    assert workspace.state == "ready"
    assert namespaces(site) == [workspace.external_name]


def test_a_refusal_for_good_fails_with_its_reason_and_keeps_the_reservation(
    as_alice: Actor, project: Project, site: Site
) -> None:
    fast(site)
    failure_plan(site.pk, verb="create:quota", error="permanent", times=ALWAYS)
    workspace = settle(request(as_alice, project))

    assert workspace.state == "failed"
    assert "refuses create:quota" in workspace.failure
    operation = workspace.operations.get()
    assert operation.succeeded is False
    assert operation.steps.get(key="quota").state == "failed"
    assert Limit.objects.get(project=project, resource=H100).used == 2
    assert workspace.due_at is None

    failure_plan(site.pk, verb="create:quota", times=0)
    workspace_retry(actor=as_alice, workspace=workspace)
    assert settle(workspace).state == "ready"
    assert workspace.operations.count() == 2
    counters_must_match()


def test_a_failed_one_is_deleted_and_released_once(as_alice: Actor, project: Project, site: Site) -> None:
    fast(site)
    failure_plan(site.pk, verb="create:limits", error="permanent", times=ALWAYS)
    workspace = settle(request(as_alice, project))
    workspace_delete(actor=as_alice, workspace=workspace)

    assert settle(workspace).state == "deleted"
    assert namespaces(site) == []
    assert Limit.objects.get(project=project, resource=H100).used == 0
    counters_must_match()


def test_a_failed_resize_stays_as_it_was_and_finds_back(
    as_alice: Actor, project: Project, site: Site
) -> None:
    workspace = ready(as_alice, project, site)
    failure_plan(site.pk, verb="resize:confirmed", error="permanent", times=3)
    workspace_resize(actor=as_alice, workspace=workspace, items=[("h100.1", 6)])
    workspace = settle(workspace)
    assert workspace.state == "failed"

    run_now(workspace)
    assert SandboxQuota.objects.get(resource="nvidia.com/gpu").hard == 2
    assert workspace.holdings.get(meter="gpu_held", ended_at=None).quantity == 2

    workspace.refresh_from_db()
    workspace_resize(actor=as_alice, workspace=workspace, items=[("h100.1", 3)])
    assert settle(workspace).state == "ready"
    assert Limit.objects.get(project=project, resource=H100).used == 3
    counters_must_match()


def test_deletion_never_gives_up(as_alice: Actor, project: Project, site: Site) -> None:
    workspace = ready(as_alice, project, site)
    failure_plan(site.pk, verb="delete:namespace", error="permanent", times=6)
    workspace_delete(actor=as_alice, workspace=workspace)
    for _ in range(4):
        workspace = run_now(workspace)

    assert workspace.state == "deleting"
    assert workspace.conditions["Progressing"]["reason"] == "SiteRefused"
    workspace = settle(workspace)
    assert workspace.state == "deleted"
    assert "Progressing" not in workspace.conditions


def test_a_namespace_taken_away_in_the_middle_is_made_again(
    as_alice: Actor, project: Project, site: Site
) -> None:
    fast(site)
    failure_plan(site.pk, verb="create:network", error="unavailable")
    workspace = run_now(request(as_alice, project))
    SandboxNamespace.objects.all().delete()

    workspace = settle(workspace)

    assert workspace.state == "ready"
    assert namespaces(site) == [workspace.external_name]
    assert workspace.operations.count() == 1


def test_a_namespace_of_somebody_else_is_never_touched(as_alice: Actor, project: Project, site: Site) -> None:
    fast(site)
    workspace = request(as_alice, project)
    SandboxNamespace.objects.create(site_id=site.pk, name=workspace.external_name)

    assert settle(workspace).state == "failed"
    workspace_delete(actor=as_alice, workspace=workspace)
    run_now(workspace)
    assert namespaces(site) == [workspace.external_name]


def test_one_operation_at_a_time(as_alice: Actor, project: Project, site: Site) -> None:
    workspace = request(as_alice, project)
    with pytest.raises(Conflict):
        workspace_resize(actor=as_alice, workspace=workspace, items=[("h100.1", 3)])
    with pytest.raises(Conflict):
        workspace_retry(actor=as_alice, workspace=workspace)
    fast(site)
    settle(workspace)
    workspace_resize(actor=as_alice, workspace=workspace, items=[("h100.1", 3)])
    with pytest.raises(Conflict, match="another resize is running"):
        workspace_resize(actor=as_alice, workspace=workspace, items=[("h100.1", 4)])
    assert Limit.objects.get(project=project, resource=H100).used == 3


def test_a_dead_worker_is_succeeded_when_its_claim_ends(
    as_alice: Actor, project: Project, site: Site
) -> None:
    fast(site)
    workspace = request(as_alice, project)
    Workspace.objects.filter(pk=workspace.pk).update(
        claim_token=workspace.pk, claim_until=now() + timedelta(seconds=50)
    )
    assert run_now(workspace).state == "requested"
    Workspace.objects.filter(pk=workspace.pk).update(claim_until=now() - timedelta(seconds=1))
    assert settle(workspace).state == "ready"
