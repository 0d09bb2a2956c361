"""What is broken at a cloud is named by its check, with what to do; each is broken for this test alone."""

import uuid
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta

import pytest

from deploy.lab.openstack import Lab
from gpuaas.core import clock
from gpuaas.core.conditions import Status
from gpuaas.providers.base import Check, Connection, WorkspaceSpec
from gpuaas.providers.openstack import inside, limits, people
from gpuaas.providers.openstack.client import Cloud
from gpuaas.providers.openstack.driver import OpenStackDriver
from gpuaas.providers.openstack.preflight import devices, privacy, server
from gpuaas.providers.openstack.preflight.canary import Canary
from tests.providers.openstack.conftest import ALICE, H100, ref

pytestmark = pytest.mark.openstack


@pytest.fixture
def admin(openstack_lab: Lab) -> Iterator[Cloud]:
    with closing(Cloud({"clouds_yaml": openstack_lab.clouds.read_text(), "cloud": "lab"})) as cloud:
        yield cloud


def told(check: Check, reason: str, *, blocking: bool) -> Check:
    assert (check.status, check.reason, check.blocking) == (Status.FALSE, reason, blocking), check
    assert check.remedy
    return check


def test_a_member_is_no_administrator(driver: OpenStackDriver, ready: WorkspaceSpec) -> None:
    access = driver.issue_access(ref(ready), ALICE, lifetime=timedelta(hours=1))
    with closing(Cloud({"clouds_yaml": access.document})) as own:
        check = told(server.permissions(own), "TooFew", blocking=True)
    assert "list projects" in check.message
    assert "role admin" in check.remedy


def test_a_credential_that_ends_soon_is_told(driver: OpenStackDriver, ready: WorkspaceSpec) -> None:
    access = driver.issue_access(ref(ready), ALICE, lifetime=timedelta(hours=1))
    with closing(Cloud({"clouds_yaml": access.document})) as own:
        check = told(server.credentials(own), "ExpireSoon", blocking=False)
    assert "in 0 days" in check.message


def test_clocks_apart_are_told_and_in_step_are_not(admin: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    assert server.skew(admin).status == Status.TRUE
    ours = clock.now
    for off in (timedelta(minutes=-5), timedelta(minutes=5)):
        # the portal's clock alone: libraries that wait by the time of day would wait for it to come back
        monkeypatch.setattr(clock, "now", lambda off=off: ours() + off)
        check = told(server.skew(admin), "Apart", blocking=False)
        assert " s apart" in check.message


def test_an_alias_that_nova_does_not_know_is_told(openstack_lab: Lab) -> None:
    """As if it was mistyped in the site's options: the whole preflight of a site of its own."""
    credentials = {"clouds_yaml": openstack_lab.clouds.read_text(), "cloud": "lab"}
    options = {"external_network": "nowhere", "aliases": {H100: "h-100"}}
    wrong = OpenStackDriver(Connection(uuid.uuid4(), "wrong", "", credentials, options))
    found = {check.type: check for check in wrong.preflight()}
    limited = told(found["GpuLimits"], "NotRefused", blocking=True)
    assert H100 in limited.message
    assert "option aliases" in limited.remedy
    assert "nowhere" in told(found["ExternalNetwork"], "Missing", blocking=True).message


def test_a_class_without_a_registered_limit_is_told(driver: OpenStackDriver, admin: Cloud) -> None:
    """What Keystone says, less one class, as where nobody has registered it."""
    inventory, registered = driver.probe(), dict(limits.registered_limits(admin))
    assert devices.registered(inventory, registered, {}, "RegionOne").status == Status.TRUE
    del registered[f"class:{H100}"]
    check = told(devices.registered(inventory, registered, {}, "RegionOne"), "Missing", blocking=True)
    assert H100 in check.message
    assert f"limit create --service nova --region RegionOne --default-limit 0 class:{H100}" in check.remedy


def test_who_can_list_the_limits_of_others_is_told(admin: Cloud) -> None:
    """A member's token lists its own; one with a role that Keystone lets list all is told, and all that was made goes."""
    canary, registered = Canary(admin, uuid.uuid4(), "default"), limits.registered_limits(admin)
    with canary.project(registered) as stage:
        assert stage.private(registered).status == Status.TRUE
        made = admin.items("identity", "/projects", "projects", tags=canary.name)
        (neighbor,) = (row["id"] for row in made if row["id"] != stage.project["id"])
        told(privacy.listed(admin, stage.project["id"], neighbor), "Listed", blocking=False)
    assert admin.items("identity", "/projects", "projects", tags=canary.name) == []


def test_what_a_killed_check_left_is_nobodys_to_take_over_and_goes_with_the_next(
    openstack_lab: Lab, admin: Cloud
) -> None:
    """Killed when it had a project, its user, and a flavor that it was about to try; renamed by somebody since."""
    credentials = {"clouds_yaml": openstack_lab.clouds.read_text(), "cloud": "lab"}
    site = OpenStackDriver(Connection(uuid.uuid4(), "killed", "", credentials, {"aliases": {H100: "h100"}}))
    canary = Canary(admin, site.connection.site_id, "default")
    project = canary._project(limits.registered_limits(admin))
    with closing(inside.enter(admin, project)) as own:
        network = own.post("network", "/networks", {"network": {"name": "gpuaas-canary"}})["network"]["id"]
        own.post("network", "/ports", {"port": {"network_id": network}})
        body = {"name": f"{canary.name}-{H100}", "vcpus": 1, "ram": 64, "disk": 1}
        flavor = admin.post("compute", "/flavors", {"flavor": body})["flavor"]["id"]
    users = {user["id"] for user in people.all_users_of(admin, project)}
    assert users
    renamed = f"looks-like-somebodys-{uuid.uuid4().hex[:8]}"
    admin.patch("identity", f"/projects/{project['id']}", {"project": {"name": renamed}})
    assert renamed not in {row.external_name for row in site.adoptable()}

    found = {check.type: check for check in site.preflight()}
    assert found["GpuLimits"].status == Status.TRUE, found["GpuLimits"]
    gone = [("identity", f"/projects/{project['id']}"), ("compute", f"/flavors/{flavor}")]
    gone += [("identity", f"/users/{user}") for user in users]
    gone += [("network", f"/networks/{network}")]
    assert [path for service, path in gone if admin.find(service, path)] == []
