"""A network for every project, a router to the external network if the site has one, and security groups."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gpuaas.core.errors import Permanent, Unavailable
from gpuaas.providers.openstack import duplicates, names
from gpuaas.providers.openstack.client import Cloud, Object

CIDR = "10.0.0.0/24"


@dataclass(frozen=True)
class Door:
    """A security group with one open port."""

    name: str
    port: int
    protocol: str = "tcp"


@dataclass(frozen=True)
class Shape:
    """Name, range, tags and open ports of one of our networks. lent: the first and the last address that Neutron assigns by itself;
    "" for all."""

    name: str = names.NETWORK
    cidr: str = CIDR
    lent: tuple[str, str] = ("", "")
    doors: tuple[Door, ...] = (Door(names.NETWORK, 22),)
    tags: tuple[str, ...] = ()


WORKSPACE = Shape()


def apply(cloud: Cloud, project_id: str, *, external: str, shape: Shape = WORKSPACE) -> list[str]:
    """Repeatable: existing objects are found by project and name. Returns duplicates that must stay, in words."""
    own = _Own(cloud, project_id, shape)
    network = own.one("networks", "network", {"name": shape.name})
    body = {"name": shape.name, "network_id": network["id"], "ip_version": 4, "cidr": shape.cidr}
    if all(shape.lent):
        body["allocation_pools"] = [{"start": shape.lent[0], "end": shape.lent[1]}]
    subnet = own.one("subnets", "subnet", body, network_id=network["id"])
    if external:
        _router(own, subnet["id"], external)
    for door in shape.doors:
        _security_group(own, door)
    return own.twice


def outside(cloud: Cloud, external: str) -> str:
    """The id of the external network: only the cloud's administrators can make one, and tenants may call their own networks the same."""
    found = cloud.items("network", "/networks", "networks", name=external, **{"router:external": "true"})
    if not found:
        raise Permanent(
            f"the site has no external network {external!r}: an operator must set the option external_network"
        )
    return str(found[0]["id"])


def tagged(cloud: Cloud, collection: str, row: Object, tags: tuple[str, ...]) -> None:
    """Neutron sets tags in separate calls, which may be lost: untagged objects are found by their project."""
    for tag in tags:
        if tag not in (row.get("tags") or []):
            cloud.put("network", f"/{collection}/{row['id']}/tags/{tag}")


@dataclass(frozen=True)
class _Own:
    """The objects of one project, each found or created. twice: duplicates that must stay, in words."""

    cloud: Cloud
    project_id: str
    shape: Shape = WORKSPACE
    twice: list[str] = field(default_factory=list)

    def one(self, collection: str, key: str, body: Object, *, subnet: str = "", **where: str) -> Object:
        rows = self.found(collection, body["name"], where) or self._made(collection, key, body, where)
        ours, twice = duplicates.keep_one(self.cloud, collection, rows, subnet=subnet)
        self.twice.extend(twice)
        tagged(self.cloud, collection, ours, self.shape.tags)
        return ours

    def found(self, collection: str, name: str, where: Mapping[str, str]) -> list[Object]:
        query = {"project_id": self.project_id, "name": name, **where}
        return self.cloud.items("network", f"/{collection}", collection.replace("-", "_"), **query)

    def _made(self, collection: str, key: str, body: Object, where: Mapping[str, str]) -> list[Object]:
        """If it is refused because it was created in the meantime, that object is used."""
        given = {**body, "project_id": self.project_id, "description": duplicates.MADE}
        try:
            return [self.cloud.post("network", f"/{collection}", {key: given})[key]]
        except Permanent:
            if rows := self.found(collection, body["name"], where):
                return rows
            raise


def _router(own: _Own, subnet_id: str, external: str) -> None:
    way_out = outside(own.cloud, external)
    router = own.one("routers", "router", {"name": own.shape.name}, subnet=subnet_id)
    if not router.get("external_gateway_info"):
        gateway = {"external_gateway_info": {"network_id": way_out}}
        own.cloud.put("network", f"/routers/{router['id']}", {"router": gateway})
    if not _leads_to(own.cloud, router, subnet_id):
        _link(own, router, subnet_id)


def _link(own: _Own, router: Object, subnet_id: str) -> None:
    """A refusal is fine if it was linked in the meantime; if another worker linked a duplicate network, the next visit resolves it."""
    path = f"/routers/{router['id']}/add_router_interface"
    try:
        own.cloud.put("network", path, {"subnet_id": subnet_id})
    except Permanent as error:
        if _leads_to(own.cloud, router, subnet_id):
            return
        if len(own.found("networks", own.shape.name, {})) > 1:
            raise Unavailable("its network has a duplicate at the moment", retry_after=2) from error
        raise


def _leads_to(cloud: Cloud, router: Object, subnet_id: str) -> bool:
    ports = cloud.items("network", "/ports", "ports", device_id=router["id"])
    return any(ip["subnet_id"] == subnet_id for port in ports for ip in port["fixed_ips"])


def _security_group(own: _Own, door: Door) -> None:
    """Neutron's default group allows traffic between its members; ours opens one port, and the tenant may change it."""
    group = own.one("security-groups", "security_group", {"name": door.name})
    if any(rule["direction"] == "ingress" for rule in group.get("security_group_rules") or []):
        return
    rule = {
        "security_group_id": group["id"],
        "direction": "ingress",
        "ethertype": "IPv4",
        "protocol": door.protocol,
        "port_range_min": door.port,
        "port_range_max": door.port,
        "project_id": own.project_id,
        "description": duplicates.MADE,
    }
    own.cloud.post("network", "/security-group-rules", {"security_group_rule": rule})


def leftovers(cloud: Cloud, project_id: str) -> Iterator[tuple[str, str]]:
    """(path, description) of all objects of the project in Neutron except its default security group, in the order of their
    deletion."""
    kinds = (
        ("floatingips", "floating IP"),
        ("ports", "port"),
        ("rbac-policies", "sharing policy"),
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
                continue  # deleted with its router
            if path == "security-groups" and row["name"] == "default":
                continue  # deleted with the project
            yield f"/{path}/{row['id']}", f"{words} {row.get('name') or row['id']}"


def routers_detach(cloud: Cloud, project_id: str) -> None:
    """A router with interfaces cannot be deleted."""
    for router in cloud.items("network", "/routers", "routers", project_id=project_id):
        if router.get("routes"):
            cloud.put("network", f"/routers/{router['id']}", {"router": {"routes": []}})
        for port in cloud.items("network", "/ports", "ports", device_id=router["id"]):
            if port["device_owner"].startswith("network:router_interface"):
                path = f"/routers/{router['id']}/remove_router_interface"
                cloud.put("network", path, {"port_id": port["id"]})
