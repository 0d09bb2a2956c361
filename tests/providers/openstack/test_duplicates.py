"""A call whose answer was lost makes a second network, router or group of ours in the end: it goes, unless something is on it."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from gpuaas.core.errors import NotFound, Unavailable
from gpuaas.providers.base import Change, WorkspaceSpec
from gpuaas.providers.openstack import names, projects
from gpuaas.providers.openstack.client import Cloud, Object
from gpuaas.providers.openstack.driver import OpenStackDriver
from gpuaas.providers.openstack.duplicates import MADE
from tests.lab.fixtures import until
from tests.providers.openstack.conftest import ALICE, provision, spec_of, take_away
from tests.providers.openstack.test_workspace import as_member

pytestmark = pytest.mark.openstack
COLLECTIONS = ("networks", "subnets", "routers", "security-groups")


@pytest.fixture
def admin(driver: OpenStackDriver) -> Cloud:
    return Cloud(driver.connection.credentials)


def project_of(admin: Cloud, spec: WorkspaceSpec) -> str:
    found = projects.marked_project(admin, spec.external_name, spec.id)
    assert found is not None
    return str(found["id"])


def ids(admin: Cloud, project_id: str) -> dict[str, set[str]]:
    """Of what has our name, by collection."""
    return {
        path: {
            row["id"]
            for row in admin.items(
                "network", f"/{path}", path.replace("-", "_"), project_id=project_id, name=names.NETWORK
            )
        }
        for path in COLLECTIONS
    }


def late(admin: Cloud, project_id: str, path: str, key: str, **more: object) -> Object:
    """As the cloud makes it when it gets to a call of ours for which nobody waits any more."""
    body = {"name": names.NETWORK, "description": MADE, "project_id": project_id, **more}
    made: Object = admin.post("network", f"/{path}", {key: body})[key]
    return made


def late_subnet(admin: Cloud, project_id: str, network: Object, **more: object) -> Object:
    where = {"network_id": network["id"], "ip_version": 4, "cidr": "10.0.0.0/24", **more}
    return late(admin, project_id, "subnets", "subnet", **where)


def test_what_came_late_goes_and_what_was_there_stays(
    driver: OpenStackDriver, ready: WorkspaceSpec, admin: Cloud
) -> None:
    project = project_of(admin, ready)
    before = ids(admin, project)
    late_subnet(admin, project, late(admin, project, "networks", "network"))
    outside = admin.items("network", "/networks", "networks", name="public")[0]["id"]
    gateway = {"external_gateway_info": {"network_id": outside}}
    late(admin, project, "routers", "router", **gateway)
    late(admin, project, "security-groups", "security_group")
    twice = ids(admin, project)
    assert {path: len(found) for path, found in twice.items()} == dict.fromkeys(COLLECTIONS, 2)

    told = {(one.object, one.found, one.step) for one in driver.drift(ready)}
    kinds = ("Network", "Router", "SecurityGroup")
    assert told == {(f"{kind}/{names.NETWORK}", "present", "network") for kind in kinds}
    assert ids(admin, project) == twice, "looking changes nothing"
    for _ in range(2):
        assert driver.perform(Change.CREATE, ready, "network").detail == ""
        assert ids(admin, project) == before
    assert driver.drift(ready) == ()


def test_a_twin_with_something_on_it_and_what_is_the_tenants_stay_and_are_told(
    driver: OpenStackDriver, ready: WorkspaceSpec, admin: Cloud
) -> None:
    project, alice = project_of(admin, ready), as_member(driver, ready)
    # a port of alice's; a subnet of hers; and a network of hers that happens to have our name
    with_port, with_subnet = (late(admin, project, "networks", "network") for _ in range(2))
    late_subnet(admin, project, with_port)
    hers = {"network_id": with_subnet["id"], "ip_version": 4, "cidr": "10.9.0.0/24", "name": "hers"}
    plugged = alice.post("network", "/subnets", {"subnet": hers})["subnet"]["id"]
    named = alice.post("network", "/networks", {"network": {"name": names.NETWORK}})["network"]
    router = late(admin, project, "routers", "router")
    alice.put("network", f"/routers/{router['id']}/add_router_interface", {"subnet_id": plugged})
    on_port, with_rule, in_rule = (
        late(admin, project, "security-groups", "security_group") for _ in range(3)
    )
    (ours,) = ids(admin, project)["security-groups"] - {row["id"] for row in (on_port, with_rule, in_rule)}
    port = {"network_id": with_port["id"], "security_groups": [on_port["id"], ours]}
    alice.post("network", "/ports", {"port": port})
    inward = {"direction": "ingress", "ethertype": "IPv4", "protocol": "tcp"}
    web = {**inward, "port_range_min": 80, "port_range_max": 80, "security_group_id": with_rule["id"]}
    alice.post("network", "/security-group-rules", {"security_group_rule": web})
    group = alice.post("network", "/security-groups", {"security_group": {"name": "hers"}})["security_group"]
    from_it = {**inward, "security_group_id": group["id"], "remote_group_id": in_rule["id"]}
    alice.post("network", "/security-group-rules", {"security_group_rule": from_it})

    before = ids(admin, project)
    for _ in range(2):
        outcome = driver.perform(Change.CREATE, ready, "network")
        assert outcome.done
        assert ids(admin, project) == before
        for row in (with_port, with_subnet, named, router, on_port, with_rule, in_rule):
            assert row["id"] in outcome.detail
    assert driver.drift(ready) == (), "it is not ours to set right"


def test_of_two_that_both_came_late_the_one_in_use_stays(driver: OpenStackDriver, admin: Cloud) -> None:
    """The older one is the one that came late, when alice's port was on the other already."""
    spec = spec_of(gpus=1, members=(ALICE,))
    try:
        for step in ("project", "limits"):
            assert driver.perform(Change.CREATE, spec, step).done
        project = project_of(admin, spec)
        older, newer = (late(admin, project, "networks", "network") for _ in range(2))
        subnet = late_subnet(admin, project, newer)
        admin.post("network", "/ports", {"port": {"network_id": newer["id"], "project_id": project}})
        provision(driver, spec)
        assert ids(admin, project)["networks"] == {newer["id"]}
        assert ids(admin, project)["subnets"] == {subnet["id"]}
        assert admin.find("network", f"/networks/{older['id']}") is None
    finally:
        take_away(driver, spec)


def test_two_workers_at_once_settle_on_the_same(driver: OpenStackDriver, admin: Cloud) -> None:
    spec = spec_of(gpus=1, members=(ALICE,))

    def work(_: int = 0) -> str | None:
        """What cannot be tried again is an error of this test."""
        try:
            return OpenStackDriver(driver.connection).perform(Change.CREATE, spec, "network").detail
        except (NotFound, Unavailable):
            return None

    try:
        for step in ("project", "limits"):
            assert driver.perform(Change.CREATE, spec, step).done
        with ThreadPoolExecutor(2) as workers:
            for _ in range(3):
                list(workers.map(work, range(2)))
        until(lambda: work() is not None, "the network is there")
        settled = ids(admin, project_of(admin, spec))
        told = driver.perform(Change.CREATE, spec, "network").detail
        assert ids(admin, project_of(admin, spec)) == settled
        for path, found in settled.items():
            assert sum(each not in told for each in found) == 1, f"one of the {path} is ours: {told}"
        assert "network" not in {one.step for one in driver.drift(spec)}
    finally:
        take_away(driver, spec)
