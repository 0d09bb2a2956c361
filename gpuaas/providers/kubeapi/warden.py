"""Removes a surplus consumer of a workspace, and records the reason as an event for its owner."""

from collections.abc import Iterator

from gpuaas.core.clock import now
from gpuaas.core.errors import GpuaasError
from gpuaas.providers.base import ObservedConsumer
from gpuaas.providers.kubeapi import claims
from gpuaas.providers.kubeapi.client import Api, Object

REASON = "GpuQuotaExceeded"
COMPONENT = "gpuaas-warden"


def evict(api: Api, namespace: str, consumer: ObservedConsumer, *, reason: str) -> bool:
    """Remove a pod, or all pods that use a claim. False if there was nothing left to remove."""
    pods = _users(api, namespace, consumer.uid) if claims.is_claim(consumer.uid) else [_pod(consumer)]
    removed = [_remove(api, namespace, pod, reason) for pod in pods]
    return any(removed)


def _pod(consumer: ObservedConsumer) -> Object:
    return {"name": consumer.name, "uid": consumer.uid}


def _users(api: Api, namespace: str, uid: str) -> list[Object]:
    """The pods that use this allocation; a later allocation of the same claim is another consumer."""
    for claim in api.items_if_known(f"{claims.DRA}/namespaces/{namespace}/resourceclaims"):
        found = claims.consumer(claim, claims.Classes(), {})
        if found is not None and found.uid == uid:
            return claims.reserved_for(claim)
    return []


def _remove(api: Api, namespace: str, pod: Object, reason: str) -> bool:
    """At once, and only that very pod: its name may belong to another one by now."""
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
        _record(api, namespace, found, reason)
    return removed


def _record(api: Api, namespace: str, pod: Object, reason: str) -> None:
    """Events on the pod and on its owner. The pod is already gone, so a failure here is ignored."""
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
