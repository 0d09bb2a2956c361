"""What machines of one cluster at several sites reach each other by, as Nova and Neutron have it."""

import base64
import gzip
import hashlib
from typing import Any

import yaml

from gpuaas.providers.base import ClusterSpec
from gpuaas.providers.openstack.client import Cloud, Object
from gpuaas.providers.openstack.clusters.keys import SERVER_CA, Keys

TUNNEL = ("udp", 51820, 51820, "0.0.0.0/0")
API = ("tcp", 6443, 6443, "0.0.0.0/0")


def files_of(server: Object) -> dict[str, str]:
    """What cloud-init would write on the machine, by path."""
    text = gzip.decompress(base64.b64decode(server["OS-EXT-SRV-ATTR:user_data"])).decode()
    assert text.startswith("#cloud-config\n")
    return {row["path"]: row["content"] for row in yaml.safe_load(text)["write_files"]}


def config_of(server: Object) -> dict[str, Any]:
    """k3s' own."""
    found: dict[str, Any] = yaml.safe_load(files_of(server)["/etc/rancher/k3s/config.yaml"])
    return found


def holds(admin: Cloud, spec: ClusterSpec, domain: str) -> None:
    """Every machine has an address of its own that leads to it, knows it, and is open for the tunnel; there are no more of them."""
    project = admin.items("identity", "/projects", "projects", name=spec.external_name, domain_id=domain)[0][
        "id"
    ]
    servers = admin.items("compute", "/servers/detail", "servers", all_tenants="1", project_id=project)
    ports = admin.items("network", "/ports", "ports", project_id=project)
    addresses = admin.items("network", "/floatingips", "floatingips", project_id=project)
    assert len(servers) == len(addresses) == spec.control_plane.count + spec.workers
    assert admin.get("network", f"/quotas/{project}")["quota"]["floatingip"] == len(addresses)
    for server in servers:
        port = next(row for row in ports if row["device_id"] == server["id"])
        address = next(row["floating_ip_address"] for row in addresses if row["port_id"] == port["id"])
        config, is_head = config_of(server), not server["metadata"]["gpuaas-pool"]
        assert config["node-external-ip"] == address
        if is_head:
            assert (config["flannel-backend"], config["flannel-external-ip"]) == ("wireguard-native", True)
        assert _let_in(admin, port) == ({TUNNEL, API} if is_head else {TUNNEL})
        if spec.join is not None:
            assert config["server"] == spec.join.endpoint
            authority = Keys(spec.boots).authority(SERVER_CA)[0]
            digest = hashlib.sha256(authority.encode()).hexdigest()
            assert config["token"] == f"K10{digest}::node:{spec.join.token}"


def _let_in(admin: Cloud, port: Object) -> set[tuple[str, int, int, str]]:
    """What anybody outside may reach of it."""
    found = set()
    for group in port["security_groups"]:
        rules = admin.items(
            "network", "/security-group-rules", "security_group_rules", security_group_id=group
        )
        for rule in rules:
            if rule["direction"] == "ingress" and not rule["remote_group_id"]:
                source = rule["remote_ip_prefix"] or "0.0.0.0/0"
                found.add((rule["protocol"], rule["port_range_min"], rule["port_range_max"], source))
    return found
