"""Projects that were there before the portal: found, planned without a touch, taken over, and held like any other."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from gpuaas.core.errors import NotFound, Permanent
from gpuaas.providers.base import AdoptionStep, WorkspaceSpec
from gpuaas.providers.openstack import flavors, names, people, projects
from gpuaas.providers.openstack.client import Cloud
from gpuaas.providers.openstack.driver import OpenStackDriver
from tests.lab.fixtures import until
from tests.lab.openstack.fixtures import Cloud as LabCloud
from tests.lab.openstack.fixtures import Project
from tests.providers.openstack.conftest import H100, provision, ref, resized, spec_of, take_away

pytestmark = pytest.mark.openstack


@dataclass(frozen=True)
class Old:
    """A team's project with a machine of one H100, by a flavor of the cloud's own."""

    name: str
    project: Project
    flavor: str
    server: str


@pytest.fixture
def old(driver: OpenStackDriver, cloud: LabCloud) -> Iterator[Old]:
    project = cloud.project()
    name = cloud.call("GET", "identity", f"/projects/{project.id}").json()["project"]["name"]
    flavor = cloud.gpu_flavor("h100", 1)
    cloud.grant(flavor, project)
    cloud.limit(project, f"class:{H100}", 4)
    server = cloud.boot(project, flavor).json()["server"]["id"]
    until(lambda: cloud.server_status(project, server) == "ACTIVE", "its machine runs")
    yield Old(name, project, flavor, server)
    cloud.call("DELETE", "compute", f"/servers/{server}")


def taking(old: Old, *, gpus: int = 2) -> WorkspaceSpec:
    return replace(spec_of(gpus=gpus), external_name=old.name)


def in_the_way(plan: tuple[AdoptionStep, ...]) -> list[str]:
    return [f"{step.object}: {step.detail}" for step in plan if step.blocking]


def test_what_is_nobodys_is_found_with_what_it_holds(
    driver: OpenStackDriver, old: Old, ready: WorkspaceSpec
) -> None:
    found = {one.external_name: one for one in driver.adoptable()}
    one = found[old.name]
    assert (one.gpus, one.hard, one.consumers) == ({H100: 1}, {H100: 4}, 1)
    assert (one.vcpus, one.memory_gib) == (4, 4)
    assert [sum(held.values()) for held in one.placed.values()] == [1]
    assert not found.keys() & {ready.external_name, "admin", "service"}


def test_a_plan_says_what_would_change_and_touches_nothing(driver: OpenStackDriver, old: Old) -> None:
    spec = taking(old)
    plan = driver.adoption_plan(spec)
    said = {(step.action, step.object) for step in plan}
    assert in_the_way(plan) == []
    assert said >= {
        ("change", f"Project/{old.name}"),
        ("change", f"Limit/class:{H100} resource_limit"),
        ("create", "Limit/servers"),
        ("create", "Network/workspace"),
        ("remove", f"Role/member of user {old.name}"),
        ("keep", "Server/train"),
    }
    assert driver.adoption_plan(spec) == plan
    assert not driver.observe(ref(spec)).exists
    assert old.name in {one.external_name for one in driver.adoptable()}


def test_it_goes_on_as_it_was_and_is_held(driver: OpenStackDriver, cloud: LabCloud, old: Old) -> None:
    spec, admin = taking(old), Cloud(driver.connection.credentials)
    user = cloud.call("GET", "identity", f"/users/{old.project.user_id}").json()["user"]
    assert driver.adopt(spec).done
    assert driver.adopt(spec).done
    try:
        assert old.name not in {one.external_name for one in driver.adoptable()}
        provision(driver, spec)
        seen = driver.observe(ref(spec))
        assert [one.uid for one in seen.consumers] == [old.server]
        assert (seen.hard[H100], seen.used[H100]) == (2, 1)
        assert driver.drift(spec) == ()
        assert old.project.id not in flavors.granted(admin, old.flavor), "only what was bought may be booted"
        assert ("users", user["id"]) not in people.roles_held(admin, old.project.id)
        assert cloud.call("GET", "identity", f"/users/{user['id']}").ok, "whoever was in it is still there"
    finally:
        take_away(driver, spec)
    assert projects.project_find(admin, old.name) is None
    assert cloud.call("GET", "compute", f"/flavors/{old.flavor}").ok


def test_more_in_use_than_bought_is_in_the_way(driver: OpenStackDriver, cloud: LabCloud, old: Old) -> None:
    second = cloud.boot(old.project, old.flavor).json()["server"]["id"]
    until(lambda: cloud.server_status(old.project, second) == "ACTIVE", "another machine runs")
    spec = taking(old, gpus=1)
    told = in_the_way(driver.adoption_plan(spec))
    assert f"Limit/class:{H100}: 2 of {H100} are in use, 1 would be allowed" in told
    assert "Limit/servers: 2 of servers are in use, 1 would be allowed" in told
    with pytest.raises(Permanent, match="are in use"):
        driver.adopt(spec)
    assert not driver.observe(ref(spec)).exists
    assert in_the_way(driver.adoption_plan(resized(spec, 2))) == []


def test_who_rules_the_cloud_there_is_in_the_way(driver: OpenStackDriver, cloud: LabCloud, old: Old) -> None:
    role = {row["name"]: row["id"] for row in cloud.call("GET", "identity", "/roles").json()["roles"]}[
        "admin"
    ]
    path = f"/projects/{old.project.id}/users/{old.project.user_id}/roles/{role}"
    cloud.call("PUT", "identity", path).raise_for_status()
    assert any("rules the cloud" in words for words in in_the_way(driver.adoption_plan(taking(old))))
    with pytest.raises(Permanent, match="rules the cloud"):
        driver.adopt(taking(old))


def test_another_workspaces_is_refused(driver: OpenStackDriver, old: Old) -> None:
    spec = taking(old)
    driver.adopt(spec)
    try:
        for verb in (driver.adoption_plan, driver.adopt):
            with pytest.raises(Permanent, match="another workspace"):
                verb(replace(spec, id=uuid.uuid4()))
    finally:
        take_away(driver, spec)


@pytest.mark.parametrize("name", ["admin", "service"])
def test_the_clouds_own_are_refused(driver: OpenStackDriver, name: str) -> None:
    spec = replace(spec_of(), external_name=name)
    for verb in (driver.adoption_plan, driver.adopt):
        with pytest.raises(Permanent, match="part of the site"):
            verb(spec)


def test_what_is_not_there_is_not_found(driver: OpenStackDriver) -> None:
    with pytest.raises(NotFound):
        driver.adopt(replace(spec_of(), external_name="old-and-gone"))


def test_one_that_was_never_taken_over_is_left_alone(
    driver: OpenStackDriver, cloud: LabCloud, old: Old
) -> None:
    take_away(driver, taking(old))
    assert cloud.server_status(old.project, old.server) == "ACTIVE"
    with pytest.raises(Permanent):
        driver.ensure(taking(old), "limits")
    project = cloud.call("GET", "identity", f"/projects/{old.project.id}").json()["project"]
    assert names.MANAGED not in project["tags"]
