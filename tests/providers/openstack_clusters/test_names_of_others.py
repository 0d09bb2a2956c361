"""A tenant may call things as the operator does: the site's account sees them all, and takes none of them for the site's."""

from collections.abc import Iterator
from contextlib import closing

import pytest
import requests

from deploy.lab.openstack import Lab
from gpuaas.core.errors import Permanent
from gpuaas.providers.base import Change
from gpuaas.providers.openstack import networks
from gpuaas.providers.openstack.clusters.nodes import Nodes
from tests.contracts.clusters.openstack_rig import OpenStackClusterRig
from tests.contracts.clusters.rigs import step_finish
from tests.lab.openstack.fixtures import Cloud as LabCloud
from tests.lab.openstack.fixtures import Project

pytestmark = [pytest.mark.openstack]
RAW = {"disk_format": "raw", "container_format": "bare"}


@pytest.fixture
def rig(openstack_lab: Lab) -> Iterator[OpenStackClusterRig]:
    with closing(OpenStackClusterRig(openstack_lab)) as made:
        yield made


@pytest.fixture
def neighbor(cloud: LabCloud) -> Iterator[Project]:
    """Whose images go at the end."""
    made = cloud.project()
    yield made
    for row in cloud.call("GET", "image", f"/v2/images?owner={made.id}").json()["images"]:
        cloud.call("DELETE", "image", f"/v2/images/{row['id']}")


def uploaded(cloud: LabCloud, neighbor: Project, name: str) -> str:
    made = cloud.call("POST", "image", "/v2/images", token=neighbor.token, json={"name": name, **RAW})
    image = str(made.json()["id"])
    headers = {"X-Auth-Token": neighbor.token, "Content-Type": "application/octet-stream"}
    address = f"{cloud.url('image')}/v2/images/{image}/file"
    assert requests.put(address, data=bytes(1024), headers=headers, timeout=60).ok
    return image


def test_machines_boot_from_the_sites_image_whatever_tenants_call_theirs(
    rig: OpenStackClusterRig, cloud: LabCloud, neighbor: Project
) -> None:
    theirs = uploaded(cloud, neighbor, "tiny")
    spec = rig.spec(workers=1)
    for step in ("project", "network", "endpoint", "control-plane"):
        step_finish(rig.driver, Change.CREATE, spec, step)
    assert rig.server(spec, f"{spec.external_name}-control-1")["image"]["id"] != theirs


def test_an_image_that_only_a_tenant_has_is_none(
    rig: OpenStackClusterRig, cloud: LabCloud, neighbor: Project
) -> None:
    uploaded(cloud, neighbor, f"only-{neighbor.id}")
    spec = rig.spec(workers=1)
    spec.settings["image"] = f"only-{neighbor.id}"  # type: ignore[index]
    step_finish(rig.driver, Change.CREATE, spec, "project")
    nodes = Nodes(rig.admin, spec, rig.driver._place(spec.ref))  # type: ignore[attr-defined]
    with pytest.raises(Permanent, match="no public image"):
        nodes._image()


def test_the_way_out_is_the_sites_whatever_tenants_call_their_networks(
    rig: OpenStackClusterRig, cloud: LabCloud, neighbor: Project
) -> None:
    (outside,) = rig.admin.items("network", "/networks", "networks", name="public")
    for _ in range(6):  # the cloud lists them by their random ids
        cloud.made("network", "/v2.0/networks", "network", {"name": "public"}, token=neighbor.token)
    assert networks.outside(rig.admin, "public") == outside["id"]
