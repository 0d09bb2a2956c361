"""Kueue's objects of a workspace, at a site that serves it: a ClusterQueue that holds what the quota does, with a flavor for each
pool of nodes, and a LocalQueue by which members use it.

They divide what was bought and keep nobody from more: that is the quota's part, whatever Kueue does. So they never borrow.

A site where the portal has no rights to them yet counts as one without Kueue; the check of its permissions says so.
"""

import hashlib
import re
from collections.abc import Mapping

from gpuaas.core.errors import GpuaasError, NotFound, Permanent, Unauthorized
from gpuaas.providers.base import Difference, GpuAmount, StepOutcome, WorkspaceRef, WorkspaceSpec
from gpuaas.providers.kubeapi import ending, manifests, names, namespaces, objects
from gpuaas.providers.kubeapi.client import Api, Object

VERSION = "kueue.x-k8s.io/v1beta2"
KUEUE = f"/apis/{VERSION}"
CLUSTER_QUEUES = f"{KUEUE}/clusterqueues"
FLAVORS = f"{KUEUE}/resourceflavors"
CLASSES = f"{KUEUE}/workloadpriorityclasses"
LABEL, PRIORITY = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"
# of what waits in one queue; normal is what Kueue takes for work that names no class
PRIORITIES = {"high": 1000, "normal": 0, "low": -1000}
# in each group of the quota whether anything of it was bought or not
_ALWAYS = ("cpu", "memory", "pods")
_LONGEST = 40  # of the part of a flavor's name that people read


def served(api: Api) -> bool:
    return api.find(KUEUE) is not None


def _find(api: Api, path: str) -> Object | None:
    try:
        return api.find(path)
    except Unauthorized:
        return None


def labels_in(api: Api, namespace: str, priority: str = "") -> dict[str, str]:
    """Of what the portal starts in a workspace, so that Kueue counts it like what members queue; none without a queue."""
    found = _find(api, f"{KUEUE}/namespaces/{namespace}/localqueues/{names.QUEUE}")
    if found is None:
        return {}
    return {LABEL: names.QUEUE, **(_priority(api, priority) if priority else {})}


def _priority(api: Api, priority: str) -> dict[str, str]:
    """None where the site has no such class and lets the portal make none: Kueue starts nothing that names one which is not there."""
    name = class_name(priority)
    if _find(api, f"{CLASSES}/{name}") is None and not _classes_put(api):
        return {}
    return {PRIORITY: name}


def _classes_put(api: Api) -> bool:
    """Whether the site lets the portal: its rights to them came later than those to queues, and a policy may refuse them."""
    try:
        for name, value in PRIORITIES.items():
            objects.put(api, CLASSES, _class(class_name(name), value))
    except (NotFound, Permanent, Unauthorized):
        return False
    return True


def class_name(priority: str) -> str:
    return f"{names.QUEUE}-{priority}"


def workloads(api: Api, namespace: str) -> list[Object]:
    try:
        return api.items(f"{KUEUE}/namespaces/{namespace}/workloads")
    except (NotFound, Unauthorized):
        return []


def waits_for(api: Api, job: Object) -> str:
    """Its place in the queue of its workspace, and why Kueue has not admitted it, in Kueue's words."""
    meta = job["metadata"]
    pending = sorted(
        filter(_is_pending, workloads(api, meta["namespace"])),
        key=lambda each: (-int(each["spec"].get("priority") or 0), _since(each)),
    )
    for at, each in enumerate(pending, start=1):
        if any(owner["uid"] == meta["uid"] for owner in each["metadata"].get("ownerReferences") or []):
            words = str(_condition(each, "QuotaReserved").get("message", "")) or "it has just come"
            return f"Kueue lets it wait, number {at} of {len(pending)} in its queue: {words}"
    return "it waits for Kueue"


def _is_pending(workload: Object) -> bool:
    over = any(_condition(workload, kind).get("status") == "True" for kind in ("QuotaReserved", "Finished"))
    return not over and bool(workload["spec"].get("active", True))


def _since(workload: Object) -> str:
    """When it came into the queue, for the last time."""
    evicted = _condition(workload, "Evicted")
    came = str(evicted.get("lastTransitionTime", "")) if evicted.get("status") == "True" else ""
    return came or str(workload["metadata"]["creationTimestamp"])


def _condition(workload: Object, kind: str) -> Object:
    found = (workload.get("status") or {}).get("conditions") or []
    return next((each for each in found if each["type"] == kind), {})


def ensure(api: Api, spec: WorkspaceSpec, hard: Mapping[str, str]) -> None:
    """`hard`: of the quota. Raises what the site answers, and Permanent where it has a ClusterQueue of this name already."""
    found = api.find(f"{CLUSTER_QUEUES}/{spec.external_name}")
    if found is not None and not namespaces.is_ours(found, spec.id):
        raise Permanent(
            f"the site already has a ClusterQueue {spec.external_name}, which is not this workspace's"
        )
    for collection, body in objects_of(spec, hard):
        objects.put(api, collection, body)
    _classes_put(api)


