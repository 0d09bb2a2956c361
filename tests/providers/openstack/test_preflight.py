"""What is broken at a cloud is named by its check, with what to do; each is broken for this test alone."""

import uuid
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta

import pytest
import time_machine

from deploy.lab.openstack import Lab
from gpuaas.core import clock
from gpuaas.core.conditions import Status
from gpuaas.providers.base import Check, Connection, WorkspaceSpec
from gpuaas.providers.openstack import limits
from gpuaas.providers.openstack.client import Cloud
from gpuaas.providers.openstack.driver import OpenStackDriver
from gpuaas.providers.openstack.preflight import devices, server
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


def test_clocks_apart_are_told_and_in_step_are_not(admin: Cloud) -> None:
    assert server.skew(admin).status == Status.TRUE
    for off in (timedelta(minutes=-5), timedelta(minutes=5)):
        with time_machine.travel(clock.now() + off, tick=True):
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
    assert devices.registered(inventory, registered).status == Status.TRUE
    del registered[f"class:{H100}"]
    check = told(devices.registered(inventory, registered), "Missing", blocking=True)
    assert H100 in check.message
    assert f"registered limit create --service nova --default-limit 0 class:{H100}" in check.remedy
