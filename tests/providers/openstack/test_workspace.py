"""A workspace on a real cloud: its limits hold against its own members, and nothing of it is left afterwards."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest

from gpuaas.core.errors import NotFound, Permanent, QuotaRefused, Unauthorized
from gpuaas.providers.base import Change, Member, WorkspaceSpec
from gpuaas.providers.openstack import flavors, people, projects
from gpuaas.providers.openstack.client import Cloud
from gpuaas.providers.openstack.driver import OpenStackDriver
from gpuaas.providers.openstack.duplicates import MADE
from gpuaas.providers.openstack.leftovers import inventory
from tests.lab.fixtures import until
from tests.lab.openstack.fixtures import Cloud as LabCloud
from tests.providers.openstack.conftest import ALICE, BOB, H100, provision, ref, resized, spec_of, take_away

pytestmark = pytest.mark.openstack
CHARLIE = Member(subject="u-charlie", name="charlie", role="admin")


def as_member(driver: OpenStackDriver, spec: WorkspaceSpec, member: Member = ALICE) -> Cloud:
    access = driver.issue_access(ref(spec), member, lifetime=timedelta(hours=1))
    return Cloud({"clouds_yaml": access.document})


def order(cloud: Cloud, name: str = "train") -> str:
    (flavor,) = cloud.items("compute", "/flavors/detail", "flavors")
    image = cloud.items("image", "/images", "images", name="tiny")[0]["id"]
    network = cloud.items("network", "/networks", "networks", name="workspace")[0]["id"]
    body = {"name": name, "flavorRef": flavor["id"], "imageRef": image, "networks": [{"uuid": network}]}
    return str(cloud.post("compute", "/servers", {"server": body})["server"]["id"])


def boot(cloud: Cloud, name: str = "train") -> str:
    """Returns when the machine runs: two that are placed at the same moment may want the same device, and one of them finds
    no host then."""
    made = order(cloud, name)
    until(lambda: status(cloud, made) != "BUILD", f"{name} is placed")
    assert status(cloud, made) == "ACTIVE"
    return made


def status(cloud: Cloud, machine: str) -> str:
    return str(cloud.get("compute", f"/servers/{machine}")["server"]["status"])


def test_the_cloud_tells_its_gpus_hosts_and_how_they_are_asked_for(driver: OpenStackDriver) -> None:
    found = driver.probe()
    pools = {pool.resource_name: pool for pool in found.pools}
    assert pools[H100].kind.slug == "h100-sxm-80gb"
    assert dict(pools[H100].selector) == {"pci_passthrough:alias": "h100"}
    assert dict(pools["VGPU"].selector) == {"resources:VGPU": "1", "trait:CUSTOM_GPU_L40S": "required"}
    assert pools["VGPU"].kind.slug == "l40s-48gb-vgpu-12gb"
    capacity = {(node.name, node.kind_slug): node.capacity for node in found.nodes}
    assert capacity["gpu-h100-1", "h100-sxm-80gb"] == 8
    assert capacity["gpu-mixed-1", "a100-sxm-40gb"] == 2
    assert all(node.ready and not node.cordoned for node in found.nodes)


def test_what_was_bought_boots_and_one_more_is_refused_by_nova(
    driver: OpenStackDriver, ready: WorkspaceSpec
) -> None:
    alice = as_member(driver, ready)
    machines = [boot(alice, f"train-{number}") for number in range(2)]
    with pytest.raises(QuotaRefused, match=f"{H100} is over limit of 2"):
        boot(alice, "one-more")
    seen = driver.observe(ref(ready))
    assert (seen.hard[H100], seen.used[H100], seen.hard["VGPU"]) == (2, 2, 0)
    assert {each.uid for each in seen.consumers} == set(machines)
    assert all(dict(each.gpus) == {H100: 1} for each in seen.consumers)


def test_bob_may_look_and_not_boot(driver: OpenStackDriver, ready: WorkspaceSpec) -> None:
    bob = as_member(driver, ready, BOB)
    assert bob.items("compute", "/servers", "servers") == []
    with pytest.raises(Unauthorized):
        boot(bob)


def test_larger_takes_more_and_smaller_evicts_nobody(driver: OpenStackDriver, ready: WorkspaceSpec) -> None:
    alice = as_member(driver, ready)
    for number in range(2):
        boot(alice, f"train-{number}")
    provision(driver, resized(ready, 3))
    boot(alice, "third")
    provision(driver, resized(ready, 1))
    seen = driver.observe(ref(ready))
    assert (seen.hard[H100], len(seen.consumers)) == (1, 3)
    with pytest.raises(QuotaRefused):
        boot(alice, "one-more")


def test_flavors_that_were_not_bought_are_invisible(driver: OpenStackDriver, ready: WorkspaceSpec) -> None:
    other = spec_of()
    try:
        provision(driver, other)
        seen = [row["name"] for row in flavors.all_flavors(as_member(driver, ready))]
        assert seen == [f"gpuaas-{ready.flavors[0].slug}"]
    finally:
        take_away(driver, other)


def test_a_flavor_that_two_make_at_once_or_one_left_half_made_is_whole(
    driver: OpenStackDriver, cloud: LabCloud
) -> None:
    """Nova takes a flavor and what it asks for in two calls."""
    first = spec_of()
    second = replace(spec_of(), flavors=first.flavors)
    name = f"gpuaas-{first.flavors[0].slug}"
    half = {"name": name, "vcpus": 4, "ram": 8192, "disk": 1, "description": MADE}
    cloud.made("compute", "/flavors", "flavor", {**half, "os-flavor-access:is_public": False})
    try:
        with ThreadPoolExecutor(2) as threads:
            list(threads.map(lambda spec: provision(driver, spec), (first, second)))
        (made,) = [
            row for row in flavors.all_flavors(Cloud(driver.connection.credentials)) if row["name"] == name
        ]
        assert made["extra_specs"]["pci_passthrough:alias"] == "h100:1"
        assert [row["name"] for row in flavors.all_flavors(as_member(driver, second))] == [name]
    finally:
        for spec in (first, second):
            take_away(driver, spec)


def test_a_new_flavor_that_several_need_at_once_is_made_once(driver: OpenStackDriver) -> None:
    first = spec_of(gpus=1)
    specs = [first, *(replace(spec_of(gpus=1), flavors=first.flavors) for _ in range(3))]
    try:
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(lambda spec: provision(driver, spec), specs))
        names = [row["name"] for row in flavors.all_flavors(Cloud(driver.connection.credentials))]
        assert names.count(f"gpuaas-{first.flavors[0].slug}") == 1
    finally:
        for spec in specs:
            take_away(driver, spec)


def test_who_leaves_is_out_for_good(driver: OpenStackDriver, ready: WorkspaceSpec) -> None:
    """A credential would come back to life with the role, if the user had stayed. A token that a service has seen may be
    answered from its cache for minutes (token_cache_time); nobody signs in anew."""
    held = driver.issue_access(ref(ready), ALICE, lifetime=timedelta(hours=1)).document
    assert not _is_dead(held)
    provision(driver, replace(ready, members=(BOB,)))
    with pytest.raises(NotFound):
        driver.issue_access(ref(ready), ALICE, lifetime=timedelta(hours=1))
    provision(driver, ready)
    assert _is_dead(held)
    assert as_member(driver, ready).items("compute", "/servers", "servers") == []


def _is_dead(clouds_yaml: str) -> bool:
    """Whether nobody can sign in by it."""
    try:
        Cloud({"clouds_yaml": clouds_yaml}).items("compute", "/servers", "servers")
    except (Unauthorized, NotFound):
        return True
    return False


def test_a_revoked_credential_is_dead_and_the_next_works(
    driver: OpenStackDriver, ready: WorkspaceSpec
) -> None:
    held = driver.issue_access(ref(ready), ALICE, lifetime=timedelta(hours=1)).document
    driver.revoke_access(ref(ready), ALICE)
    assert _is_dead(held)
    assert as_member(driver, ready).items("compute", "/servers", "servers") == []
    driver.revoke_access(ref(ready), CHARLIE)


def test_nobody_gets_access_who_is_no_member(driver: OpenStackDriver, ready: WorkspaceSpec) -> None:
    with pytest.raises(NotFound):
        driver.issue_access(ref(ready), CHARLIE, lifetime=timedelta(hours=1))


def test_release_takes_what_members_made_and_proves_it(driver: OpenStackDriver, ready: WorkspaceSpec) -> None:
    alice = as_member(driver, ready)
    boot(alice)
    made = alice.post("network", "/networks", {"network": {"name": "own"}})["network"]
    alice.post("network", "/ports", {"port": {"network_id": made["id"], "name": "own"}})
    admin = Cloud(driver.connection.credentials)
    project = projects.own_project(admin, ready.external_name, ready.id)
    assert project is not None
    before = list(inventory(admin, project))
    assert {"machine train", "network own", "port own"} <= set(before), before
    take_away(driver, ready)
    assert not driver.observe(ref(ready)).exists
    assert list(inventory(admin, project)) == []
    assert people.users_of(admin, project) == []
    take_away(driver, ready)


def test_somebody_elses_project_is_left_alone(driver: OpenStackDriver, cloud: LabCloud) -> None:
    spec = spec_of()
    body = {"name": spec.external_name, "domain_id": "default"}
    made = cloud.made("identity", "/projects", "project", body)
    with pytest.raises(Permanent, match="not this workspace's"):
        driver.perform(Change.CREATE, spec, "project")
    take_away(driver, spec)
    assert cloud.call("GET", "identity", f"/projects/{made['id']}").ok


def test_steps_wait_for_each_other_and_unknown_ones_are_refused(driver: OpenStackDriver) -> None:
    spec = spec_of()
    with pytest.raises(NotFound, match="must be created first"):
        driver.perform(Change.CREATE, spec, "access")
    try:
        driver.perform(Change.CREATE, spec, "project")
        for early in ("flavors", "access"):
            assert not driver.perform(Change.CREATE, spec, early).done
        with pytest.raises(Permanent, match="no step"):
            driver.perform(Change.CREATE, spec, "nonsense")
        with pytest.raises(Permanent, match="no step"):
            driver.perform(Change.DELETE, spec, "nonsense")
    finally:
        take_away(driver, spec)


def test_gpus_that_the_site_has_no_limit_for_are_refused(driver: OpenStackDriver) -> None:
    spec = spec_of()
    unknown = replace(spec, gpus=(replace(spec.gpus[0], resource_name="CUSTOM_PCI_10DE_FFFF"),))
    try:
        driver.perform(Change.CREATE, unknown, "project")
        with pytest.raises(Permanent, match="no registered limit"):
            driver.perform(Change.CREATE, unknown, "limits")
    finally:
        take_away(driver, spec)
