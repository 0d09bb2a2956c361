"""What a project leaves behind: nothing. What is somebody else's stays, whatever the tenant did with it."""

import uuid
from dataclasses import replace

import pytest
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gpuaas.core.errors import QuotaRefused
from gpuaas.providers.base import Change, WorkspaceSpec
from gpuaas.providers.openstack import limits, people, projects
from gpuaas.providers.openstack.client import Cloud, Object
from gpuaas.providers.openstack.driver import OpenStackDriver
from gpuaas.providers.openstack.leftovers import inventory
from tests.lab.fixtures import until
from tests.lab.openstack.fixtures import Cloud as LabCloud
from tests.providers.openstack.conftest import provision, take_away
from tests.providers.openstack.test_workspace import as_member, boot

pytestmark = pytest.mark.openstack
SSH = (serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
KEY = Ed25519PrivateKey.generate().public_key().public_bytes(*SSH).decode()


@pytest.fixture
def admin(driver: OpenStackDriver) -> Cloud:
    return Cloud(driver.connection.credentials)


def project_of(admin: Cloud, spec: WorkspaceSpec) -> Object:
    found = projects.marked_project(admin, spec.external_name, spec.id)
    assert found is not None
    return found


def image_make(cloud: Cloud, name: str, **more: object) -> str:
    body = {"name": name, "disk_format": "raw", "container_format": "bare", **more}
    return str(cloud.post("image", "/images", body)["id"])


def test_all_that_a_tenant_can_make_is_told_and_goes(
    driver: OpenStackDriver, ready: WorkspaceSpec, admin: Cloud
) -> None:
    alice, project = as_member(driver, ready), project_of(admin, ready)
    (user,) = (row for row in people.users_of(admin, project) if row["name"].endswith("alice"))
    boot(alice)
    alice.post(
        "compute", "/os-keypairs", {"keypair": {"name": "key of alice", "type": "ssh", "public_key": KEY}}
    )
    alice.post("compute", "/os-server-groups", {"server_group": {"name": "apart", "policy": "anti-affinity"}})
    image = image_make(alice, "mine", protected=True)
    outside = admin.items("network", "/networks", "networks", name="public")[0]["id"]
    address = alice.post("network", "/floatingips", {"floatingip": {"floating_network_id": outside}})[
        "floatingip"
    ]
    network = alice.post("network", "/networks", {"network": {"name": "own"}})["network"]["id"]
    subnet = {"name": "own", "network_id": network, "ip_version": 4, "cidr": "10.9.0.0/24"}
    subnet_id = alice.post("network", "/subnets", {"subnet": subnet})["subnet"]["id"]
    router = alice.post("network", "/routers", {"router": {"name": "own"}})["router"]["id"]
    alice.put("network", f"/routers/{router}/add_router_interface", {"subnet_id": subnet_id})
    alice.post("network", "/ports", {"port": {"network_id": network, "name": "own"}})
    alice.post("network", "/security-groups", {"security_group": {"name": "own"}})
    alice.post("network", "/address-scopes", {"address_scope": {"name": "own", "ip_version": 4}})
    _made_before_the_portal(admin, project["id"], network)

    until(
        lambda: "1 CUSTOM_PCI_10DE_2330 still allocated in Placement" in inventory(admin, project),
        "it holds its GPU",
    )
    told = set(inventory(admin, project))
    kinds = ("network", "subnet", "router", "port", "security group", "subnet pool", "address scope")
    assert any(words.startswith("sharing policy") for words in told), told
    made = {"machine train", "server group apart", "image mine", f"floating IP {address['id']}"}
    assert told >= made | {f"{kind} own" for kind in kinds}, told
    take_away(driver, ready)
    assert list(inventory(admin, project)) == []
    assert admin.find("image", f"/images/{image}") is None
    assert (admin.find("compute", "/os-keypairs", user_id=user["id"]) or {}).get("keypairs", []) == []
    assert admin.find("identity", f"/projects/{project['id']}") is None


def _made_before_the_portal(admin: Cloud, project_id: str, network: str) -> None:
    """What a project that was taken over may have, though its quota of today is 0."""
    share = {
        "object_type": "network",
        "object_id": network,
        "action": "access_as_shared",
        "target_tenant": uuid.uuid4().hex,
    }
    pool = {"name": "own", "prefixes": ["10.77.0.0/16"]}
    admin.put("network", f"/quotas/{project_id}", {"quota": {"rbac_policy": -1, "subnetpool": -1}})
    admin.post("network", "/rbac-policies", {"rbac_policy": {**share, "project_id": project_id}})
    admin.post("network", "/subnetpools", {"subnetpool": {**pool, "project_id": project_id}})


def test_what_is_a_neighbors_stays(
    driver: OpenStackDriver, ready: WorkspaceSpec, admin: Cloud, cloud: LabCloud
) -> None:
    """Our port on a network that they share goes; the network, their port on it and their image stay."""
    alice, project, neighbor = as_member(driver, ready), project_of(admin, ready), cloud.project()
    own = {"token": neighbor.token}
    network = cloud.made("network", "/v2.0/networks", "network", {"name": "theirs"}, **own)["id"]
    subnet = {"network_id": network, "ip_version": 4, "cidr": "10.8.0.0/24"}
    cloud.made("network", "/v2.0/subnets", "subnet", subnet, **own)
    theirs = cloud.made("network", "/v2.0/ports", "port", {"network_id": network, "name": "theirs"}, **own)[
        "id"
    ]
    share = {"object_type": "network", "object_id": network, "action": "access_as_shared"}
    cloud.made(
        "network", "/v2.0/rbac-policies", "rbac_policy", {**share, "target_tenant": project["id"]}, **own
    )
    ours = alice.post("network", "/ports", {"port": {"network_id": network, "name": "guest"}})["port"]["id"]
    body = {"name": "theirs", "disk_format": "raw", "container_format": "bare", "visibility": "shared"}
    image = cloud.call("POST", "image", "/v2/images", token=neighbor.token, json=body).json()["id"]
    cloud.call(
        "POST", "image", f"/v2/images/{image}/members", token=neighbor.token, json={"member": project["id"]}
    ).raise_for_status()
    try:
        take_away(driver, ready)
        assert admin.find("network", f"/ports/{ours}") is None
        for path in (f"/networks/{network}", f"/ports/{theirs}"):
            assert admin.find("network", path), path
        assert admin.find("image", f"/images/{image}")
        assert admin.find("identity", f"/projects/{neighbor.id}")
    finally:
        cloud.call("DELETE", "image", f"/v2/images/{image}", token=neighbor.token)


def test_the_project_waits_until_no_token_of_before_is_believed(
    driver: OpenStackDriver, ready: WorkspaceSpec, admin: Cloud
) -> None:
    options = {**driver.connection.options, "token_cache_seconds": 3600}
    patient = OpenStackDriver(replace(driver.connection, options=options))
    project = project_of(admin, ready)
    for step in ("access", "servers", "volumes", "network"):
        until(lambda key=step: patient.perform(Change.DELETE, ready, key).done, f"{step} of release")  # type: ignore[misc]
    told = patient.perform(Change.DELETE, ready, "project")
    assert not told.done
    assert "until" in told.detail
    assert list(inventory(admin, project)) == []
    assert people.roles_held(admin, project["id"]) == {}
    assert driver.perform(Change.DELETE, ready, "project").done, "an operator may decide not to wait"
    assert admin.find("identity", f"/projects/{project['id']}") is None


def test_from_the_first_step_on_nothing_can_be_made(
    driver: OpenStackDriver, ready: WorkspaceSpec, admin: Cloud, cloud: LabCloud
) -> None:
    """Whoever comes in all the same, as one does whose token is believed for a while yet, is over every limit."""
    project = project_of(admin, ready)
    alice = as_member(driver, ready)
    (flavor,) = alice.items("compute", "/flavors/detail", "flavors")
    for _ in range(2):
        assert driver.perform(Change.DELETE, ready, "access").done
        there = limits.project_limits(admin, project["id"])
        assert {name: row["resource_limit"] for name, row in there.items()} == dict.fromkeys(
            limits.registered_limits(admin), 0
        )
        quota = admin.get("network", f"/quotas/{project['id']}")["quota"]
        wanted = {**dict.fromkeys(limits.NETWORK, 0), **limits.DEFAULT_GROUP}
        assert {name: quota[name] for name in wanted} == wanted
    visitor = enter(admin, cloud, project)
    admin.post("compute", f"/flavors/{flavor['id']}/action", {"addTenantAccess": {"tenant": project["id"]}})
    image = visitor.items("image", "/images", "images", name="tiny")[0]["id"]
    body = {"name": "train", "flavorRef": flavor["id"], "imageRef": image, "networks": "none"}
    with pytest.raises(QuotaRefused, match="over limit of 0"):
        visitor.post("compute", "/servers", {"server": body})
    for path, key in (("networks", "network"), ("routers", "router"), ("security-groups", "security_group")):
        with pytest.raises(QuotaRefused):
            visitor.post("network", f"/{path}", {key: {"name": "more"}})


def enter(admin: Cloud, cloud: LabCloud, project: Object) -> Cloud:
    """A user that the portal does not know, let in by hand."""
    name, password = f"t-{uuid.uuid4().hex[:8]}", uuid.uuid4().hex
    user = cloud.made(
        "identity", "/users", "user", {"name": name, "domain_id": "default", "password": password}
    )
    role = next(row for row in admin.items("identity", "/roles", "roles") if row["name"] == "member")
    admin.put("identity", f"/projects/{project['id']}/users/{user['id']}/roles/{role['id']}")
    auth = {"auth_url": admin.auth_url, "username": name, "password": password, "project_id": project["id"]}
    entry = {**admin.transport, "auth": {**auth, "user_domain_id": "default"}}
    return Cloud({"clouds_yaml": yaml.safe_dump({"clouds": {"visitor": entry}})})


def test_the_keys_of_who_leaves_go_too(driver: OpenStackDriver, ready: WorkspaceSpec, admin: Cloud) -> None:
    alice, project = as_member(driver, ready), project_of(admin, ready)
    user = next(row for row in people.users_of(admin, project) if row["name"].endswith("alice"))
    body = {"keypair": {"name": "k", "type": "ssh", "public_key": KEY}}
    alice.post("compute", "/os-keypairs", body)
    provision(driver, replace(ready, members=()))
    assert (admin.find("compute", "/os-keypairs", user_id=user["id"]) or {}).get("keypairs", []) == []
    assert people.users_of(admin, project) == []
