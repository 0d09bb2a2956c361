"""Drains a node before its machine is removed: cordons it and evicts each pod, which respects disruption budgets."""

from dataclasses import dataclass

from gpuaas.core.errors import GpuaasError, NotFound
from gpuaas.providers.kubeapi.client import Api, Object

NODES, PODS = "/api/v1/nodes", "/api/v1/pods"
MIRROR = "kubernetes.io/config.mirror"
FINISHED = {"Succeeded", "Failed"}


@dataclass(frozen=True)
class Left:
    """A pod that is still on the node, and what it waits for."""

    pod: str
    why: str
    held: bool = False  # it is not ending yet

    def __str__(self) -> str:
        return f"{self.pod} {self.why}"


def node_drain(api: Api, node: str) -> tuple[Left, ...]:
    """Cordon the node and evict every pod on it; returns those still there, none if there is no such node. Pods of DaemonSets and
    static pods stay, since they would only come back. Repeatable. Raises Unavailable, Unauthorized."""
    found = api.find(f"{NODES}/{node}")
    if found is None:
        return ()
    if not found["spec"].get("unschedulable"):
        try:
            api.merge(f"{NODES}/{node}", {"spec": {"unschedulable": True}})
        except NotFound:
            return ()
    pods = api.items(PODS, fieldSelector=f"spec.nodeName={node}")
    return tuple(left for pod in pods if _moves(pod) and (left := _evict(api, pod)))


def node_restore(api: Api, node: str) -> None:
    """Uncordon the node."""
    found = api.find(f"{NODES}/{node}")
    if found is not None and found["spec"].get("unschedulable"):
        api.merge(f"{NODES}/{node}", {"spec": {"unschedulable": None}})


def node_forget(api: Api, node: str) -> None:
    """Delete the node of a removed machine, so that the next machine of this name is not cordoned."""
    api.delete(f"{NODES}/{node}")


def _moves(pod: Object) -> bool:
    metadata = pod["metadata"]
    owned = any(
        one.get("controller") and one["kind"] == "DaemonSet" for one in metadata.get("ownerReferences") or ()
    )
    is_static = MIRROR in (metadata.get("annotations") or {})
    return not owned and not is_static and (pod.get("status") or {}).get("phase") not in FINISHED


def _evict(api: Api, pod: Object) -> Left | None:
    metadata = pod["metadata"]
    namespace, name = metadata["namespace"], metadata["name"]
    named = f"{namespace}/{name}"
    if metadata.get("deletionTimestamp"):
        return Left(named, "is ending")
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
        "deleteOptions": {"preconditions": {"uid": metadata["uid"]}},
    }
    try:
        api.create(f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", body)
    except NotFound:
        return None
    except GpuaasError as error:
        if "disruption budget" in error.message:
            return Left(named, "is protected by a disruption budget", held=True)
        return Left(named, f"cannot be evicted: {error.message[:150]}", held=True)
    return Left(named, "is ending")
