"""Observes one namespace: the enforced quota, its use, and the consumers."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from gpuaas.core.clock import now
from gpuaas.providers.base import (
    ObservedConsumer,
    ObservedVolume,
    ObservedWorkspace,
    WorkspaceRef,
    storage_key,
)
from gpuaas.providers.kubeapi import bounds, claims, demand, names, namespaces, pods
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.providers.kubeapi.quantities import gib, whole

# how long a refused create is shown after the last try
REFUSALS_SHOWN = timedelta(minutes=5)
_PLAIN = {"requests.cpu": "cpu", "requests.memory": "memory", "requests.storage": "storage", "pods": "pods"}
_IN_GIB = ("memory", "storage")


def observe(
    api: Api, ref: WorkspaceRef, *, known: Object | None = None, fresh: bool = False
) -> ObservedWorkspace:
    """`known`: its namespace, if read a moment ago. `fresh`: created a moment ago, so there are no old refusals."""
    space = namespaces.path(ref.external_name)
    found = known or api.find(space)
    if found is None or not namespaces.is_ours(found, ref.id):
        return ObservedWorkspace(exists=False)
    quota = (api.find(f"{space}/resourcequotas/{names.QUOTA}") or {}).get("status") or {}
    empty = fresh and not api.items(f"{space}/pods")
    consumers = [] if empty else consumers_of(api, ref.external_name, claims.sold_in([found]))
    return ObservedWorkspace(
        exists=True,
        hard=_amounts(quota.get("hard") or {}),
        used=_amounts(quota.get("used") or {}),
        bounds=bounds.observed(quota),
        consumers=(*consumers, *(() if fresh else _refused(api, space))),
        volumes=() if fresh else tuple(map(_volume, api.items(f"{space}/persistentvolumeclaims"))),
    )


def _volume(claim: Object) -> ObservedVolume:
    metadata, spec = claim["metadata"], claim["spec"]
    older = (metadata.get("annotations") or {}).get(names.BETA_STORAGE_CLASS)
    return ObservedVolume(
        name=metadata["name"],
        gib=gib(spec["resources"]["requests"]["storage"]),
        storage_class=older or spec.get("storageClassName") or "",
        bound=(claim.get("status") or {}).get("phase") == "Bound",
        created_at=datetime.fromisoformat(metadata["creationTimestamp"]),
    )


def consumers_of(api: Api, namespace: str, sold: Mapping[str, str]) -> list[ObservedConsumer]:
    """Pods, and claims with devices of their own: the same consumers as in the usage stream. `sold`: device class → the
    name it was sold by."""
    classes = claims.classes_of(api, sold)
    pod_list = api.items(f"{namespaces.path(namespace)}/pods")
    found = [pods.consumer(pod, classes.aliases) for pod in pod_list]
    if not classes.served:
        return found
    owners = {consumer.uid: consumer.owner for consumer in found}
    held = api.items_if_known(f"{claims.DRA}/namespaces/{namespace}/resourceclaims")
    allocated = (claims.consumer(claim, classes, owners) for claim in held)
    return [*found, *(each for each in allocated if each is not None)]


def _amounts(amounts: Object) -> dict[str, int]:
    """By GPU name, `cpu` (cores), `memory`, `storage` and each storage class (GiB) and `pods`."""
    found: dict[str, int] = {}
    for key, text in amounts.items():
        if storage_class := names.storage_class_of(key):
            found[storage_key(storage_class)] = gib(text)
            continue
        name = _PLAIN.get(key, key.removeprefix("requests."))
        if key in _PLAIN or (key.startswith("requests.") and demand.is_device(name)):
            found[name] = gib(text) if name in _IN_GIB else whole(text)
    return found


def _refused(api: Api, space: str) -> Iterator[ObservedConsumer]:
    """Jobs and other owners whose pods the site refuses: there is no pod to show, only events."""
    latest: dict[str, Object] = {}
    for event in api.items(f"{space}/events", fieldSelector="reason=FailedCreate"):
        uid = event["involvedObject"].get("uid", "")
        if uid and (uid not in latest or _seen(event) > _seen(latest[uid])):
            latest[uid] = event
    for uid, event in latest.items():
        if now() - _seen(event) < REFUSALS_SHOWN:
            owner = event["involvedObject"]
            yield ObservedConsumer(
                uid=uid,
                name=f"{owner['kind']}/{owner['name']}",
                phase="Refused",
                node="",
                gpus={},
                created_at=_seen(event),
                started_at=None,
                ended_at=None,
                waiting_for=pods.refusal_in_words(event.get("message", "")),
            )


def _seen(event: Object) -> datetime:
    series = (event.get("series") or {}).get("lastObservedTime")
    at = series or event.get("lastTimestamp") or event.get("eventTime")
    return datetime.fromisoformat(at or event["metadata"]["creationTimestamp"])
