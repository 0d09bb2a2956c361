"""GPUs that the cloud's operator counts by a class of his own name: found, told, closed; and sold once he says what they are."""

import uuid
from collections.abc import Iterator

import pytest

from deploy.lab.openstack import Lab
from gpuaas.catalog.models import Site
from gpuaas.core.conditions import Status
from gpuaas.core.errors import QuotaRefused
from gpuaas.providers.base import Connection, WorkspaceSpec
from gpuaas.providers.openstack import limits
from gpuaas.providers.openstack.client import Cloud
from gpuaas.providers.openstack.driver import OpenStackDriver
from gpuaas.providers.openstack.preflight import devices
from gpuaas.workspaces.models import Eviction
from tenants.models import Project, User
from tests.lab.fixtures import until
from tests.lab.openstack.fixtures import Cloud as LabCloud
from tests.providers.openstack.conftest import H100, provision, ref, spec_of, take_away
from tests.providers.openstack.metered import SLOW, meter_running, stage
from tests.providers.openstack.test_workspace import as_member

pytestmark = pytest.mark.openstack
OWN = "CUSTOM_GPU_H100"
CLASSES = "/resource_classes"


def driver_of(lab: Lab, **options: object) -> OpenStackDriver:
    credentials = {"clouds_yaml": lab.clouds.read_text(), "cloud": "lab"}
    given = {"external_network": "public", "aliases": {H100: "h100"}, **options}
    return OpenStackDriver(Connection(uuid.uuid4(), "own", "", credentials, given))


@pytest.fixture(scope="module")
def flavor(own_openstack_lab: Lab) -> Iterator[str]:
    """Four of them beside a host, and a public flavor of the site's own with all four; no registered limit."""
    cloud = LabCloud(own_openstack_lab)
    cloud.call("PUT", "placement", f"{CLASSES}/{OWN}").raise_for_status()
    rows = cloud.call("GET", "placement", "/resource_providers").json()["resource_providers"]
    host = next(row["uuid"] for row in rows if row["name"] == "gpu-h100-1")
    made = str(uuid.uuid4())
    body = {"name": "gpu-h100-1_own", "uuid": made, "parent_provider_uuid": host}
    cloud.call("POST", "placement", "/resource_providers", json=body).raise_for_status()
    stock = {"resource_provider_generation": 0, "inventories": {OWN: {"total": 4, "max_unit": 4}}}
    path = f"/resource_providers/{made}/inventories"
    cloud.call("PUT", "placement", path, json=stock).raise_for_status()
    body = {"name": "four", "vcpus": 1, "ram": 64, "disk": 1}
    found = cloud.call("POST", "compute", "/flavors", json={"flavor": body}).json()["flavor"]["id"]
    specs = {"extra_specs": {f"resources:{OWN}": "4"}}
    cloud.call("POST", "compute", f"/flavors/{found}/os-extra_specs", json=specs).raise_for_status()
    yield str(found)
    cloud.call("DELETE", "compute", f"/flavors/{found}").raise_for_status()
    cloud.call("DELETE", "placement", f"/resource_providers/{made}").raise_for_status()


@pytest.fixture
def spec(own_openstack_lab: Lab) -> Iterator[WorkspaceSpec]:
    made = spec_of(gpus=1)
    try:
        yield made
    finally:
        take_away(driver_of(own_openstack_lab), made)


def boot(own: Cloud, flavor: str) -> str:
    image = own.items("image", "/images", "images", name="tiny")[0]["id"]
    body = {"name": "x", "flavorRef": flavor, "imageRef": image, "networks": "none"}
    return str(own.post("compute", "/servers", {"server": body})["server"]["id"])


def test_without_a_registered_limit_nothing_is_sold_and_such_a_machine_is_counted(
    own_openstack_lab: Lab, flavor: str, spec: WorkspaceSpec
) -> None:
    driver = driver_of(own_openstack_lab)
    found = driver.probe()
    assert OWN not in {pool.resource_name for pool in found.pools}
    assert [(each.place, each.name, each.count) for each in found.unknown] == [("gpu-h100-1", OWN, 4)]
    checks = {check.type: check for check in driver.preflight()}
    assert (checks["ResourceClasses"].status, checks["RegisteredLimits"].status) == (
        Status.FALSE,
        Status.FALSE,
    )
    assert checks["RegisteredLimits"].blocking
    assert f"class:{OWN}" in checks["RegisteredLimits"].message
    provision(driver, spec)
    machine = boot(as_member(driver, spec), flavor)
    until(lambda: _counted(driver, spec) == {OWN: 4}, "the machine is counted by its class", seconds=60)
    _gone(driver, machine)


@pytest.mark.timeout(600)
@pytest.mark.django_db(transaction=True)
def test_such_a_machine_is_put_away(
    own_openstack_lab: Lab, flavor: str, spec: WorkspaceSpec, project: Project, alice: User
) -> None:
    driver = driver_of(own_openstack_lab)
    provision(driver, spec)
    workspace = stage(driver, spec, project, alice)
    Site.objects.filter(pk=workspace.site_id).update(gpu_names=list(driver.probe().names))
    with meter_running(workspace.site):
        machine = boot(as_member(driver, spec), flavor)
        found = Eviction.objects.filter(consumer_uid=machine, removed_at__isnull=False)
        row = until(found.first, "it is put away", seconds=SLOW)
    assert (row.resource_name, row.quantity, row.limit) == (OWN, 4, 0)
    _gone(driver, machine)


def test_with_one_it_is_closed_by_a_limit_of_0_and_sold_once_it_is_known(
    own_openstack_lab: Lab, flavor: str, spec: WorkspaceSpec
) -> None:
    cloud, driver = LabCloud(own_openstack_lab), driver_of(own_openstack_lab)
    servers = limits.registered_limits(driver._cloud)["servers"]
    row = {key: servers[key] for key in ("service_id", "region_id")}
    row |= {"resource_name": f"class:{OWN}", "default_limit": 4}
    body = {"registered_limits": [row]}
    cloud.call(
        "POST", "identity", "/registered_limits", token=cloud.system_token, json=body
    ).raise_for_status()
    provision(driver, spec)
    assert driver.observe(ref(spec)).hard[OWN] == 0
    with pytest.raises(QuotaRefused, match=f"{OWN} is over limit of 0"):
        boot(as_member(driver, spec), flavor)
    known = driver_of(own_openstack_lab, gpu_classes={OWN: "A100-SXM4-80GB"})
    found = known.probe()
    pool = next(pool for pool in found.pools if pool.resource_name == OWN)
    assert (pool.kind.slug, dict(pool.selector)) == ("a100-sxm-80gb", {f"resources:{OWN}": "1"})
    assert found.unknown == ()
    assert devices.understood(found).status == Status.TRUE
    ours = driver_of(own_openstack_lab, gpu_classes={OWN: "none"})
    assert OWN not in ours.probe().names
    provision(ours, spec)
    (project,) = ours._cloud.items("identity", "/projects", "projects", name=spec.external_name)
    assert f"class:{OWN}" not in limits.project_limits(ours._cloud, project["id"]), (
        "it is the site's default again"
    )
    assert ours.drift(spec) == ()


def _counted(driver: OpenStackDriver, spec: WorkspaceSpec) -> dict[str, int]:
    return {name: count for each in driver.observe(ref(spec)).consumers for name, count in each.gpus.items()}


def _gone(driver: OpenStackDriver, machine: str) -> None:
    driver._cloud.delete("compute", f"/servers/{machine}")
    until(lambda: driver._cloud.find("compute", f"/servers/{machine}") is None, "it is gone", seconds=60)
