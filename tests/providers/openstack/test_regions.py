"""Two regions under one Keystone: limits are written where the site is, and whoever names no region is asked for it."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from deploy.lab.openstack import Lab
from gpuaas.core.conditions import Status
from gpuaas.core.errors import Unusable
from gpuaas.providers.base import Connection, WorkspaceSpec
from gpuaas.providers.openstack import limits
from gpuaas.providers.openstack.client import Cloud
from gpuaas.providers.openstack.driver import OpenStackDriver
from tests.contracts.rigs import release_step
from tests.lab.openstack.fixtures import Cloud as LabCloud
from tests.providers.openstack.conftest import H100, provision, spec_of, take_away
from tests.providers.openstack.test_workspace import as_member, boot

pytestmark = pytest.mark.openstack
HERE, THERE = "RegionOne", "RegionTwo"
NAMES = ("servers", f"class:{H100}", "class:VCPU", "class:MEMORY_MB", "class:DISK_GB")


def driver_of(lab: Lab, *, region: str = HERE) -> OpenStackDriver:
    document = yaml.safe_load(lab.clouds.read_text())
    entry = {key: value for key, value in document["clouds"]["lab"].items() if key != "region_name"}
    entry |= {"region_name": region} if region else {}
    credentials = {"clouds_yaml": yaml.safe_dump({"clouds": {"lab": entry}})}
    options = {"external_network": "public", "aliases": {H100: "h100"}}
    return OpenStackDriver(Connection(uuid.uuid4(), "regions", "", credentials, options))


@pytest.fixture(scope="module")
def lab(own_openstack_lab: Lab) -> Lab:
    """With a second region, in which Keystone has limits of the same names, and with some of no region."""
    cloud = LabCloud(own_openstack_lab)
    cloud.call("POST", "identity", "/regions", json={"region": {"id": THERE}}).raise_for_status()
    nova = cloud.call("GET", "identity", "/services?type=compute").json()["services"][0]["id"]
    for region in ({"region_id": THERE}, {}):
        rows = [{"service_id": nova, "resource_name": name, "default_limit": 0, **region} for name in NAMES]
        body = {"registered_limits": rows}
        cloud.call(
            "POST", "identity", "/registered_limits", token=cloud.system_token, json=body
        ).raise_for_status()
    return own_openstack_lab


@pytest.fixture
def admin(lab: Lab) -> Iterator[Cloud]:
    made = Cloud(driver_of(lab).connection.credentials)
    yield made
    made.close()


@pytest.fixture
def spec(lab: Lab) -> Iterator[WorkspaceSpec]:
    made = spec_of(gpus=1)
    try:
        yield made
    finally:
        take_away(driver_of(lab), made)


def rows_of(admin: Cloud, spec: WorkspaceSpec) -> list[dict[str, Any]]:
    (project,) = admin.items("identity", "/projects", "projects", name=spec.external_name)
    return limits._of_project(admin, project["id"])


def test_limits_are_where_the_site_is_and_a_close_goes_everywhere(
    lab: Lab, admin: Cloud, spec: WorkspaceSpec
) -> None:
    driver = driver_of(lab)
    provision(driver, spec)
    assert {row["region_id"] for row in rows_of(admin, spec)} == {HERE}
    assert driver.drift(spec) == ()
    boot(as_member(driver, spec))
    (project,) = admin.items("identity", "/projects", "projects", name=spec.external_name)
    elsewhere = next(row for row in limits._registered(admin) if row["region_id"] == THERE)
    limits.limit_write(admin, elsewhere, project["id"], 7)
    assert driver.drift(spec) == (), "what is elsewhere is none of the site's"
    assert driver.observe(spec.ref).hard[H100] == 1
    release_step(driver, spec, "access")
    left = {(row["region_id"], row["resource_limit"]) for row in rows_of(admin, spec)}
    assert left == {(HERE, 0), (THERE, 0)}
    take_away(driver, spec)
    assert limits._of_project(admin, project["id"]) == []


def test_what_is_registered_elsewhere_only_is_not_registered(lab: Lab, admin: Cloud) -> None:
    name = f"class:{H100}"
    own = limits.registered_limits(admin)[name]
    assert own["region_id"] == HERE
    body = {key: own[key] for key in ("service_id", "region_id", "resource_name", "default_limit")}
    cloud = LabCloud(lab)
    path, token = "/registered_limits", cloud.system_token
    cloud.call("DELETE", "identity", f"{path}/{own['id']}", token=token).raise_for_status()
    try:
        found = {check.type: check for check in driver_of(lab).preflight()}["RegisteredLimits"]
    finally:
        answer = cloud.call("POST", "identity", path, token=token, json={"registered_limits": [body]})
        answer.raise_for_status()
    assert (found.status, found.reason, found.blocking) == (Status.FALSE, "Elsewhere", True)
    assert f"in {HERE} for {name}" in found.message
    assert f"--region {HERE}" in found.remedy


def test_who_names_no_region_of_several_is_asked_for_it(lab: Lab, admin: Cloud) -> None:
    nameless = driver_of(lab, region="")
    assert nameless._cloud.region == HERE, "there is no other Nova yet"
    nova = admin.items("identity", "/services", "services", type="compute")[0]["id"]
    body = {"service_id": nova, "region_id": THERE, "interface": "public", "url": "http://127.0.0.1:1/v2.1"}
    made = admin.post("identity", "/endpoints", {"endpoint": body})["endpoint"]["id"]
    try:
        cloud = Cloud(nameless.connection.credentials)
        with pytest.raises(Unusable, match=f"several regions \\({HERE}, {THERE}\\)"):
            cloud.get("compute", "/flavors")
        cloud.close()
        named = driver_of(lab)
        assert any(node.name == "gpu-h100-1" for node in named.probe().nodes)
        fresh = driver_of(lab, region="")
        fresh.__dict__["_cloud"] = Cloud(nameless.connection.credentials)
        found = {check.type: check for check in fresh.preflight()}
        assert (found["Services"].status, found["Services"].reason) == (Status.FALSE, "SeveralRegions")
    finally:
        admin.delete("identity", f"/endpoints/{made}")
