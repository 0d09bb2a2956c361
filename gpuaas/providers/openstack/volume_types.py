"""Cinder's volume types as the site's storage classes, and what a project needs to use those that were bought.

How much there may be of each is a quota (volumes.py). A private type is granted to the projects that bought it; a volume for
which nobody names a type must be of one that was bought.
"""

from gpuaas.core.errors import GpuaasError, NotFound, Permanent, Unauthorized, Unavailable
from gpuaas.providers.base import ObservedStorageClass, WorkspaceSpec
from gpuaas.providers.openstack.client import Cloud, Object

NAME_MOST = 253  # what the portal keeps of a name; a type with a longer one is closed in every project
BACKEND = "volume_backend_name"
MISCONFIGURED = 500  # Cinder's answer where its configuration names a default that it does not have; and for any fault of its own


def classes(cloud: Cloud) -> tuple[ObservedStorageClass, ...] | None:
    """None while Cinder does not answer or refuses, which the rest of the site does not depend on."""
    if not cloud.has_volumes:
        return ()
    try:
        rows, default = all_types(cloud), default_type(cloud)
    except GpuaasError:
        return None
    return tuple(
        ObservedStorageClass(
            row["name"],
            (row.get("extra_specs") or {}).get(BACKEND, ""),
            default=None if default is None else row["name"] == default,
        )
        for row in sorted(rows, key=lambda row: str(row["name"]))
        if len(row["name"]) <= NAME_MOST
    )


def all_types(cloud: Cloud) -> list[Object]:
    """Private ones too."""
    return cloud.items("volume", "/types", "volume_types", is_public="None")


def default_type(cloud: Cloud) -> str | None:
    """The name of what a volume without a type gets, "" where Cinder finds none: then it fails. None: it has none, or a fault that
    passes. Raises Unavailable while Cinder does not answer."""
    try:
        return str(cloud.get("volume", "/types/default")["volume_type"]["name"])
    except (NotFound, Permanent):
        return ""
    except Unavailable as error:
        if error.detail.get("status") != MISCONFIGURED:
            raise
        return None


def open_bought(cloud: Cloud, project_id: str, spec: WorkspaceSpec) -> None:
    """After the quota. Not while it is suspended: its machines are shelved even if Cinder refuses this."""
    bought = {name: gib for name, gib in spec.storage_classes.items() if gib}
    if spec.suspended or not bought or not cloud.has_volumes:
        return
    there = {row["name"]: row for row in all_types(cloud) if row["name"] in bought}
    for row in there.values():
        if not row["is_public"] and project_id not in _granted(cloud, row):
            cloud.post("volume", f"/types/{row['id']}/action", {"addProjectAccess": {"project": project_id}})
    if there:
        _default_write(cloud, project_id, max(there.values(), key=lambda row: bought[row["name"]]), there)


def _granted(cloud: Cloud, row: Object) -> set[str]:
    path = f"/types/{row['id']}/os-volume-type-access"
    return {each["project_id"] for each in cloud.items("volume", path, "volume_type_access")}


def _default_write(cloud: Cloud, project_id: str, most: Object, bought: dict[str, Object]) -> None:
    """Unless what a volume without a type gets was bought, it is the type of which most was bought. Older Cinders leave that to
    admins of the whole system: there such a volume is refused."""
    path = f"/default-types/{project_id}"
    try:
        own = cloud.find("volume", path)
        ids = {row["id"] for row in bought.values()}
        if own["default_type"]["volume_type_id"] in ids if own else default_type(cloud) in bought:
            return
        cloud.put("volume", path, {"default_type": {"volume_type": most["name"]}})
    except (Permanent, Unauthorized):
        return


def forget(cloud: Cloud, project_id: str) -> None:
    """What Cinder keeps for a project that is deleted."""
    if not cloud.has_volumes:
        return
    for row in all_types(cloud):
        if not row["is_public"] and project_id in _granted(cloud, row):
            action = {"removeProjectAccess": {"project": project_id}}
            cloud.post("volume", f"/types/{row['id']}/action", action)
    try:
        cloud.delete("volume", f"/default-types/{project_id}")
    except (Permanent, Unauthorized):
        return
