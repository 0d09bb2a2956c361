"""The namespace behind a workspace: ours, somebody else's, or not there."""

import uuid

from gpuaas.core.errors import Permanent
from gpuaas.core.ids import short
from gpuaas.providers.kubernetes import names
from gpuaas.providers.kubernetes.client import FIELD_MANAGER, Api, Object

COLLECTION = "/api/v1/namespaces"


def path(namespace: str) -> str:
    return f"{COLLECTION}/{namespace}"


def own_namespace(api: Api, name: str, workspace: uuid.UUID) -> Object | None:
    """None where there is none. Raises Permanent for one that is not this workspace's: it is not touched."""
    found = api.find(path(name))
    if found is not None and not is_ours(found, workspace):
        raise Permanent(f"a namespace {name} is at the site already and is not this workspace's")
    return found


def only_ours(api: Api, name: str, workspace: uuid.UUID) -> Object | None:
    """Somebody else's of the same name is none of ours; None then too."""
    found = api.find(path(name))
    return found if found is not None and is_ours(found, workspace) else None


def is_ours(namespace: Object, workspace: uuid.UUID) -> bool:
    """By our label; where somebody has taken it, by the name that has our id in it and the fields that we have set."""
    metadata = namespace["metadata"]
    label = (metadata.get("labels") or {}).get(names.WORKSPACE)
    if label == str(workspace):
        return True
    managers = {(e.get("manager"), e.get("operation")) for e in metadata.get("managedFields") or []}
    named = str(metadata["name"]).startswith(f"gpu-{short(workspace)}-")
    return named and (FIELD_MANAGER, "Apply") in managers


def is_terminating(namespace: Object) -> bool:
    return "deletionTimestamp" in namespace["metadata"]
