"""Checks one node with a pod that gets one of its GPUs and runs nvidia-smi.

It waits like any pod for a free GPU, makes room for tenants' pods and never preempts one, and runs in its own namespace
with restricted Pod Security. Names derive from the check's id, so every call can be repeated.
"""

import re
import uuid
from collections.abc import Iterable
from datetime import datetime, timedelta

from gpuaas.core import clock
from gpuaas.core.errors import NotFound, Permanent
from gpuaas.providers.base import NodeCheckOutcome
from gpuaas.providers.kubeapi import demand, names, pods
from gpuaas.providers.kubeapi.claims import CLASSES, DRA, attribute
from gpuaas.providers.kubeapi.client import Api, Object

NAMESPACE = "gpuaas-checks"
PRIORITY = "gpuaas-checks"
CHECK = f"{names.DOMAIN}/node-check"
SPACE = f"/api/v1/namespaces/{NAMESPACE}"
CLAIMS = f"{DRA}/namespaces/{NAMESPACE}/resourceclaims"
DEFAULT_IMAGE = "nvidia/cuda:12.6.3-base-ubuntu24.04"
RUN_SECONDS = 300  # from when it is bound, including pulling the image
FORGOTTEN = timedelta(hours=3)
MOST_OUTPUT = 16 * 1024
COLUMNS = "index,name,uuid,driver_version,memory.total,ecc.errors.uncorrected.volatile.total"
COMMAND = ["nvidia-smi", f"--query-gpu={COLUMNS}", "--format=csv"]
_ECC = "ecc.errors.uncorrected"


def start(api: Api, node: str, check_id: uuid.UUID, *, image: str = "") -> None:
    """Raises NotFound for an unknown node, Permanent for one that offers no GPU."""
    found = api.find(f"/api/v1/nodes/{node}")
    if found is None:
        raise NotFound(f"there is no node {node} at the site")
    resource, device_class = _device(api, found)
    api.apply("/api/v1/namespaces", _namespace())
    api.apply("/apis/scheduling.k8s.io/v1/priorityclasses", _priority())
    if device_class:
        api.apply(CLAIMS, _claim(check_id, device_class))
    if api.find(_pod_path(check_id)) is None:
        _sweep(api)
        pod = _pod(found, check_id, image or DEFAULT_IMAGE, resource, with_claim=bool(device_class))
        api.create(f"{SPACE}/pods", pod)


def _sweep(api: Api) -> None:
    """Delete leftovers of a portal that is gone, or whose database was restored: no check runs that long."""
    for collection in (f"{SPACE}/pods", CLAIMS):
        for each in api.items_if_known(collection, labelSelector=CHECK):
            meta = each["metadata"]
            if clock.now() - datetime.fromisoformat(meta["creationTimestamp"]) > FORGOTTEN:
                api.delete(f"{collection}/{meta['name']}", gracePeriodSeconds="0")


def result(api: Api, check_id: uuid.UUID) -> NodeCheckOutcome:
    pod = api.find(_pod_path(check_id))
    if pod is None:
        raise NotFound("the site has no such check of a node")
    phase = (pod.get("status") or {}).get("phase", "Pending")
    if phase in demand.FINISHED:
        output = api.text(f"{_pod_path(check_id)}/log", most=MOST_OUTPUT, limitBytes=str(MOST_OUTPUT))
        return outcome(output, succeeded=phase == "Succeeded", reason=_ended(pod))
    running = bool(pod["spec"].get("nodeName"))
    waiting = pods.consumer(pod).waiting_for
    return NodeCheckOutcome(
        done=False,
        running=running,
        detail=waiting or "it is running" if running else f"waiting for a free GPU on the node: {waiting}",
    )


def end(api: Api, check_id: uuid.UUID) -> None:
    """The pod first, since it uses the claim."""
    api.delete(_pod_path(check_id), gracePeriodSeconds="0")
    api.delete(f"{CLAIMS}/{_name(check_id)}")


def outcome(output: str, *, succeeded: bool, reason: str = "") -> NodeCheckOutcome:
    """Parses nvidia-smi's output: number of GPUs, driver version, and memory errors. reason: why the pod failed."""
    lines = [[cell.strip() for cell in line.split(",")] for line in output.splitlines() if "," in line]
    heads = next((number for number, cells in enumerate(lines) if cells[0] == "index"), None)
    if not succeeded or heads is None:
        words = reason or "nvidia-smi printed no table of GPUs"
        return NodeCheckOutcome(done=True, detail=f"failed: {words}", output=output)
    columns = [re.sub(r"\s*\[.*\]", "", cell) for cell in lines[heads]]
    gpus = [dict(zip(columns, cells, strict=False)) for cells in lines[heads + 1 :] if cells[0].isdigit()]
    errors = [gpu for gpu in gpus if _is_above_zero(_of(gpu, _ECC))]
    drivers = sorted({gpu["driver_version"] for gpu in gpus if gpu.get("driver_version")})
    detail = f"{len(gpus)} GPU{'' if len(gpus) == 1 else 's'} seen, driver {', '.join(drivers) or 'unknown'}"
    if errors:
        found = ", ".join(f"{gpu.get('uuid', gpu['index'])}: {_of(gpu, _ECC)}" for gpu in errors)
        detail += f", uncorrected memory errors: {found}"
    return NodeCheckOutcome(done=True, succeeded=bool(gpus) and not errors, detail=detail, output=output)


