"""A project in the lab's cloud that Cluster API's clusters are made in: its flavors, its limits, a network of addresses that this machine
answers at, and its credentials as an identity at the management cluster."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from deploy.lab.cluster_api import Lab
from deploy.lab.openstack import Lab as OpenStackLab
from tests.lab.fixtures import until
from tests.lab.openstack.fixtures import Cloud, Project

if TYPE_CHECKING:
    from gpuaas.providers.kubeapi.client import Api

A100, H100 = "class:CUSTOM_PCI_10DE_20B0", "class:CUSTOM_PCI_10DE_2330"
LIMITS = {"servers": 20, "class:VCPU": 64, "class:MEMORY_MB": 262144, A100: 6, H100: 8}
# floating IPs of loopback: what stands in for a guest can answer at them
OUTSIDE, RANGE = "loopback", "127.88.0.0/24"
CLASSES = "cluster-classes"
BARE = "Bare"
IDENTITIES = "/apis/infrastructure.cluster.x-k8s.io/v1alpha1/openstackclusteridentities"
KINDS = {
    "servers": ("compute", "/servers?all_tenants=1&project_id={}"),
    "ports": ("network", "/v2.0/ports?project_id={}"),
    "networks": ("network", "/v2.0/networks?project_id={}"),
    "routers": ("network", "/v2.0/routers?project_id={}"),
    "floatingips": ("network", "/v2.0/floatingips?project_id={}"),
    "security_groups": ("network", "/v2.0/security-groups?project_id={}"),
    "loadbalancers": ("load-balancer", "/v2/lbaas/loadbalancers?project_id={}"),
    "listeners": ("load-balancer", "/v2/lbaas/listeners?project_id={}"),
    "pools": ("load-balancer", "/v2/lbaas/pools?project_id={}"),
    "healthmonitors": ("load-balancer", "/v2/lbaas/healthmonitors?project_id={}"),
}


@dataclass(frozen=True)
class Tenancy:
    """`flavors`: by alias of two GPUs each, and `cpu`. `bare_identity` finds the same cloud without Octavia."""

    cloud: Cloud
    project: Project
    identity: str
    flavors: dict[str, str]

    @property
    def bare_identity(self) -> str:
        return f"{self.identity}-bare"

    def variables(self) -> dict[str, str]:
        """Of the class that the portal ships."""
        return {
            "identity": self.identity,
            "externalNetwork": OUTSIDE,
            "image": "tiny",
            "controlPlaneFlavor": self.flavors["cpu"],
        }

    def limit(self, resource: str, amount: int) -> None:
        """Raised or lowered."""
        token = self.cloud.system_token
        path = f"/limits?project_id={self.project.id}&resource_name={resource}"
        rows = self.cloud.call("GET", "identity", path, token=token).json()["limits"]
        body = {"limit": {"resource_limit": amount}}
        answer = self.cloud.call("PATCH", "identity", f"/limits/{rows[0]['id']}", token=token, json=body)
        answer.raise_for_status()

    def balancers(self, amount: int) -> None:
        """The project's quota of load balancers; -1 is none."""
        body = {"quota": {"load_balancer": amount}}
        path = f"/v2/lbaas/quotas/{self.project.id}"
        self.cloud.call("PUT", "load-balancer", path, json=body).raise_for_status()

    def balanced(self, prefix: str) -> int:
        """Members of the pools whose name has it."""
        path = f"/v2/lbaas/pools?project_id={self.project.id}"
        rows = self.cloud.call("GET", "load-balancer", path).json()["pools"]
        return sum(len(one["members"]) for one in rows if prefix in one["name"])

    def gpus(self, prefix: str) -> int:
        """Held at Placement by servers that are called so."""
        path = f"/servers?all_tenants=1&project_id={self.project.id}"
        rows = self.cloud.call("GET", "compute", path).json()["servers"]
        return sum(self._held(one["id"]) for one in rows if one["name"].startswith(prefix))

    def _held(self, server: str) -> int:
        found = self.cloud.call("GET", "placement", f"/allocations/{server}").json()["allocations"]
        classes = {A100.removeprefix("class:"), H100.removeprefix("class:")}
        return sum(one["resources"].get(name, 0) for one in found.values() for name in classes)

    def left(self) -> dict[str, list[str]]:
        """Everything of the project in the cloud."""
        found: dict[str, list[str]] = {}
        for key, (service, path) in KINDS.items():
            rows = self.cloud.call("GET", service, path.format(self.project.id)).json()[key]
            found[key] = [one.get("name") or one["id"] for one in rows if one.get("name") != "default"]
        return {key: names for key, names in found.items() if names}


