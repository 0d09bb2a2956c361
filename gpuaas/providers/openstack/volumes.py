"""Bought storage as Cinder's own quota of a project, "0" if none was bought; and the volumes themselves.

Cinder counts snapshots as storage too. Backups are stored elsewhere and not sold, and volumes in a group can only be deleted with
the group, so both are limited to 0. A site without Cinder has no storage.
"""

from collections.abc import Mapping

from gpuaas.core.errors import NotFound, Permanent, Unavailable
from gpuaas.providers.base import WorkspaceSpec
from gpuaas.providers.openstack.client import Cloud, Object

# of volumes, and of snapshots, in a project: so that one tenant cannot fill the site's tables
MOST = 500
# in the order of their deletion
KINDS = ("backups", "snapshots", "volumes")
# statuses of volumes that are attached to a machine according to Cinder
ATTACHED = frozenset({"in-use", "attaching", "detaching", "reserved"})
BELOW_USE = "existing resources"


def wanted_quota(spec: WorkspaceSpec) -> dict[str, int]:
    """GiB and counts, of which there cannot be more than GiB: the smallest volume has one."""
    count = min(spec.storage_gib, MOST)
    return {**closed_quota(), "gigabytes": spec.storage_gib, "volumes": count, "snapshots": count}


def closed_quota() -> dict[str, int]:
    return dict.fromkeys(("gigabytes", "volumes", "snapshots", "backups", "backup_gigabytes", "groups"), 0)


def quota_write(cloud: Cloud, project_id: str, wanted: Mapping[str, int]) -> None:
    """Cinder refuses a quota below the present use: then the quota equals the use, so that nothing more can be created."""
    if not cloud.has_volumes:
        return
    there = _quota(cloud, project_id)
    least = {key: max(amount, _used(there[key])) for key, amount in wanted.items()}
    if all(there[key]["limit"] == amount for key, amount in least.items()):
        return
    try:
        cloud.put("volume", f"/os-quota-sets/{project_id}", {"quota_set": least})
    except Permanent as error:
        if BELOW_USE not in error.message:
            raise
        raise Unavailable("volumes were created in the meantime", retry_after=1) from error


def quota_missing(cloud: Cloud, project_id: str, wanted: Mapping[str, int]) -> list[str]:
    """Keys that Cinder does not enforce yet, in words."""
    if not cloud.has_volumes:
        return []
    there = _quota(cloud, project_id)
    return [
        f"{key} of volumes" if key == "gigabytes" else key
        for key, amount in wanted.items()
        if there[key]["limit"] != max(amount, _used(there[key]))
    ]


def quota_delete(cloud: Cloud, project_id: str) -> None:
    if cloud.has_volumes:
        cloud.delete("volume", f"/os-quota-sets/{project_id}")


def storage(cloud: Cloud, project_id: str) -> tuple[int, int]:
    """(GiB allowed by Cinder, GiB in use)."""
    if not cloud.has_volumes:
        return 0, 0
    found = _quota(cloud, project_id)["gigabytes"]
    return found["limit"], _used(found)


def of_project(cloud: Cloud, project_id: str, kind: str = "volumes") -> list[Object]:
    if not cloud.has_volumes:
        return []
    return cloud.items("volume", f"/{kind}/detail", kind, all_tenants="1", project_id=project_id)


def remove(cloud: Cloud, path: str, *, status: str) -> None:
    """Delete in any state; no machine may be left that could have it attached. If it is refused, for example because of snapshots,
    the next visit retries."""
    if status == "deleting":
        return  # Cinder continues by itself, even after a restart
    try:
        if status in ATTACHED:
            freed = {"status": "error", "attach_status": "detached", "migration_status": "none"}
            cloud.post("volume", f"{path}/action", {"os-reset_status": freed})
        cloud.post("volume", f"{path}/action", {"os-force_delete": {}})
    except (NotFound, Permanent):
        return


def _quota(cloud: Cloud, project_id: str) -> Object:
    found: Object = cloud.get("volume", f"/os-quota-sets/{project_id}", usage="True")["quota_set"]
    return found


def _used(row: Mapping[str, int]) -> int:
    return row["in_use"] + row["reserved"]
