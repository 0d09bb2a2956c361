"""What looks at the real cloud find, and write: cards that are reserved, machines that come and go, and whose they are."""

from collections.abc import Iterator

import pytest

from deploy.lab.openstack import Lab
from gpuaas.catalog.models import GpuPool, Node, Site
from gpuaas.catalog.services import site_probe
from gpuaas.providers.base import ObservedNode, WorkspaceSpec
from gpuaas.providers.openstack.driver import OpenStackDriver
from tests.lab.fixtures import until
from tests.lab.openstack.fixtures import Cloud
from tests.providers.openstack.conftest import H100
from tests.providers.openstack.portal import site_make
from tests.providers.openstack.test_workspace import as_member, boot

pytestmark = pytest.mark.openstack
WHOLE = "h100-sxm-80gb"


def reserve(cloud: Cloud, provider: str, amount: int) -> None:
    path = f"/resource_providers/{provider}/inventories"
    generation = cloud.call("GET", "placement", path).json()["resource_provider_generation"]
    body = {"resource_provider_generation": generation, "total": 1, "reserved": amount, "max_unit": 1}
    cloud.call("PUT", "placement", f"{path}/{H100}", json=body).raise_for_status()


def cards(cloud: Cloud) -> list[str]:
    rows = cloud.call("GET", "placement", "/resource_providers").json()["resource_providers"]
    return [
        row["uuid"]
        for row in rows
        if H100
        in cloud.call("GET", "placement", f"/resource_providers/{row['uuid']}/inventories").json()[
            "inventories"
        ]
    ]


@pytest.fixture
def site(openstack_lab: Lab, db: None) -> Site:
    return site_make(openstack_lab, slug="looks")


@pytest.fixture
def reserved(cloud: Cloud) -> Iterator[list[str]]:
    """Of the eight; what a test reserves of them is released."""
    found = cards(cloud)
    assert len(found) == 8
    yield found
    for provider in found:
        reserve(cloud, provider, 0)


def counted(site: Site) -> tuple[int, int, int]:
    assert site_probe(site.pk)
    row = GpuPool.objects.get(site=site, gpu_type__slug=WHOLE)
    return row.capacity, row.healthy, row.allocated


@pytest.mark.django_db
def test_a_reserved_card_is_out_of_order_and_looks_go_on(
    site: Site, cloud: Cloud, reserved: list[str]
) -> None:
    assert counted(site) == (8, 8, 0)
    reserve(cloud, reserved[0], 1)
    for _ in range(2):
        assert counted(site) == (8, 7, 0)
    (node,) = Node.objects.filter(site=site, pool__gpu_type__slug=WHOLE)
    assert (node.capacity, node.unhealthy) == (8, 1)
    for provider in reserved:
        reserve(cloud, provider, 1)
    assert counted(site) == (8, 0, 0)
    for provider in reserved:
        reserve(cloud, provider, 0)
    assert counted(site) == (8, 8, 0)


def h100s(driver: OpenStackDriver) -> ObservedNode:
    (found,) = (node for node in driver.probe().nodes if node.kind_slug == WHOLE)
    return found


def test_what_was_given_back_is_free_at_the_next_look(driver: OpenStackDriver, ready: WorkspaceSpec) -> None:
    """For a process that saw it in use, too: Placement does not raise a card's generation when an allocation goes."""
    assert (h100s(driver).allocated, h100s(driver).free) == (0, 8)
    alice = as_member(driver, ready)
    machine = boot(alice, "train")
    until(lambda: h100s(driver).allocated == 1, "the machine's GPU is counted")
    assert (h100s(driver).others, h100s(driver).free) == (0, 7), "it is the workspace's own"
    alice.delete("compute", f"/servers/{machine}")
    until(lambda: h100s(driver).allocated == 0, "the GPU is free again", seconds=60)
    assert h100s(driver).free == 8


def test_what_projects_of_others_hold_is_told_apart(
    driver: OpenStackDriver, ready: WorkspaceSpec, cloud: Cloud
) -> None:
    holder = cloud.project()
    cloud.limit(holder, f"class:{H100}", 2)
    flavor = cloud.gpu_flavor("h100", 2)
    cloud.grant(flavor, holder)
    answer = cloud.boot(holder, flavor)
    assert answer.ok, answer.text
    boot(as_member(driver, ready), "train")
    until(lambda: h100s(driver).allocated == 3, "both machines are counted", seconds=60)
    assert (h100s(driver).others, h100s(driver).free) == (2, 5)
    server = answer.json()["server"]["id"]
    cloud.call("DELETE", "compute", f"/servers/{server}")
    until(lambda: h100s(driver).others == 0, "the others have given theirs back", seconds=60)
    assert h100s(driver).allocated == 1
