"""Finds the namespace of a workspace, and whether it is ours."""

import uuid

from gpuaas.core.errors import Permanent
from gpuaas.core.ids import short
from gpuaas.providers.kubeapi import names
from gpuaas.providers.kubeapi.client import FIELD_MANAGER, Api, Object

COLLECTION = "/api/v1/namespaces"


def path(namespace: str) -> str:
    return f"{COLLECTION}/{namespace}"


def own_namespace(api: Api, name: str, workspace: uuid.UUID) -> Object | None:
    """None if there is none. Raises Permanent for one that is not this workspace's."""
    found = api.find(path(name))
    if found is not None and not is_ours(found, workspace):
        raise Permanent(f"the site already has a namespace {name}, which is not this workspace's")
    return found


def only_ours(api: Api, name: str, workspace: uuid.UUID) -> Object | None:
    """None if there is none, or if it is not this workspace's."""
    found = api.find(path(name))
    return found if found is not None and is_ours(found, workspace) else None


def is_ours(namespace: Object, workspace: uuid.UUID) -> bool:
    """By our label; if somebody removed it, by our id in the name and the fields that we manage."""
    metadata = namespace["metadata"]
    label = (metadata.get("labels") or {}).get(names.WORKSPACE)
    if label == str(workspace):
        return True
    managers = {(e.get("manager"), e.get("operation")) for e in metadata.get("managedFields") or []}
    named = str(metadata["name"]).startswith(f"gpu-{short(workspace)}-")
    return named and (FIELD_MANAGER, "Apply") in managers


def is_terminating(namespace: Object) -> bool:
    return "deletionTimestamp" in namespace["metadata"]
