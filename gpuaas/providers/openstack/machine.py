"""From Nova's server to a machine of the contract."""

import re
import uuid
from collections.abc import Mapping

from gpuaas.providers.base import MachineStatus, ObservedMachine
from gpuaas.providers.openstack import names, servers
from gpuaas.providers.openstack.client import Object

POWER = {0: "unknown", 1: "on", 3: "paused", 4: "off", 6: "crashed", 7: "suspended"}
OVER = re.compile(r"Resource (\S+) is over limit of (\d+) due to current usage (\d+) and delta (\d+)")
STATUSES = {
    "BUILD": MachineStatus.BUILDING,
    "ACTIVE": MachineStatus.RUNNING,
    "RESCUE": MachineStatus.RUNNING,
    "VERIFY_RESIZE": MachineStatus.RUNNING,
    "SHUTOFF": MachineStatus.STOPPED,
    "PAUSED": MachineStatus.STOPPED,
    "SUSPENDED": MachineStatus.STOPPED,
    "SHELVED": MachineStatus.SHELVED,
    "SHELVED_OFFLOADED": MachineStatus.SHELVED,
    "ERROR": MachineStatus.FAILED,
    "DELETED": MachineStatus.DELETING,
    "SOFT_DELETED": MachineStatus.DELETING,
}


def machine_of(server: Object, classes: Mapping[str, str], images: Mapping[str, str]) -> ObservedMachine:
    """`images`: names by id; one that is not visible to the tenant keeps its id."""
    image = str((server.get("image") or {}).get("id") or "")
    gpus = servers.gpus_of(server, classes)
    launched = server.get("OS-SRV-USG:launched_at")
    return ObservedMachine(
        uid=server["id"],
        order=order_of(server),
        name=server["name"],
        status=status_of(server),
        said=", ".join(filter(None, [server["status"], server.get("OS-EXT-STS:task_state")])),
        power=POWER.get(int(server.get("OS-EXT-STS:power_state") or 0), "unknown"),
        addresses=_addresses(server),
        flavor=_flavor(server),
        gpus=gpus,
        image=images.get(image, image),
        key=str(server.get("key_name") or ""),
        volumes=tuple(row["id"] for row in server.get("os-extended-volumes:volumes_attached") or []),
        fault=_fault(server, gpus) if server["status"] == "ERROR" else "",
        created_at=servers.instant(server["created"]),
        launched_at=servers.instant(launched) if launched else None,
    )


def order_of(server: Object) -> uuid.UUID | None:
    """What somebody else has written there is nobody's."""
    try:
        return uuid.UUID(str((server.get("metadata") or {})[names.MACHINE]))
    except (KeyError, ValueError):
        return None


def status_of(server: Object) -> MachineStatus:
    """A task under way goes before the state that it leads out of."""
    task = str(server.get("OS-EXT-STS:task_state") or "")
    found = STATUSES.get(server["status"], MachineStatus.CHANGING)
    if "deleting" in task:
        return MachineStatus.DELETING
    return MachineStatus.CHANGING if task and found is not MachineStatus.BUILDING else found


def _flavor(server: Object) -> str:
    flavor = server.get("flavor") or {}
    name = str(flavor.get("original_name") or "")
    ours = names.FLAVOR_MARK in (flavor.get("extra_specs") or {})
    return name.removeprefix(names.FLAVOR.format(slug="")) if ours else name


def _addresses(server: Object) -> tuple[str, ...]:
    """Floating ones first: they lead in from outside."""
    rows = [row for net in (server.get("addresses") or {}).values() for row in net]
    return tuple(
        str(row["addr"])
        for row in sorted(rows, key=lambda row: (row.get("OS-EXT-IPS:type") != "floating", row["addr"]))
    )


def _fault(server: Object, gpus: Mapping[str, int]) -> str:
    """Of several that were asked for at once, Nova gives up those that are too many after it has taken them all."""
    message = str((server.get("fault") or {}).get("message") or "")
    over = over_limit(message)
    return over[0] if over else servers.reason_in_words(message, gpus)


def over_limit(message: str) -> tuple[str, dict[str, str | int]] | None:
    """A refusal of Nova's limits in words, and its numbers; None where it is something else."""
    over = OVER.search(message)
    if over is None:
        return None
    resource = over[1].removeprefix("class:")
    limit, used, asked = (int(text) for text in over.groups()[1:])
    said = f"the workspace may hold {limit} of {resource}, {used} are held"
    more = f" and {asked} more were asked" if asked else ""
    detail: dict[str, str | int] = {"resource": resource, "limit": limit, "used": used, "asked": asked}
    return f"{said}{more}: delete a machine or let the workspace grow", detail
