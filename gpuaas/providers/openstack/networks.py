"""A network of its own for every project, a router to the outside where the site's operator names one, and a closed door."""

from collections.abc import Iterator

from gpuaas.core.errors import Permanent
from gpuaas.providers.openstack import names
from gpuaas.providers.openstack.client import Cloud, Object

CIDR = "10.0.0.0/24"


def apply(cloud: Cloud, project_id: str, *, external: str) -> None:
    """Repeatable: what is there is found by project and name."""
    network = _one(cloud, project_id, "networks", "network", {"name": names.NETWORK})
    body = {"name": names.NETWORK, "network_id": network["id"], "ip_version": 4, "cidr": CIDR}
    subnet = _one(cloud, project_id, "subnets", "subnet", body)
    if external:
        _router(cloud, project_id, subnet["id"], external)
    _security_group(cloud, project_id)


def _router(cloud: Cloud, project_id: str, subnet_id: str, external: str) -> None:
    outside = cloud.items("network", "/networks", "networks", name=external)
    if not outside:
        raise Permanent(
            f"the site has no network {external!r}: an operator has to set the option external_network"
        )
    router = _one(cloud, project_id, "routers", "router", {"name": names.NETWORK})
    if not router.get("external_gateway_info"):
        gateway = {"external_gateway_info": {"network_id": outside[0]["id"]}}
        cloud.put("network", f"/routers/{router['id']}", {"router": gateway})
    ports = cloud.items("network", "/ports", "ports", device_id=router["id"])
    if not any(ip["subnet_id"] == subnet_id for port in ports for ip in port["fixed_ips"]):
        cloud.put("network", f"/routers/{router['id']}/add_router_interface", {"subnet_id": subnet_id})


def _security_group(cloud: Cloud, project_id: str) -> None:
    """Neutron's own default group lets members of it in; ours adds ssh, and is the tenant's to change."""
    group = _one(cloud, project_id, "security-groups", "security_group", {"name": names.SECURITY_GROUP})
    if any(rule["direction"] == "ingress" for rule in group.get("security_group_rules") or []):
        return
    rule = {
        "security_group_id": group["id"],
        "direction": "ingress",
        "ethertype": "IPv4",
        "protocol": "tcp",
        "port_range_min": 22,
        "port_range_max": 22,
        "project_id": project_id,
    }
    cloud.post("network", "/security-group-rules", {"security_group_rule": rule})


def _one(cloud: Cloud, project_id: str, path: str, key: str, body: Object) -> Object:
    plural = path.replace("-", "_")
    rows = cloud.items("network", f"/{path}", plural, project_id=project_id, name=body["name"])
    if rows:
        return rows[0]
    made: Object = cloud.post("network", f"/{path}", {key: {**body, "project_id": project_id}})[key]
    return made


def leftovers(cloud: Cloud, project_id: str) -> Iterator[tuple[str, str]]:
    """(path, what it is in words) of everything of the project in Neutron but its default security group, in the order in
    which they can be deleted."""
    kinds = (
        ("floatingips", "floating IP"),
        ("ports", "port"),
        ("rbac-policies", "share with others"),
        ("routers", "router"),
        ("subnets", "subnet"),
        ("networks", "network"),
        ("subnetpools", "subnet pool"),
        ("address-scopes", "address scope"),
        ("security-groups", "security group"),
    )
    for path, words in kinds:
        for row in cloud.items("network", f"/{path}", path.replace("-", "_"), project_id=project_id):
            if path == "ports" and str(row.get("device_owner", "")).startswith("network:router"):
                continue  # goes with its router
            if path == "security-groups" and row["name"] == "default":
                continue  # goes with the project
            yield f"/{path}/{row['id']}", f"{words} {row.get('name') or row['id']}"


def routers_detach(cloud: Cloud, project_id: str) -> None:
    """A router with interfaces cannot go."""
    for router in cloud.items("network", "/routers", "routers", project_id=project_id):
        if router.get("routes"):
            cloud.put("network", f"/routers/{router['id']}", {"router": {"routes": []}})
        for port in cloud.items("network", "/ports", "ports", device_id=router["id"]):
            if port["device_owner"].startswith("network:router_interface"):
                path = f"/routers/{router['id']}/remove_router_interface"
                cloud.put("network", path, {"port_id": port["id"]})
