"""Eight orders at once through the portal, for eight devices that are free: eight machines run."""

from collections.abc import Iterator

import pytest

from deploy.lab.openstack import Lab
from gpuaas.catalog.models import Site
from gpuaas.workspaces.machines.models import Machine
from gpuaas.workspaces.machines.services import MachineOrder, machine_order
from gpuaas.workspaces.machines.visit import visit
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services import workspace_request
from gpuaas.workspaces.spec import spec_of
from tenants.actors import Actor
from tenants.models import Project
from tests.factories.quotas import limits_give
from tests.lab.fixtures import until
from tests.lab.openstack.fixtures import Cloud
from tests.providers.openstack.conftest import take_away
from tests.providers.openstack.portal import driver_at, flavor_of, reach, site_make

pytestmark = [pytest.mark.openstack, pytest.mark.django_db(transaction=True)]
AT_ONCE = 8


@pytest.fixture
def workspace(openstack_lab: Lab, db: None, as_alice: Actor, project: Project) -> Iterator[Workspace]:
    site: Site = site_make(openstack_lab, slug="together")
    limits_give(project, {"gpu:h100-sxm-80gb": AT_ONCE})
    asked = workspace_request(
        actor=as_alice, project=project, name="train", items=[(flavor_of(site).slug, AT_ONCE)]
    )
    try:
        row = reach(asked, "ready")
        assert visit(row.pk)
        yield row
    finally:
        take_away(driver_at(site, openstack_lab), spec_of(asked))


def test_all_run(workspace: Workspace, as_alice: Actor, cloud: Cloud) -> None:
    slug = workspace.flavors.get().flavor.slug
    for number in range(AT_ONCE):
        order = MachineOrder(name=f"train-{number}", flavor=slug, image="tiny", cloud_init="#cloud-config\n")
        machine_order(actor=as_alice, workspace=workspace, order=order)

    def settled() -> bool:
        visit(workspace.pk)
        return set(Machine.objects.values_list("state", flat=True)) <= {"running", "failed"}

    until(settled, "nobody is being built any more", seconds=240)
    found = list(Machine.objects.values_list("state", "failure"))
    assert found == [("running", "")] * AT_ONCE
    servers = cloud.call("GET", "compute", "/servers/detail?all_tenants=1").json()["servers"]
    ours = [row for row in servers if row["name"].startswith("train-")]
    assert len(ours) == AT_ONCE, "nothing of those that lost is left"
    assert all(row["OS-EXT-SRV-ATTR:user_data"] for row in ours), "and each has what was ordered with it"
    assert {row["flavor"]["extra_specs"]["pci_passthrough:alias"] for row in ours} == {"h100:1"}
