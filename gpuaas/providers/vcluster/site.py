"""Reads one virtual cluster at the site: its namespace, its control plane, and its own API."""

import base64
from collections.abc import Mapping

from gpuaas.core.errors import NotFound, Unauthorized, Unavailable
from gpuaas.providers import base
from gpuaas.providers.kubeapi import names as site_names
from gpuaas.providers.kubeapi import namespaces
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.providers.kubeapi.names import RELEASE
from gpuaas.providers.kubeapi.observe import consumers_of
from gpuaas.providers.vcluster import names
from gpuaas.providers.vcluster.tenancy import Share, gpus_in, shares_of

OVER = "pods hold more GPUs than the pools have; the newest are ended"
NOWHERE = "the cluster's API does not answer yet"


def space_find(api: Api, ref: base.ClusterRef) -> Object | None:
    """Its namespace; None if there is none, or if it is not ours."""
    return namespaces.only_ours(api, names.space(ref.external_name), ref.id)


def path(name: str, kind: str, group: str = "/api/v1") -> str:
    return f"{group}/namespaces/{names.space(name)}/{kind}"


def observe(api: Api, ref: base.ClusterRef) -> base.ObservedCluster:
    space = space_find(api, ref)
    if space is None:
        return base.ObservedCluster(exists=False)
    control = control_nodes(api, ref.external_name)
    answers = any(node.ready for node in control) and _secret(api, ref) is not None
    address = (space["metadata"].get("annotations") or {}).get(names.ADDRESS, "")
    return base.ObservedCluster(
        exists=True,
        endpoint=f"https://{address}" if answers and address else "",
        nodes=(*control, *_workers(api, ref, shares_of(space))),
    )


def enforced(api: Api, name: str) -> Mapping[str, str]:
    """The limits that the site's quota enforces now; empty until they match its spec."""
    found = api.find(f"{path(name, 'resourcequotas')}/{site_names.QUOTA}") or {}
    spec, status = found.get("spec", {}).get("hard") or {}, found.get("status", {}).get("hard") or {}
    return status if status == spec else {}


def control_nodes(api: Api, name: str) -> tuple[base.ClusterNode, ...]:
    pods = api.items(path(name, "pods"), labelSelector=f"{names.CONTROL}={name}")
    return tuple(_control_node(pod) for pod in pods)


def _control_node(pod: Object) -> base.ClusterNode:
    metadata, status = pod["metadata"], pod.get("status") or {}
    conditions = {each["type"]: each for each in status.get("conditions") or []}
    going = "deletionTimestamp" in metadata
    ready = conditions.get("Ready", {}).get("status") == "True" and not going
    return base.ClusterNode(
        name=metadata["name"],
        pool="",
        release=metadata["labels"].get(RELEASE, ""),
        ready=ready,
        reason="" if ready else "it is being replaced" if going else _reason(status, conditions),
    )


def _reason(status: Object, conditions: Mapping[str, Object]) -> str:
    """The most specific reason why the pod is not ready."""
    waiting = [
        each["state"]["waiting"]
        for kind in ("initContainerStatuses", "containerStatuses")
        for each in status.get(kind) or []
        if "waiting" in (each.get("state") or {})
    ]
    if waiting:
        return ": ".join(filter(None, (waiting[0].get("reason"), waiting[0].get("message"))))[:300]
    unplaced = conditions.get("PodScheduled", {})
    if unplaced.get("status") == "False":
        return str(unplaced.get("message") or unplaced.get("reason") or "no node takes it")[:300]
    return "it is starting"


def surplus(api: Api, name: str) -> list[base.ObservedConsumer]:
    """Consumers beyond the quota: the newest ones, so that the rest fits."""
    hard, found = enforced(api, name), consumers_of(api, names.space(name), {})
    holding = [one for one in found if one.gpus and one.started_at is not None and one.ended_at is None]
    holding.sort(key=lambda one: (one.started_at or one.created_at, one.created_at, one.uid))
    left = {resource: gpus_in(hard, resource) for one in holding for resource in one.gpus}
    beyond = []
    for one in holding:
        if all(left[resource] >= count for resource, count in one.gpus.items()):
            left.update({resource: left[resource] - count for resource, count in one.gpus.items()})
        else:
            beyond.append(one)
    return beyond if hard else []


def _workers(api: Api, ref: base.ClusterRef, shares: tuple[Share, ...]) -> tuple[base.ClusterNode, ...]:
    """Each worker is a share of the quota. If the quota is too small for all of them, the first ones are not ready; if more is held
    than it allows, no worker with that resource name is ready."""
    hard = enforced(api, ref.external_name)
    over = {resource for one in surplus(api, ref.external_name) for resource in one.gpus}
    left = {share.resource_name: gpus_in(hard, share.resource_name) for share in shares}
    found = []
    for share in reversed(shares):
        for number in range(share.count, 0, -1):
            given = bool(hard) and left[share.resource_name] >= share.gpus
            left[share.resource_name] -= share.gpus if given else 0
            reason = OVER if share.resource_name in over else ""
            if not given:
                reason = f"the site's quota does not include its {share.gpus} × {share.resource_name}"
            name = f"{ref.external_name}-{share.pool}-{number}"
            found.append(base.ClusterNode(name, share.pool, share.release, not reason, reason))
    return tuple(reversed(found))


def control_settled(api: Api, spec: base.ClusterSpec) -> base.StepOutcome:
    """Done when all pods of the StatefulSet match its spec."""
    found = api.find(f"{path(spec.external_name, 'statefulsets', '/apis/apps/v1')}/{spec.external_name}")
    if found is None:
        raise NotFound("the control plane is not at the site; it must be created again")
    status, wanted = found.get("status") or {}, spec.control_plane.count
    current = status.get("observedGeneration") == found["metadata"]["generation"]
    nodes = control_nodes(api, spec.external_name)
    right = [node for node in nodes if node.ready and node.release == spec.release]
    if current and status.get("updatedReplicas") == len(right) == len(nodes) == wanted:
        return base.StepOutcome(done=True, detail=f"it runs {spec.release}")
    reason = next((node.reason for node in nodes if node.reason), "its pod is being created")
    return base.StepOutcome(done=False, detail=reason)


def admin_kubeconfig(api: Api, ref: base.ClusterRef) -> str:
    """The one that the syncer wrote, with full rights in the virtual cluster, for the portal only. Raises NotFound."""
    found = _secret(api, ref)
    if found is None:
        raise NotFound(NOWHERE)
    return base64.b64decode(found["data"]["config"]).decode()


def _secret(api: Api, ref: base.ClusterRef) -> Object | None:
    if space_find(api, ref) is None:
        return None
    name = names.kubeconfig_secret(ref.external_name)
    found = api.find(f"{path(ref.external_name, 'secrets')}/{name}")
    return found if found is not None and "config" in (found.get("data") or {}) else None


def inside(api: Api, ref: base.ClusterRef) -> Api:
    """The virtual cluster's own API, for one call only."""
    return Api(admin_kubeconfig(api, ref))


def answers(api: Api, ref: base.ClusterRef) -> base.StepOutcome:
    """Tested at the public address, as people use it."""
    try:
        version = inside(api, ref).get("/version")
    except (NotFound, Unavailable, Unauthorized) as error:
        return base.StepOutcome(done=False, detail=f"the API does not answer yet: {error.message}")
    return base.StepOutcome(done=True, detail=str(version.get("gitVersion", "")))
