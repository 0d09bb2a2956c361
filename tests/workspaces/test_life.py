"""The life of a workspace on the sandbox site: made, resized, healed, deleted."""

import pytest

from gpuaas.catalog.models import Flavor, Site
from gpuaas.providers.sandbox.models import SandboxNamespace, SandboxQuota
from gpuaas.workspaces.models import Holding, Workspace
from gpuaas.workspaces.services import workspace_delete, workspace_request, workspace_resize
from quotas.models import Limit, Reservation
from tenants.actors import Actor
from tenants.models import Project
from tests.factories.quotas import counters_must_match
from tests.workspaces.stage import namespaces, ready, request, run_now, settle

pytestmark = pytest.mark.django_db


def open_holdings(workspace: Workspace) -> dict[str, int]:
    rows = workspace.holdings.filter(ended_at__isnull=True)
    return {row.meter: row.quantity for row in rows}


def used(project: Project, resource: str = "gpu:h100-sxm-80gb") -> int:
    return Limit.objects.get(project=project, resource=resource).used


def hard(site: Site) -> dict[str, int | None]:
    return dict(SandboxQuota.objects.filter(namespace__site=site.pk).values_list("resource", "hard"))


def test_it_becomes_ready_and_holds_what_the_site_confirmed(
    as_alice: Actor, project: Project, site: Site
) -> None:
    workspace = ready(as_alice, project, site)

    assert namespaces(site) == [workspace.external_name]
    assert hard(site)["nvidia.com/gpu"] == 2
    assert open_holdings(workspace) == {
        "gpu_held": 2,
        "vcpu_held": 32,
        "memory_held": 360,
        "storage_held": 100,
    }
    operation = workspace.operations.get()
    assert operation.succeeded
    assert operation.finished_at is not None
    assert [step.state for step in operation.steps.all()] == ["done"] * 7
    assert all(step.started_at and step.finished_at for step in operation.steps.all())
    assert {kind: held["status"] for kind, held in workspace.conditions.items()} == {
        "Reachable": "True",
        "QuotaInSync": "True",
        "AccessGranted": "True",
    }
    assert workspace.observed["hard"]["nvidia.com/gpu"] == 2
    assert workspace.due_at is not None
    assert workspace.claim_token is None
    assert [item.confirmed for item in workspace.flavors.all()] == [2]


def test_growing_reserves_first_and_bills_after_the_site_confirmed(
    as_alice: Actor, project: Project, site: Site
) -> None:
    workspace = ready(as_alice, project, site)
    workspace_resize(actor=as_alice, workspace=workspace, items=[("h100.1", 5)])

    assert used(project) == 5
    assert open_holdings(workspace)["gpu_held"] == 2

    workspace = settle(workspace)
    assert workspace.state == "ready"
    assert hard(site)["nvidia.com/gpu"] == 5
    assert open_holdings(workspace)["gpu_held"] == 5
    first, second = Holding.objects.filter(workspace=workspace, meter="gpu_held").order_by("pk")
    assert first.ended_at == second.started_at
    assert Holding.objects.filter(workspace=workspace, meter="storage_held").count() == 1
    counters_must_match()


def test_shrinking_gives_back_only_after_the_site_confirmed(
    as_alice: Actor, project: Project, site: Site
) -> None:
    workspace = ready(as_alice, project, site, h100s=4)
    workspace_resize(actor=as_alice, workspace=workspace, items=[("h100.1", 1)], storage_gib=0)

    assert used(project) == 4

    workspace = settle(workspace)
    assert used(project) == 1
    assert open_holdings(workspace) == {"gpu_held": 1, "vcpu_held": 16, "memory_held": 180}
    assert not Reservation.objects.filter(state="held", resource="storage").exists()
    counters_must_match()


def test_deleting_releases_once_and_leaves_nothing(as_alice: Actor, project: Project, site: Site) -> None:
    workspace = ready(as_alice, project, site)
    workspace_delete(actor=as_alice, workspace=workspace)
    workspace_delete(actor=as_alice, workspace=workspace)
    assert used(project) == 2

    workspace = settle(workspace)

    assert workspace.state == "deleted"
    assert namespaces(site) == []
    assert used(project) == 0
    assert open_holdings(workspace) == {}
    assert workspace.operations.count() == 2
    workspace_delete(actor=as_alice, workspace=workspace)
    run_now(workspace)
    assert used(project) == 0
    counters_must_match()


@pytest.mark.parametrize("runs", [0, 1])
def test_deleting_while_it_is_made(as_alice: Actor, project: Project, site: Site, runs: int) -> None:
    workspace = request(as_alice, project)
    for _ in range(runs):
        workspace = run_now(workspace)
    workspace_delete(actor=as_alice, workspace=workspace)
    assert workspace.operations.filter(finished_at__isnull=True).get().kind == "delete"

    assert settle(workspace, runs=300).state == "deleted"
    assert namespaces(site) == []
    counters_must_match()
    assert used(project) == 0


def test_the_name_is_free_again_after_deletion(as_alice: Actor, project: Project, site: Site) -> None:
    workspace = ready(as_alice, project, site)
    workspace_delete(actor=as_alice, workspace=workspace)
    settle(workspace)

    again = workspace_request(actor=as_alice, project=project, name="train", items=[("h100.1", 1)])

    assert again.external_name != workspace.external_name


def test_drift_is_healed_quietly(as_alice: Actor, project: Project, site: Site) -> None:
    workspace = ready(as_alice, project, site)
    SandboxQuota.objects.filter(resource="nvidia.com/gpu").update(hard=16, wanted=16)

    workspace = run_now(workspace)

    assert hard(site)["nvidia.com/gpu"] == 2
    assert workspace.state == "ready"
    assert workspace.conditions["QuotaInSync"]["status"] == "True"
    assert workspace.operations.count() == 1


def test_a_namespace_that_somebody_deleted_is_made_again(
    as_alice: Actor, project: Project, site: Site
) -> None:
    workspace = ready(as_alice, project, site)
    SandboxNamespace.objects.all().delete()

    run_now(workspace)

    assert namespaces(site) == [workspace.external_name]
    assert hard(site)["nvidia.com/gpu"] == 2


def test_what_a_late_answer_left_behind_is_taken_away(as_alice: Actor, project: Project, site: Site) -> None:
    workspace = ready(as_alice, project, site)
    workspace_delete(actor=as_alice, workspace=workspace)
    workspace = settle(workspace)
    assert workspace.due_at is not None
    SandboxNamespace.objects.create(site_id=site.pk, name=workspace.external_name, owner=workspace.pk)

    for _ in range(3):
        workspace = run_now(workspace)

    assert namespaces(site) == []
    assert workspace.due_at is None


def test_pools_that_were_not_bought_are_closed(
    as_alice: Actor, project: Project, site: Site, l40s: Flavor
) -> None:
    l40s.pool.resource_name = "nvidia.com/l40s"
    l40s.pool.save()
    ready(as_alice, project, site)

    assert hard(site)["nvidia.com/l40s"] == 0