def differences(api: Api, spec: WorkspaceSpec, hard: Mapping[str, str]) -> list[Difference]:
    """What `ensure` would change, at a site that serves it. None while Kueue does not answer: the quota is compared all the same."""
    found: list[Difference] = []
    try:
        for collection, body in objects_of(spec, hard):
            present = api.find(f"{collection}/{body['metadata']['name']}")
            found += objects.compare(api, collection, body, present, step="quota")
    except GpuaasError:
        return []
    return found


def removed(api: Api, ref: WorkspaceRef) -> StepOutcome:
    """Of a workspace whose namespace is gone, so that nothing uses it; its flavors are the site's and stay."""
    path = f"{CLUSTER_QUEUES}/{ref.external_name}"
    found = _find(api, path)
    if found is None or not namespaces.is_ours(found, ref.id):
        return StepOutcome(done=True, detail="nothing of it is left at the site")
    if "deletionTimestamp" not in found["metadata"]:
        api.delete(path, {"preconditions": {"uid": found["metadata"]["uid"]}})
    elif ending.is_overdue(found):
        api.merge(path, {"metadata": {"uid": found["metadata"]["uid"], "finalizers": None}})
    return StepOutcome(done=False, detail="Kueue is removing its queue")


def objects_of(spec: WorkspaceSpec, hard: Mapping[str, str]) -> list[tuple[str, Object]]:
    """Each with its collection, in the order in which they are written."""
    queues = f"{KUEUE}/namespaces/{spec.external_name}/localqueues"
    flavors = {flavor_name(gpu): dict(gpu.selector) for gpu in spec.gpus}
    made = [(FLAVORS, _flavor(name, labels)) for name, labels in {names.QUEUE: {}, **flavors}.items()]
    return [
        *made,
        (CLUSTER_QUEUES, _object(spec, "ClusterQueue", spec.external_name, _cluster_queue(spec, hard))),
        (queues, _object(spec, "LocalQueue", names.QUEUE, {"clusterQueue": spec.external_name})),
    ]


def flavor_name(gpu: GpuAmount) -> str:
    """The same for all workspaces with GPUs of the pool: people read it where they wait for one."""
    full = names.selector_text(gpu.selector) or gpu.resource_name
    read = "-".join(gpu.selector.values()) or gpu.resource_name.rpartition("/")[2]
    slug = re.sub(r"[^a-z0-9]+", "-", read.lower())[:_LONGEST].strip("-")
    return f"{names.QUEUE}-{slug}-{hashlib.sha256(full.encode()).hexdigest()[:8]}"


def _cluster_queue(spec: WorkspaceSpec, hard: Mapping[str, str]) -> Object:
    """A resource that is in no group was not bought, and what asks for it waits."""
    left = {
        name: amount
        for key, amount in hard.items()
        if (name := _resource(key)) and (amount != "0" or name in _ALWAYS)
    }
    groups: dict[str, dict[str, str]] = {}
    for gpu in spec.gpus:
        for name in sorted(filter(None, map(_resource, manifests.charged(gpu)))):
            if name in left:
                groups.setdefault(flavor_name(gpu), {})[name] = left.pop(name)
    return {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": spec.external_name}},
        "stopPolicy": "HoldAndDrain" if spec.suspended else "None",
        "resourceGroups": [
            _group(flavor, amounts) for flavor, amounts in {names.QUEUE: left, **groups}.items()
        ],
    }


def _resource(key: str) -> str:
    """What pods ask for, by the key of the quota that limits it; "" for other keys."""
    name = key.removeprefix("requests.")
    return name if key == "pods" or (name != key and name != "storage") else ""


def _group(flavor: str, amounts: Mapping[str, str]) -> Object:
    quotas = [{"name": name, "nominalQuota": amount} for name, amount in sorted(amounts.items())]
    return {"coveredResources": sorted(amounts), "flavors": [{"name": flavor, "resources": quotas}]}


def _flavor(name: str, labels: Mapping[str, str]) -> Object:
    metadata = {"name": name, "labels": {names.MANAGED_BY: names.MANAGER}}
    body = {"nodeLabels": dict(labels)} if labels else {}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ResourceFlavor",
        "metadata": metadata,
        "spec": body,
    }


def _class(name: str, value: int) -> Object:
    metadata = {"name": name, "labels": {names.MANAGED_BY: names.MANAGER}}
    about = "Jobs of the portal have it by their priority, and members may name it; nothing is preempted."
    kind = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass", "metadata": metadata}
    return {**kind, "value": value, "description": about}


def _object(spec: WorkspaceSpec, kind: str, name: str, body: Object) -> Object:
    metadata: Object = {
        "name": name,
        "labels": {names.MANAGED_BY: names.MANAGER, names.WORKSPACE: str(spec.id)},
    }
    if kind == "LocalQueue":
        metadata["namespace"] = spec.external_name
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": metadata, "spec": body}
