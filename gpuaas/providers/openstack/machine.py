"""Translates Nova's servers into observed machines."""

import re
import uuid
from collections.abc import Mapping

from gpuaas.core.ids import uuid_read
from gpuaas.providers.base import MachineStatus, ObservedMachine
from gpuaas.providers.openstack import names, servers
from gpuaas.providers.openstack.classes import Classes
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


def machine_of(
    server: Object, classes: Classes, images: Mapping[str, str], *, lost: bool = False
) -> ObservedMachine:
    """`images`: names by id; an unknown image is shown by its id."""
    image = str((server.get("image") or {}).get("id") or "")
    gpus = servers.gpus_of(server, classes)
    launched = server.get("OS-SRV-USG:launched_at")
    return ObservedMachine(
        uid=server["id"],
        order=order_of(server),
        name=server["name"],
        status=status_of(server),
        site_status=", ".join(filter(None, [server["status"], server.get("OS-EXT-STS:task_state")])),
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
        outside=_outside(server),
        lost=lost,
    )


def order_of(server: Object) -> uuid.UUID | None:
    """None for invalid values, which others may have written."""
    return uuid_read((server.get("metadata") or {}).get(names.MACHINE))


def status_of(server: Object) -> MachineStatus:
    """A task under way takes precedence over the present state."""
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
    """Floating IPs first, since they are reachable from outside."""
    rows = [row for net in (server.get("addresses") or {}).values() for row in net]
    return tuple(
        str(row["addr"])
        for row in sorted(rows, key=lambda row: (row.get("OS-EXT-IPS:type") != "floating", row["addr"]))
    )


def _outside(server: Object) -> str:
    rows = [row for net in (server.get("addresses") or {}).values() for row in net]
    return min((str(row["addr"]) for row in rows if row.get("OS-EXT-IPS:type") == "floating"), default="")


def _fault(server: Object, gpus: Mapping[str, int]) -> str:
    """Of several concurrent requests, Nova accepts all and fails surplus ones later."""
    message = str((server.get("fault") or {}).get("message") or "")
    over = over_limit(message)
    return over[0] if over else servers.reason_in_words(message, gpus)


def over_limit(message: str) -> tuple[str, dict[str, str | int]] | None:
    """A refusal by Nova's limits in words, and its numbers; None for any other message."""
    over = OVER.search(message)
    if over is None:
        return None
    resource = over[1].removeprefix("class:")
    limit, used, asked = (int(text) for text in over.groups()[1:])
    words = f"the workspace may hold {limit} of {resource}, {used} are held"
    more = f" and {asked} more were requested" if asked else ""
    detail: dict[str, str | int] = {"resource": resource, "limit": limit, "used": used, "asked": asked}
    return f"{words}{more}: delete a machine or resize the workspace", detail
