"""Projects that were there before the portal, where a cloud is not a cluster: limits, roles and flavors of their own. The rest
is in `tests/contracts/test_adoption.py`."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from gpuaas.core.errors import Permanent
from gpuaas.providers.base import AdoptionStep, WorkspaceSpec
from gpuaas.providers.openstack import flavors, people, projects
from gpuaas.providers.openstack.client import Cloud
from gpuaas.providers.openstack.driver import OpenStackDriver
from gpuaas.providers.openstack.duplicates import MADE
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


def test_people_whose_names_begin_like_the_projects_stay(
    driver: OpenStackDriver, cloud: LabCloud, old: Old
) -> None:
    """`anna.schmidt` is nobody of the project `anna`, and no user of another one whose name goes on."""
    spec, domain = taking(old), {"domain_id": "default", "password": "correct horse battery"}
    body = {"user": {"name": f"{old.name}.schmidt", **domain}}
    stranger = cloud.call("POST", "identity", "/users", json=body).json()["user"]["id"]
    body = {"user": {"name": f"{old.name}.dev.u-bob", "description": MADE, **domain}}
    neighbor = cloud.call("POST", "identity", "/users", json=body).json()["user"]["id"]
    assert driver.adopt(spec).done
    try:
        provision(driver, spec)
        assert driver.drift(spec) == ()
    finally:
        take_away(driver, spec)
    for user in (stranger, neighbor):
        assert cloud.call("GET", "identity", f"/users/{user}").ok
        cloud.call("DELETE", "identity", f"/users/{user}")


def test_more_in_use_than_bought_is_in_the_way(driver: OpenStackDriver, cloud: LabCloud, old: Old) -> None:
    second = cloud.boot(old.project, old.flavor).json()["server"]["id"]
    until(lambda: cloud.server_status(old.project, second) == "ACTIVE", "another machine runs")
    spec = taking(old, gpus=1)
    told = in_the_way(driver.adoption_plan(spec))
    assert f"Limit/class:{H100}: 2 of {H100} in use, 1 would be allowed" in told
    assert "Limit/servers: 2 of servers in use, 1 would be allowed" in told
    with pytest.raises(Permanent, match="in use, 1 would be allowed"):
        driver.adopt(spec)
    assert not driver.observe(ref(spec)).exists
    assert in_the_way(driver.adoption_plan(resized(spec, 2))) == []


def test_who_rules_the_cloud_there_is_in_the_way(driver: OpenStackDriver, cloud: LabCloud, old: Old) -> None:
    role = {row["name"]: row["id"] for row in cloud.call("GET", "identity", "/roles").json()["roles"]}[
        "admin"
    ]
    path = f"/projects/{old.project.id}/users/{old.project.user_id}/roles/{role}"
    cloud.call("PUT", "identity", path).raise_for_status()
    assert any("full rights in the cloud" in words for words in in_the_way(driver.adoption_plan(taking(old))))
    with pytest.raises(Permanent, match="full rights in the cloud"):
        driver.adopt(taking(old))


@pytest.mark.parametrize("name", ["admin", "service"])
def test_the_clouds_own_are_refused(driver: OpenStackDriver, name: str) -> None:
    spec = replace(spec_of(), external_name=name)
    for verb in (driver.adoption_plan, driver.adopt):
        with pytest.raises(Permanent, match="belongs to the site itself"):
            verb(spec)
