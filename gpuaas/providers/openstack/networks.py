"""A network of its own for every project, a router to the outside where the site's operator names one, and a closed door."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gpuaas.core.errors import Permanent, Unavailable
from gpuaas.providers.openstack import names, twins
from gpuaas.providers.openstack.client import Cloud, Object

CIDR = "10.0.0.0/24"


@dataclass(frozen=True)
class Door:
    """A security group, and the one port at which it lets the outside in."""

    name: str
    port: int
    protocol: str = "tcp"


@dataclass(frozen=True)
class Shape:
    """How a network of ours is called and marked, and its ways in. lent: the first and the last address that Neutron gives out by
    itself; "" for all."""

    name: str = names.NETWORK
    cidr: str = CIDR
    lent: tuple[str, str] = ("", "")
    doors: tuple[Door, ...] = (Door(names.NETWORK, 22),)
    tags: tuple[str, ...] = ()


WORKSPACE = Shape()


def apply(cloud: Cloud, project_id: str, *, external: str, shape: Shape = WORKSPACE) -> list[str]:
    """Repeatable: what is there is found by project and name. Returns what is there twice and must stay, in words."""
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
    """The id of the network that leads out."""
    found = cloud.items("network", "/networks", "networks", name=external)
    if not found:
        raise Permanent(
            f"the site has no network {external!r}: an operator has to set the option external_network"
        )
    return str(found[0]["id"])


def tagged(cloud: Cloud, collection: str, row: Object, tags: tuple[str, ...]) -> None:
    """Neutron takes tags in a call of their own, which may never come: what is untagged is found by its project."""
    for tag in tags:
        if tag not in (row.get("tags") or []):
            cloud.put("network", f"/{collection}/{row['id']}/tags/{tag}")


@dataclass(frozen=True)
class _Own:
    """The things of one project, each found or made. twice: what has our name too and must stay."""

    cloud: Cloud
    project_id: str
    shape: Shape = WORKSPACE
    twice: list[str] = field(default_factory=list)

    def one(self, collection: str, key: str, body: Object, *, subnet: str = "", **where: str) -> Object:
        rows = self.found(collection, body["name"], where) or self._made(collection, key, body, where)
        ours, twice = twins.keep_one(self.cloud, collection, rows, subnet=subnet)
        self.twice.extend(twice)
        tagged(self.cloud, collection, ours, self.shape.tags)
        return ours

    def found(self, collection: str, name: str, where: Mapping[str, str]) -> list[Object]:
        query = {"project_id": self.project_id, "name": name, **where}
        return self.cloud.items("network", f"/{collection}", collection.replace("-", "_"), **query)

    def _made(self, collection: str, key: str, body: Object, where: Mapping[str, str]) -> list[Object]:
        """Refused where it was made since we looked: then that is ours."""
        given = {**body, "project_id": self.project_id, "description": twins.MADE}
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
    """Refused where it was done since we looked, or where somebody else at the same work linked a twin: the next look settles which."""
    path = f"/routers/{router['id']}/add_router_interface"
    try:
        own.cloud.put("network", path, {"subnet_id": subnet_id})
    except Permanent as error:
        if _leads_to(own.cloud, router, subnet_id):
            return
        if len(own.found("networks", own.shape.name, {})) > 1:
            raise Unavailable("its network is there twice for the moment", retry_after=2) from error
        raise


def _leads_to(cloud: Cloud, router: Object, subnet_id: str) -> bool:
    ports = cloud.items("network", "/ports", "ports", device_id=router["id"])
    return any(ip["subnet_id"] == subnet_id for port in ports for ip in port["fixed_ips"])


def _security_group(own: _Own, door: Door) -> None:
    """Neutron's own default group lets members of it in; ours adds one port, and is the tenant's to change."""
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
        "description": twins.MADE,
    }
    own.cloud.post("network", "/security-group-rules", {"security_group_rule": rule})


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
