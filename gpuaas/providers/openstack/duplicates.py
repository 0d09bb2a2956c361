"""Resolves duplicates: Neutron does not enforce unique names, so a call whose answer was lost creates an object, and its repetition
another one.

Only objects that we created and that are unused are deleted; Neutron itself refuses the rest. Those in use stay, and are reported.
"""

from collections.abc import Callable, Mapping

from gpuaas.core.errors import Unavailable
from gpuaas.providers.openstack.client import Cloud, Object

# the description of objects that we create
MADE = "made by gpuaas"
LINK = "network:router_interface"
# owners of ports that come and go with their network or router
SERVANTS = frozenset({"network:dhcp", "network:distributed", "network:router_gateway"})
UNUSED, USED, LINKED = range(3)


def keep_one(
    cloud: Cloud, collection: str, rows: list[Object], *, subnet: str = ""
) -> tuple[Object, list[str]]:
    """(ours, other objects of that name that stay, in words). Prefers one that we created, then one in use, then the oldest, so
    that concurrent workers choose the same. subnet: the one that our router leads to."""
    if len(rows) == 1:
        return rows[0], []
    use = {row["id"]: _USES[collection](cloud, row, subnet) for row in rows}

    def rank(row: Object) -> tuple[bool, int, str, str]:
        return not is_made(row), -use[row["id"]], row.get("created_at") or "", row["id"]

    ours, *others = sorted(rows, key=rank)
    left = [
        row for row in others if use[row["id"]] or not is_made(row) or not _remove(cloud, collection, row)
    ]
    return ours, [f"{collection[:-1]} {row['name']} ({row['id']})" for row in left]


def is_made(row: Object) -> bool:
    return row.get("description") == MADE


def _remove(cloud: Cloud, collection: str, row: Object) -> bool:
    try:
        cloud.delete("network", f"/{collection}/{row['id']}")
    except Unavailable:
        return False  # somebody has begun to use it
    return True


def _network(cloud: Cloud, row: Object, _subnet: str) -> int:
    ports = _ports(cloud, network_id=row["id"])
    if any(port["device_owner"] == LINK for port in ports):
        return LINKED
    subnets = cloud.items("network", "/subnets", "subnets", network_id=row["id"])
    return USED if ports or not all(map(is_made, subnets)) else UNUSED


def _subnet(cloud: Cloud, row: Object, _subnet: str) -> int:
    return USED if _ports(cloud, fixed_ips=f"subnet_id={row['id']}") else UNUSED


def _router(cloud: Cloud, row: Object, subnet: str) -> int:
    """A router with only an external gateway, like ours before they are linked, is unused."""
    ports = _ports(cloud, device_id=row["id"])
    if any(ip["subnet_id"] == subnet for port in ports for ip in port["fixed_ips"]):
        return LINKED
    return USED if ports or row.get("routes") else UNUSED


def _group(cloud: Cloud, row: Object, _subnet: str) -> int:
    """Used by a port, by a rule of another group, or with a rule that allows more than ours."""
    inward = [rule for rule in row.get("security_group_rules") or [] if rule["direction"] == "ingress"]
    query = {"remote_group_id": row["id"]}
    named = cloud.items("network", "/security-group-rules", "security_group_rules", **query)
    used = not all(map(is_made, inward)) or named or _ports(cloud, security_groups=row["id"])
    return USED if used else UNUSED


def _ports(cloud: Cloud, **query: str) -> list[Object]:
    found = cloud.items("network", "/ports", "ports", **query)
    return [port for port in found if port["device_owner"] not in SERVANTS]


_USES: Mapping[str, Callable[[Cloud, Object, str], int]] = {
    "networks": _network,
    "subnets": _subnet,
    "routers": _router,
    "security-groups": _group,
}