@pytest.fixture(scope="session")
def capi_tenancy(cluster_api_openstack_lab: Lab, openstack_lab: OpenStackLab) -> Iterator[Tenancy]:
    openstack_lab.up(balancing=True)
    cloud = Cloud(openstack_lab)
    from gpuaas.providers.kubeapi.client import Api

    api = Api(cluster_api_openstack_lab.kubeconfig.read_text())
    _outside(cloud)
    project = cloud.project()
    for name, amount in LIMITS.items():
        cloud.limit(project, name, amount)
    identity = f"t-{uuid.uuid4().hex[:8]}"
    made = Tenancy(cloud, project, identity, {name: _flavor(cloud, name) for name in ("a100", "h100", "cpu")})
    region = yaml.safe_load(openstack_lab.clouds.read_text())["clouds"]["lab"]["region_name"]
    _identity(api, made, identity, region)
    _region_without_balancing(cloud)
    _identity(api, made, made.bare_identity, BARE)
    yield made
    _clusters_delete(api, identity)
    until(lambda: not made.left(), f"nothing is left in the cloud, as {made.left()}")
    for name in (identity, made.bare_identity):
        api.delete(f"{IDENTITIES}/{name}")
        api.delete(f"/api/v1/namespaces/{CLASSES}/secrets/{name}")
    cloud.clean_up()


def _clusters_delete(api: "Api", identity: str) -> None:
    """Those of the tenancy that tests have used again and again."""
    chosen = {"name": "identity", "value": identity}
    for one in api.items("/apis/cluster.x-k8s.io/v1beta2/clusters"):
        if chosen in (one["spec"].get("topology") or {}).get("variables", []):
            space = f"namespaces/{one['metadata']['namespace']}"
            api.delete(f"/apis/cluster.x-k8s.io/v1beta2/{space}/clusters/{one['metadata']['name']}")


def _outside(cloud: Cloud) -> None:
    """Made once; it stays with the cloud."""
    if cloud.call("GET", "network", f"/v2.0/networks?name={OUTSIDE}").json()["networks"]:
        return
    body: dict[str, Any] = {"name": OUTSIDE, "router:external": True}
    answer = cloud.call("POST", "network", "/v2.0/networks", json={"network": body})
    answer.raise_for_status()
    network = answer.json()["network"]["id"]
    subnet = {"network_id": network, "name": OUTSIDE, "ip_version": 4, "cidr": RANGE, "enable_dhcp": False}
    cloud.call("POST", "network", "/v2.0/subnets", json={"subnet": subnet}).raise_for_status()


def _flavor(cloud: Cloud, alias: str) -> str:
    body = {"name": f"f-{uuid.uuid4().hex[:8]}-{alias}", "vcpus": 2, "ram": 2048, "disk": 1}
    found = cloud.made("compute", "/flavors", "flavor", body)
    if alias != "cpu":
        specs = {"extra_specs": {"pci_passthrough:alias": f"{alias}:2"}}
        path = f"/flavors/{found['id']}/os-extra_specs"
        cloud.call("POST", "compute", path, json=specs).raise_for_status()
    return str(found["name"])


def _region_without_balancing(cloud: Cloud) -> None:
    """A region of all services but one, for as long as the tenancy."""
    token = cloud.system_token
    cloud.call("PUT", "identity", f"/regions/{BARE}", token=token, json={"region": {}})
    rows = cloud.call("GET", "identity", "/services", token=token).json()["services"]
    kinds = {one["id"]: one["type"] for one in rows}
    known = cloud.call("GET", "identity", "/endpoints?interface=public", token=token).json()["endpoints"]
    for one in known:
        if one["region_id"] != BARE and kinds[one["service_id"]] != "load-balancer":
            body = {key: one[key] for key in ("service_id", "interface", "url")} | {"region_id": BARE}
            cloud.made("identity", "/endpoints", "endpoint", body, token=token)


def _identity(api: "Api", tenancy: Tenancy, name: str, region: str) -> None:
    """Of the project's member, as an operator of the management cluster would make it."""
    auth = {
        "auth_url": tenancy.cloud.url("identity"),
        "user_id": tenancy.project.user_id,
        "password": tenancy.project.password,
        "project_id": tenancy.project.id,
    }
    entry = {"region_name": region, "identity_api_version": 3, "auth": auth}
    text = yaml.safe_dump({"clouds": {"openstack": entry}})
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": CLASSES},
        "stringData": {"clouds.yaml": text},
    }
    api.create(f"/api/v1/namespaces/{CLASSES}/secrets", secret)
    body = {
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1",
        "kind": "OpenStackClusterIdentity",
        "metadata": {"name": name},
        "spec": {"secretRef": {"name": name, "namespace": CLASSES}},
    }
    api.create(IDENTITIES, body)
