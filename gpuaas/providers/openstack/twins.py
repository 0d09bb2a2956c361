"""Two of a thing where one should be: Neutron minds no name that is taken, so a call whose answer was lost makes one in the end, and its
repetition another.

Only what we made goes, and only while nothing is on it; Neutron itself refuses the rest. What somebody uses by now stays, and is told.
"""

from collections.abc import Callable, Mapping

from gpuaas.core.errors import Unavailable
from gpuaas.providers.openstack.client import Cloud, Object

# the description of what we make
MADE = "made by gpuaas"
LINK = "network:router_interface"
# owners of ports that come and go with their network or router
SERVANTS = frozenset({"network:dhcp", "network:distributed", "network:router_gateway"})
UNUSED, USED, LINKED = range(3)


def keep_one(
    cloud: Cloud, collection: str, rows: list[Object], *, subnet: str = ""
) -> tuple[Object, list[str]]:
    """(ours, what else of that name stays, in words). Of several it is one that we made, then the one in use, then the oldest, so
    whoever looks at the same time keeps the same. subnet: into which a router of ours leads."""
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
    """One that only leads outside, as ours do before they are linked, has nothing on it."""
    ports = _ports(cloud, device_id=row["id"])
    if any(ip["subnet_id"] == subnet for port in ports for ip in port["fixed_ips"]):
        return LINKED
    return USED if ports or row.get("routes") else UNUSED


def _group(cloud: Cloud, row: Object, _subnet: str) -> int:
    """By a port, by a rule of another group, or by a rule that lets in more than ours."""
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
