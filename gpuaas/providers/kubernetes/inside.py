"""What environments and jobs share: where they are, how their objects are made, and as what their containers run."""

from typing import Any

from gpuaas.core.errors import Permanent, QuotaRefused
from gpuaas.providers.base import WorkspaceRef
from gpuaas.providers.kubeapi import namespaces, pods
from gpuaas.providers.kubeapi.client import Api, Object

# waiting does not help: something of the image or the definition is wrong
HOPELESS = {"ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError"}
CONTAINER_SECURITY = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
LOG_BYTES = 200_000
SHARED_MEMORY = "shared-memory"


def is_there(api: Api, workspace: WorkspaceRef) -> bool:
    """Whether its namespace is, and stays."""
    found = namespaces.only_ours(api, workspace.external_name, workspace.id)
    return found is not None and not namespaces.is_terminating(found)


def path(workspace: WorkspaceRef, plural: str, group: str = "/api/v1") -> str:
    return f"{group}/namespaces/{workspace.external_name}/{plural}"


def create(api: Api, collection: str, body: Object) -> None:
    """The site's refusal of a quota that is used up is said in our words."""
    try:
        api.create(collection, body)
    except Permanent as error:
        if "exceeded quota" not in error.message:
            raise
        raise QuotaRefused(pods.refusal_in_words(error.message)) from error


def amounts_of(vcpus: int, memory_gib: int, gpus: int, resource_name: str) -> Object:
    """Requests and limits alike."""
    amounts = {"cpu": str(vcpus), "memory": f"{memory_gib}Gi"} | ({resource_name: str(gpus)} if gpus else {})
    return {"limits": amounts, "requests": amounts}


def pod_security(user: int, *, chooses_users: bool) -> Object:
    """By Pod Security's `restricted`. chooses_users: False where the site chooses the account itself."""
    context: dict[str, Any] = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    if chooses_users:
        context |= {"runAsUser": user, "fsGroup": user, "fsGroupChangePolicy": "OnRootMismatch"}
    return context


# what processes of one program share; its memory counts as the container's
def shared_memory_mount() -> Object:
    return {"name": SHARED_MEMORY, "mountPath": "/dev/shm"}  # noqa: S108


def shared_memory_volume() -> Object:
    return {"name": SHARED_MEMORY, "emptyDir": {"medium": "Memory"}}


def container_of(pod: Object, name: str) -> Object:
    """Its status; empty while there is none."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    return next((each for each in statuses if each["name"] == name), {})


def waiting_of(container: Object) -> Object:
    """ContainerCreating is no reason, but the beginning."""
    found: Object = (container.get("state") or {}).get("waiting") or {}
    return found if found.get("reason") != "ContainerCreating" else {}
