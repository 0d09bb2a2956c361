"""Taking a consumer away that a workspace may not have, and saying why where its owner looks."""

from collections.abc import Iterator

from gpuaas.core.clock import now
from gpuaas.core.errors import GpuaasError
from gpuaas.providers.base import ObservedConsumer
from gpuaas.providers.kubernetes import claims
from gpuaas.providers.kubernetes.client import Api, Object

REASON = "GpuQuotaExceeded"
COMPONENT = "gpuaas-warden"


def evict(api: Api, namespace: str, consumer: ObservedConsumer, *, reason: str) -> bool:
    """A pod, or all pods that use a claim. False where nothing was left to take away."""
    pods = _users(api, namespace, consumer.uid) if claims.is_claim(consumer.uid) else [_pod(consumer)]
    removed = [_remove(api, namespace, pod, reason) for pod in pods]
    return any(removed)


def _pod(consumer: ObservedConsumer) -> Object:
    return {"name": consumer.name, "uid": consumer.uid}


def _users(api: Api, namespace: str, uid: str) -> list[Object]:
    """Of this allocation only: a claim that was allocated anew since is another consumer."""
    for claim in api.items_if_known(f"{claims.DRA}/namespaces/{namespace}/resourceclaims"):
        found = claims.consumer(claim, claims.Classes(), {})
        if found is not None and found.uid == uid:
            return claims.reserved_for(claim)
    return []


def _remove(api: Api, namespace: str, pod: Object, reason: str) -> bool:
    """At once, and only the very pod that was seen: its name may be another's by now."""
    path = f"/api/v1/namespaces/{namespace}/pods/{pod['name']}"
    found = api.find(path)
    if found is None or found["metadata"]["uid"] != pod["uid"]:
        return False
    options = {
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "gracePeriodSeconds": 0,
        "preconditions": {"uid": pod["uid"]},
    }
    removed = api.delete(path, options)
    if removed:
        _tell(api, namespace, found, reason)
    return removed


def _tell(api: Api, namespace: str, pod: Object, reason: str) -> None:
    """On the pod and on what made it. The pod is gone already, so a word that does not arrive stops nothing."""
    for involved in _involved(namespace, pod):
        moment = now().replace(microsecond=0).isoformat().replace("+00:00", "Z")
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": f"{pod['metadata']['name'][:200]}.gpuaas-", "namespace": namespace},
            "involvedObject": involved,
            "reason": REASON,
            "message": reason[:1000],
            "type": "Warning",
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "firstTimestamp": moment,
            "lastTimestamp": moment,
            "count": 1,
        }
        try:
            api.create(f"/api/v1/namespaces/{namespace}/events", event)
        except GpuaasError:
            return


def _involved(namespace: str, pod: Object) -> Iterator[Object]:
    meta = pod["metadata"]
    yield {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": meta["name"],
        "uid": meta["uid"],
        "namespace": namespace,
        "resourceVersion": meta["resourceVersion"],
    }
    for owner in meta.get("ownerReferences") or ():
        if owner.get("controller"):
            keys = ("apiVersion", "kind", "name", "uid")
            yield {**{key: owner[key] for key in keys}, "namespace": namespace}
