"""A workspace whose site no longer has what was sold: told where it is looked at, and changed in nothing."""

import pytest

from gpuaas.catalog.models import GpuPool, Site
from gpuaas.catalog.services import site_probe
from gpuaas.core.errors import Invalid
from gpuaas.providers.sandbox.fleet import fleet_seed
from gpuaas.providers.sandbox.models import SandboxNamespace, SandboxNode
from gpuaas.providers.sandbox.pods import pod_create
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services import workspace_request
from gpuaas.workspaces.tasks import site_changed
from tenants.actors import Actor
from tenants.models import Project
from tests.lasting import lasting
from tests.workspaces.stage import ready, run_now

GPU = "nvidia.com/gpu"


@pytest.fixture
@lasting
def workspace(as_alice: Actor, project: Project, site: Site) -> Workspace:
    fleet_seed(site.pk, slug=site.slug)
    assert site_probe(site.pk)
    made = ready(as_alice, project, site)
    return look(made)


def look(workspace: Workspace) -> Workspace:
    """A probe, and all that follows it."""
    assert site_probe(workspace.site_id)
    site_changed(str(workspace.site_id))
    return run_now(workspace)


def rename(to: str) -> None:
    SandboxNode.objects.filter(name__startswith="h100").update(resource_name=to)


def at_the_site(workspace: Workspace) -> tuple[dict[str, int | None], object]:
    room = SandboxNamespace.objects.get(name=workspace.external_name)
    keys = [GPU, "cpu", "memory", "storage"]
    return dict(room.quotas.filter(resource__in=keys).values_list("resource", "hard")), room.selectors


def test_what_was_sold_and_is_gone_is_told_and_nothing_is_rewritten(
    workspace: Workspace, as_alice: Actor, project: Project
) -> None:
    assert workspace.conditions["InSync"]["status"] == "True"
    before = at_the_site(workspace)
    rename("nvidia.com/gpu.shared")
    workspace = look(workspace)
    held = workspace.conditions["InSync"]
    assert (workspace.state, held["status"], held["reason"]) == ("ready", "False", "NotAsSold")
    assert "H100 SXM 80 GB: the site has no nvidia.com/gpu" in held["message"]
    assert held["remedy"]
    assert not workspace.drifts.exists(), "nobody has changed what the portal had set"
    assert at_the_site(workspace) == before
    assert pod_create(workspace.site_id, workspace.external_name, "train", 2).resource_name == GPU
    with pytest.raises(Invalid, match="on offer"):
        workspace_request(actor=as_alice, project=project, name="more", items=[("h100.1", 1)])
    rename(GPU)
    workspace = look(workspace)
    assert workspace.conditions["InSync"]["status"] == "True"
    assert at_the_site(workspace) == before
    assert GpuPool.objects.get(site=workspace.site_id, gpu_type__slug="h100-sxm-80gb").healthy == 16


def test_a_second_name_at_the_site_is_closed_in_it(workspace: Workspace) -> None:
    before = at_the_site(workspace)
    SandboxNode.objects.filter(name="h100-02").update(resource_name="nvidia.com/a")
    workspace = look(workspace)
    assert at_the_site(workspace) == before
    room = SandboxNamespace.objects.get(name=workspace.external_name)
    assert room.quotas.get(resource="nvidia.com/a").wanted == 0
    assert workspace.conditions["InSync"]["status"] == "True", "half of the pool is there by its name"
