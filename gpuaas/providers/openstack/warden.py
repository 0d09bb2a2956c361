"""Removes surplus devices of a workspace from a machine, and records the reason in its metadata."""

from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from enum import StrEnum

from gpuaas.core.errors import GpuaasError, Unavailable
from gpuaas.providers.openstack import inside, servers
from gpuaas.providers.openstack.client import Cloud, Object

METADATA = "gpuaas_removed"
VALUE_LENGTH = 255
# task states in which the devices are being released already
UNDER_WAY = {
    "deleting",
    "soft-deleting",
    "shelving",
    "shelving_image_pending_upload",
    "shelving_image_uploading",
}
UNDER_WAY |= {"shelving_offloading", "resize_reverting", "powering-off"}


class Policy(StrEnum):
    """What happens to a surplus machine; a shelved one keeps its disk and releases its devices."""

    SHELVE = "shelve"
    DELETE = "delete"


def evict(
    cloud: Cloud, machine_id: str, *, reason: str, policy: Policy, devices: Mapping[str, int] | None = None
) -> bool:
    """Request it from Nova, once; the machine holds its devices until that is done. False if it holds none any more, or
    fewer than `devices`, by class: then the judgement is outdated, as after a reverted resize.

    An unconfirmed resize is reverted, whatever the policy. A machine that never ran is deleted.
    """
    found = cloud.find("compute", f"/servers/{machine_id}")
    machine: Object = (found or {}).get("server") or {}
    if not machine or machine["status"] in servers.DEVICELESS:
        return False
    if machine.get("OS-EXT-STS:task_state") in UNDER_WAY:
        return True
    if machine["status"] != "VERIFY_RESIZE" and _holds_fewer(cloud, machine_id, devices or {}):
        return False
    _record(cloud, machine, reason)
    path, status = f"/servers/{machine_id}", machine["status"]
    if status == "VERIFY_RESIZE":
        cloud.post("compute", f"{path}/action", {"revertResize": None})
    elif policy is Policy.DELETE or not machine.get("OS-SRV-USG:launched_at"):
        cloud.delete("compute", path)
    elif verb := {"SHELVED": "shelveOffload", "ERROR": "os-stop"}.get(status):
        cloud.post("compute", f"{path}/action", {verb: None})
    else:
        _shelve(cloud, machine)
    return True


def _shelve(cloud: Cloud, machine: Object) -> None:
    """As a member of its project: the image of a shelved machine belongs to the account that shelves it, and nobody else
    removes it when the tenant brings the machine back. As the portal where a member may not, as with a quota of images."""
    path = f"/servers/{machine['id']}/action"
    project = cloud.get("identity", f"/projects/{machine['tenant_id']}")["project"]
    try:
        with closing(inside.enter(cloud, project)) as own:
            if machine.get("locked"):
                cloud.post("compute", path, {"unlock": None})
            own.post("compute", path, {"shelve": None})
    except Unavailable:
        raise
    except GpuaasError:
        cloud.post("compute", path, {"shelve": None})


def _holds_fewer(cloud: Cloud, machine_id: str, devices: Mapping[str, int]) -> bool:
    held: Counter[str] = Counter()
    for part in cloud.get("placement", f"/allocations/{machine_id}")["allocations"].values():
        held.update(part["resources"])
    return any(held[name] < count for name, count in devices.items())


def _record(cloud: Cloud, machine: Object, reason: str) -> None:
    """In its metadata. Nova accepts that only in some states, so a failure is ignored."""
    if machine["metadata"].get(METADATA) == reason[:VALUE_LENGTH]:
        return
    body = {"metadata": {METADATA: reason[:VALUE_LENGTH]}}
    try:
        cloud.post("compute", f"/servers/{machine['id']}/metadata", body)
    except GpuaasError:
        return
