"""Octavia of the lab: real rights, quotas and ports; only what carries traffic is played."""

from collections.abc import Iterator
from typing import Any

import pytest

from deploy.lab.openstack import Lab
from tests.lab.fixtures import until
from tests.lab.openstack.fixtures import Cloud, Project

pytestmark = pytest.mark.openstack
KIND = "load-balancer"
KINDS = ("loadbalancers", "listeners", "pools", "healthmonitors")


@pytest.fixture
def balanced(openstack_lab: Lab) -> Iterator[Cloud]:
    openstack_lab.up(balancing=True)
    made = Cloud(openstack_lab)
    yield made
    made.clean_up()


def subnet(cloud: Cloud, project: Project) -> str:
    token = project.token
    network = cloud.made("network", "/v2.0/networks", "network", {"name": project.id[:8]}, token=token)
    body = {"network_id": network["id"], "ip_version": 4, "cidr": "10.9.0.0/24"}
    return str(cloud.made("network", "/v2.0/subnets", "subnet", body, token=token)["id"])


def asked(cloud: Cloud, project: Project, path: str, key: str, body: dict[str, Any]) -> Any:
    return cloud.call("POST", KIND, f"/v2/lbaas{path}", token=project.token, json={key: body})


def test_a_load_balancer_is_made_of_parts_and_goes_with_its_port(balanced: Cloud) -> None:
    project = balanced.project()
    wanted = {"name": "api", "vip_subnet_id": subnet(balanced, project)}
    one = asked(balanced, project, "/loadbalancers", "loadbalancer", wanted).json()["loadbalancer"]
    place = f"/v2/lbaas/loadbalancers/{one['id']}"

    def active() -> bool:
        found = balanced.call("GET", KIND, place, token=project.token).json()["loadbalancer"]
        return bool(found["provisioning_status"] == "ACTIVE" and found["operating_status"] == "ONLINE")

    until(active, "the load balancer is ACTIVE")
    body = {"loadbalancer_id": one["id"], "protocol": "TCP", "protocol_port": 6443}
    listener = asked(balanced, project, "/listeners", "listener", body).json()["listener"]
    until(active, "it has a listener")
    body = {"listener_id": listener["id"], "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN"}
    pool = asked(balanced, project, "/pools", "pool", body).json()["pool"]
    until(active, "it has a pool")
    body = {"address": "10.9.0.7", "protocol_port": 6443}
    assert asked(balanced, project, f"/pools/{pool['id']}/members", "member", body).status_code == 201
    until(active, "it has a member")
    port = f"/v2.0/ports/{one['vip_port_id']}"
    assert balanced.call("GET", "network", port).json()["port"]["device_owner"] == "Octavia"

    balanced.call("DELETE", KIND, f"{place}?cascade=true", token=project.token).raise_for_status()
    until(lambda: balanced.call("GET", "network", port).status_code == 404, "its port has gone")

    def left() -> list[str]:
        paths = {kind: f"/v2/lbaas/{kind}?project_id={project.id}" for kind in KINDS}
        return [kind for kind, path in paths.items() if balanced.call("GET", KIND, path).json()[kind]]

    until(lambda: not left(), "nothing of it is left")


def test_rights_and_quotas_are_octavias_own(balanced: Cloud) -> None:
    project, outsider = balanced.project(), balanced.project()
    wanted = {"vip_subnet_id": subnet(balanced, project)}
    foreign = {**wanted, "project_id": project.id}
    assert asked(balanced, outsider, "/loadbalancers", "loadbalancer", foreign).status_code == 403
    quota = {"quota": {"load_balancer": 0}}
    balanced.call("PUT", KIND, f"/v2/lbaas/quotas/{project.id}", json=quota).raise_for_status()
    refused = asked(balanced, project, "/loadbalancers", "loadbalancer", wanted)
    assert refused.status_code == 403
    assert "Quota" in refused.json()["faultstring"]
