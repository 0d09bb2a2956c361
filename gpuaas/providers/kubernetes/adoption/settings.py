"""Finds settings of running pods that the guards would refuse: the pods were created before the guards applied."""

import re
from collections.abc import Iterator, Mapping, Sequence

from gpuaas.providers.base import NO_DEVICE, SITE_VARIABLES, WorkspaceSpec
from gpuaas.providers.kubeapi import demand, names
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.providers.kubeapi.guards import devices, security
from gpuaas.providers.kubeapi.guards.pods import DEFAULT_SCHEDULER

HANDS_OUT = re.compile(devices.ANNOTATIONS)
NODES_OWN = re.compile(
    r"node\.kubernetes\.io/(not-ready|unreachable|memory-pressure|disk-pressure|pid-pressure)"
)
SIMPLE_VOLUMES = frozenset({"name", *security.VOLUMES.split()})


def forbidden(
    pod: Object,
    spec: WorkspaceSpec,
    nodes: Mapping[str, Object],
    *,
    ceiling: int,
    schedulers: Sequence[str] = (),
) -> Iterator[str]:
    """Why a pod like this one would be refused, in words. Pod Security's part comes from the site itself.

    `ceiling`: the highest priority that a pod may have. `schedulers`: those it may name besides the default one.
    """
    bought = {gpu.resource_name: gpu for gpu in spec.gpus}
    asked = demand.devices(pod)
    for name in sorted(asked.keys() - bought.keys()):
        yield f"requests {name}, which would not be bought"
    yield from _off_its_pool(pod, spec, nodes)
    body = pod["spec"]
    if body.get("schedulerName", DEFAULT_SCHEDULER) not in {DEFAULT_SCHEDULER, *schedulers}:
        yield f"was placed by another scheduler ({body['schedulerName']})"
    if body.get("priority", 0) > ceiling:
        yield f"has the priority {body['priority']}, which evicts other tenants' pods"
    if str(body.get("serviceAccountName") or "").startswith(names.MEMBER_PREFIXES):
        yield f"runs as {body['serviceAccountName']}, a name that is reserved for members' accounts"
    if "nvidia" in str(body.get("runtimeClassName") or "") and not asked:
        yield "has an NVIDIA runtime class but requests no GPU"
    yield from _device_variables(body, has_gpu=bool(asked))
    for key in sorted((pod["metadata"].get("annotations") or {}).keys()):
        if HANDS_OUT.search(key):
            yield f"has the annotation {key}, which hands out devices"
    yield from _tolerations(body, spec)
    yield from _volumes(body)
    if _foreign_affinity(body, pod["metadata"]["namespace"]):
        yield "has affinity to pods of other namespaces"
    foreign = [name for name in pod["metadata"].get("finalizers") or [] if "kubernetes.io" not in name]
    if foreign:
        yield f"has the finalizer {foreign[0]}, so it may never end"


def hidden_variables(api: Api, namespace: str) -> Iterator[tuple[str, str]]:
    """ConfigMaps with device variables, which pods could use as their environment. Secrets are not read."""
    for each in api.items(f"/api/v1/namespaces/{namespace}/configmaps"):
        for key in sorted((each.get("data") or {}).keys()):
            if key in SITE_VARIABLES:
                yield f"ConfigMap/{each['metadata']['name']}", f"contains {key}: delete the key"


def _off_its_pool(pod: Object, spec: WorkspaceSpec, nodes: Mapping[str, Object]) -> Iterator[str]:
    node = pod["spec"].get("nodeName", "")
    labels = nodes.get(node, {}).get("metadata", {}).get("labels") or {}
    asked = demand.devices(pod)
    for gpu in spec.gpus:
        wrong = [key for key, value in gpu.selector.items() if labels.get(key) != value]
        if node and gpu.resource_name in asked and wrong:
            yield f"runs on {node}, outside the pool of what would be bought ({names.selector_text(gpu.selector)})"


def _device_variables(body: Object, *, has_gpu: bool) -> Iterator[str]:
    kinds = ("containers", "initContainers", "ephemeralContainers")
    for container in (each for kind in kinds for each in body.get(kind) or []):
        for entry in container.get("env") or []:
            if entry["name"] in SITE_VARIABLES and (has_gpu or entry.get("value") not in NO_DEVICE):
                yield f"sets {entry['name']} in {container['name']}"


def _tolerations(body: Object, spec: WorkspaceSpec) -> Iterator[str]:
    bought = {names.GPU_TAINT, *(gpu.resource_name for gpu in spec.gpus)}
    pools = {(key, value) for gpu in spec.gpus for key, value in gpu.selector.items()}
    for each in body.get("tolerations") or []:
        key = each.get("key", "")
        own = each.get("operator", "Equal") == "Equal" and (key, each.get("value", "")) in pools
        if key not in bought and not own and not NODES_OWN.fullmatch(key):
            yield f"tolerates {key or 'every taint'}, so it may run on other tenants' nodes"


def _volumes(body: Object) -> Iterator[str]:
    for volume in body.get("volumes") or []:
        for kind in sorted(volume.keys() - SIMPLE_VOLUMES):
            yield f"mounts a volume of the kind {kind} ({volume['name']})"


def _foreign_affinity(body: Object, namespace: str) -> bool:
    affinity = body.get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(kind) or {}
        terms = list(rules.get("requiredDuringSchedulingIgnoredDuringExecution") or [])
        preferred = rules.get("preferredDuringSchedulingIgnoredDuringExecution") or []
        terms += [weighted["podAffinityTerm"] for weighted in preferred]
        for term in terms:
            if "namespaceSelector" in term or set(term.get("namespaces") or []) - {namespace}:
                return True
    return False