def _device(api: Api, node: Object) -> tuple[str, str]:
    """(resource name, "") or ("", device class): how to request one GPU of the node."""
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    offered = sorted(
        name for name, amount in allocatable.items() if name.startswith("nvidia.com/") and amount != "0"
    )
    if offered:
        return ("nvidia.com/gpu" if "nvidia.com/gpu" in offered else offered[0]), ""
    name = node["metadata"]["name"]
    published = api.items_if_known(f"{DRA}/resourceslices")
    slices = [each["spec"] for each in published if each["spec"].get("nodeName") == name]
    drivers = {spec["driver"] for spec in slices}
    devices = (device for spec in slices for device in spec.get("devices") or [])
    products = {attribute(device, "productName") for device in devices} - {""}
    fitting = _classes(api.items_if_known(CLASSES), drivers, products)
    if not fitting:
        raise Permanent(f"the node {name} offers no GPU to check")
    return "", fitting[0]


def _classes(classes: Iterable[Object], drivers: set[str], products: set[str]) -> list[str]:
    """Classes that name the product, or else those that name the driver."""

    def texts(each: Object) -> str:
        selectors = each["spec"].get("selectors") or []
        return " ".join((selector.get("cel") or {}).get("expression", "") for selector in selectors)

    known = [(each["metadata"]["name"], texts(each)) for each in classes]
    by_product = [name for name, text in known if any(product in text for product in products)]
    return by_product or [name for name, text in known if any(driver in text for driver in drivers)]


def _namespace() -> Object:
    labels = {names.MANAGED_BY: names.MANAGER, "pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}}


def _priority() -> Object:
    """Below every pod without a priority class."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": PRIORITY, "labels": {names.MANAGED_BY: names.MANAGER}},
        "value": -1000,
        "preemptionPolicy": "Never",
        "description": "The portal's checks of nodes: they give way to tenants' pods.",
    }


def _claim(check_id: uuid.UUID, device_class: str) -> Object:
    request = {"name": "gpu", "exactly": {"deviceClassName": device_class}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": _name(check_id), "namespace": NAMESPACE, "labels": {CHECK: str(check_id)}},
        "spec": {"devices": {"requests": [request]}},
    }


def _pod(node: Object, check_id: uuid.UUID, image: str, resource: str, *, with_claim: bool) -> Object:
    resources: Object = {"claims": [{"name": "gpu"}]} if with_claim else {"limits": {resource: "1"}}
    here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node["metadata"]["name"]]}]}
    claims = [{"name": "gpu", "resourceClaimName": _name(check_id)}] if with_claim else []
    container = {
        "name": "nvidia-smi",
        "image": image,
        "command": COMMAND,
        "resources": resources,
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": _name(check_id),
            "labels": {names.MANAGED_BY: names.MANAGER, CHECK: str(check_id)},
        },
        "spec": {
            "containers": [container],
            "restartPolicy": "Never",
            "activeDeadlineSeconds": RUN_SECONDS,
            "priorityClassName": PRIORITY,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 0,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65534,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "tolerations": _tolerations(node),
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [here]}
                }
            },
            **({"resourceClaims": claims} if claims else {}),
        },
    }


def _tolerations(node: Object) -> list[Object]:
    """For the node's own taints: cordoned or dedicated nodes can be checked, lost ones cannot."""
    lost = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
    keys = {taint["key"] for taint in node["spec"].get("taints") or []}
    keys |= {names.GPU_TAINT, "node.kubernetes.io/unschedulable"}
    return [{"key": key, "operator": "Exists"} for key in sorted(keys) if key not in lost]


def _name(check_id: uuid.UUID) -> str:
    return f"check-{check_id}"


def _pod_path(check_id: uuid.UUID) -> str:
    return f"{SPACE}/pods/{_name(check_id)}"


def _ended(pod: Object) -> str:
    """Why a pod failed, in the kubelet's words."""
    status = pod.get("status") or {}
    states = [
        (each.get("state") or {}).get("terminated") or {} for each in status.get("containerStatuses") or []
    ]
    words = [status.get("reason", ""), status.get("message", "")]
    words += [f"{state.get('reason', '')} (exit code {state.get('exitCode')})" for state in states if state]
    return " ".join(word for word in words if word)[:300]


def _of(gpu: dict[str, str], prefix: str) -> str:
    return next((value for key, value in gpu.items() if key.startswith(prefix)), "")


def _is_above_zero(text: str) -> bool:
    """False for `[N/A]`, which means that the card has no ECC."""
    return text.isdigit() and int(text) > 0
