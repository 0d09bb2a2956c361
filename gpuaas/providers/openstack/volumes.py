"""Bought storage as Cinder's own quota of a project, "0" if none was bought; and the volumes themselves.

Cinder counts snapshots as storage too. Backups are stored elsewhere and not sold, and volumes in a group can only be deleted with
the group, so both are limited to 0. A site without Cinder has no storage. Of each volume type there is what was bought of it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from gpuaas.core.errors import NotFound, Permanent, Unavailable
from gpuaas.providers.base import ObservedVolume, WorkspaceSpec, storage_key
from gpuaas.providers.openstack.client import Cloud, Object

# of volumes, and of snapshots, in a project: so that one tenant cannot fill the site's tables
MOST = 500
# in the order of their deletion
KINDS = ("backups", "snapshots", "volumes")
# statuses of volumes that are attached to a machine according to Cinder
ATTACHED = frozenset({"in-use", "attaching", "detaching", "reserved"})
# statuses of volumes that are not there yet, or never will be
ABSENT = frozenset({"creating", "downloading", "error"})
BELOW_USE = "existing resources"
CLOSED = dict.fromkeys(("gigabytes", "volumes", "snapshots", "backups", "backup_gigabytes", "groups"), 0)
OF_TYPE = "gigabytes_"


def wanted_quota(spec: WorkspaceSpec, types: Iterable[str]) -> dict[str, int]:
    """GiB and counts, of which there cannot be more than GiB: the smallest volume has one. `types`: all of the cloud, also one that
    the portal has not seen yet."""
    wanted = {**CLOSED, **_amounts(spec.storage_gib)}
    for name in types if spec.storage_limits else ():
        wanted |= _amounts(spec.storage_limits.get(name, 0), f"_{name}")
    return wanted


def _amounts(gib: int, of_type: str = "") -> dict[str, int]:
    count = min(gib, MOST)
    return {f"gigabytes{of_type}": gib, f"volumes{of_type}": count, f"snapshots{of_type}": count}


def quota_write(cloud: Cloud, project_id: str, spec: WorkspaceSpec | None) -> dict[str, int]:
    """What was written, if anything. Cinder refuses a quota below the present use: then the quota equals the use, so that nothing
    more can be created. None: of a project that is to have nothing."""
    if not cloud.has_volumes:
        return {}
    there = _quota(cloud, project_id)
    least = _least(there, spec)
    if all(there[key]["limit"] == amount for key, amount in least.items()):
        return {}
    try:
        cloud.put("volume", f"/os-quota-sets/{project_id}", {"quota_set": least})
    except Permanent as error:
        if BELOW_USE not in error.message:
            raise
        raise Unavailable("volumes were created in the meantime", retry_after=1) from error
    return least


def quota_insist(cloud: Cloud, project_id: str, spec: WorkspaceSpec) -> None:
    """Writes it again. Raises Permanent if the cloud takes it and has another one."""
    written = quota_write(cloud, project_id, spec)
    there = _quota(cloud, project_id) if written else {}
    lost = [
        f"{key} is {there[key]['limit']} instead of {amount}"
        for key, amount in written.items()
        if there[key]["limit"] != amount
    ]
    if lost:
        raise Permanent(
            f"the cloud takes limits of volumes and does not keep them ({'; '.join(lost)}): "
            f"an operator of the cloud must look for what else sets the quota of the project {project_id}"
        )


def quota_missing(cloud: Cloud, project_id: str, spec: WorkspaceSpec) -> list[str]:
    """Keys that Cinder does not enforce yet, in words."""
    if not cloud.has_volumes:
        return []
    there = _quota(cloud, project_id)
    return [
        f"{key} of volumes" if key == "gigabytes" else key
        for key, amount in _least(there, spec).items()
        if there[key]["limit"] != amount
    ]


def _least(there: Object, spec: WorkspaceSpec | None) -> dict[str, int]:
    wanted = CLOSED if spec is None else wanted_quota(spec, _types(there))
    return {key: max(amount, _used(there[key])) for key, amount in wanted.items()}


def _types(there: Object) -> list[str]:
    return [key.removeprefix(OF_TYPE) for key in there if key.startswith(OF_TYPE)]


def quota_delete(cloud: Cloud, project_id: str) -> None:
    if cloud.has_volumes:
        cloud.delete("volume", f"/os-quota-sets/{project_id}")


def storage(cloud: Cloud, project_id: str) -> tuple[dict[str, int], dict[str, int]]:
    """(GiB allowed by Cinder, GiB in use), in all and by volume type; -1 is without a limit."""
    if not cloud.has_volumes:
        return {"storage": 0}, {"storage": 0}
    there = _quota(cloud, project_id)
    rows = {"storage": there["gigabytes"]}
    rows |= {storage_key(name): there[f"{OF_TYPE}{name}"] for name in _types(there)}
    return {key: row["limit"] for key, row in rows.items()}, {key: _used(row) for key, row in rows.items()}


def observed(cloud: Cloud, project_id: str) -> tuple[ObservedVolume, ...]:
    """Names need not be unique at Cinder: one that is not has the volume's id beside it."""
    rows = of_project(cloud, project_id)
    names = Counter(row.get("name") or row["id"] for row in rows)
    return tuple(_volume(row, names) for row in rows)


def _volume(row: Object, names: Mapping[str, int]) -> ObservedVolume:
    name = row.get("name") or row["id"]
    return ObservedVolume(
        name=name if names[name] == 1 else f"{name} ({row['id']})",
        gib=row["size"],
        storage_class=row.get("volume_type") or "",
        bound=row["status"] not in ABSENT,
        created_at=datetime.fromisoformat(row["created_at"]).replace(tzinfo=UTC),
        uid=row["id"],
    )


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
