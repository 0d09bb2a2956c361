"""Taking devices away from a machine that its workspace may not have, and saying why where its people look."""

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum

from gpuaas.core.errors import GpuaasError
from gpuaas.providers.openstack import servers
from gpuaas.providers.openstack.client import Cloud, Object

METADATA = "gpuaas_removed"
VALUE_LENGTH = 255
# Nova has been asked already, or is at something that ends in the same
UNDER_WAY = {
    "deleting",
    "soft-deleting",
    "shelving",
    "shelving_image_pending_upload",
    "shelving_image_uploading",
}
UNDER_WAY |= {"shelving_offloading", "resize_reverting", "powering-off"}


class Policy(StrEnum):
    """What becomes of a machine beyond what was bought; shelved it keeps its disk and gives its devices back."""

    SHELVE = "shelve"
    DELETE = "delete"


def evict(
    cloud: Cloud, machine_id: str, *, reason: str, policy: Policy, devices: Mapping[str, int] | None = None
) -> bool:
    """Ask Nova for it, once; it holds its devices until that is done. False where it holds none any more, or fewer than
    `devices`, by class: what it was judged by is over, as after a resize that was taken back.

    A resize that has not been confirmed is taken back, whatever the policy. What never ran has nothing to keep.
    """
    found = cloud.find("compute", f"/servers/{machine_id}")
    machine: Object = (found or {}).get("server") or {}
    if not machine or machine["status"] in servers.DEVICELESS:
        return False
    if machine.get("OS-EXT-STS:task_state") in UNDER_WAY:
        return True
    if machine["status"] != "VERIFY_RESIZE" and _holds_fewer(cloud, machine_id, devices or {}):
        return False
    _tell(cloud, machine, reason)
    path, status = f"/servers/{machine_id}", machine["status"]
    if status == "VERIFY_RESIZE":
        cloud.post("compute", f"{path}/action", {"revertResize": None})
    elif policy is Policy.DELETE or not machine.get("OS-SRV-USG:launched_at"):
        cloud.delete("compute", path)
    else:
        verb = {"SHELVED": "shelveOffload", "ERROR": "os-stop"}.get(status, "shelve")
        cloud.post("compute", f"{path}/action", {verb: None})
    return True


def _holds_fewer(cloud: Cloud, machine_id: str, devices: Mapping[str, int]) -> bool:
    held: Counter[str] = Counter()
    for part in cloud.get("placement", f"/allocations/{machine_id}")["allocations"].values():
        held.update(part["resources"])
    return any(held[name] < count for name, count in devices.items())


def _tell(cloud: Cloud, machine: Object, reason: str) -> None:
    """In its metadata. Nova takes that only in some states, and a word that does not arrive stops nothing."""
    if machine["metadata"].get(METADATA) == reason[:VALUE_LENGTH]:
        return
    body = {"metadata": {METADATA: reason[:VALUE_LENGTH]}}
    try:
        cloud.post("compute", f"/servers/{machine['id']}/metadata", body)
    except GpuaasError:
        return
