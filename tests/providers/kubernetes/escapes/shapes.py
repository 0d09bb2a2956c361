"""What all tables share: the shape of an escape and the objects of which escapes are made."""

from dataclasses import dataclass, field
from typing import Any

from gpuaas.providers.kubeapi.client import Object
from tests.contracts.rigs import pod

CORE, APPS, BATCH = "/api/v1", "/apis/apps/v1", "/apis/batch/v1"
DRA, RBAC = "/apis/resource.k8s.io/v1", "/apis/rbac.authorization.k8s.io/v1"
NETWORK, POLICY = "/apis/networking.k8s.io/v1", "/apis/policy/v1"
GPU = {"nvidia.com/gpu": "1"}
CPU = {"cpu": "1"}
VISIBLE = "NVIDIA_VISIBLE_DEVICES"
EXTENDED = "resource.kubernetes.io/extended-resource-claim"

OURS = "belongs? to the portal"
NO_RIGHT = " cannot "
DEVICES = "ask for GPUs by resources.limits"


@dataclass(frozen=True)
class Escape:
    """`path` below the namespace; `{ns}` in it makes it a whole path. verb: create, merge or delete."""

    what: str
    words: str
    path: str
    body: Object = field(default_factory=dict)
    verb: str = "create"


def container(**more: Any) -> Object:
    return {"name": "main", "image": "cuda", **more}


def a_pod(limits: dict[str, str] | None = None, *, annotations: Object | None = None, **spec: Any) -> Object:
    made = pod("escape", limits or CPU, **spec)
    made["metadata"]["annotations"] |= annotations or {}
    return made


def meta(name: str = "escape", /, **more: Any) -> Object:
    return {"metadata": {"name": name, **more}}


def owner(kind: str, api: str, *, controller: bool = False, name: str = "gpuaas") -> Object:
    uid = "6b4f9d3e-3d3b-4d53-9c62-7d8d8a1f0a11"
    return {"apiVersion": api, "kind": kind, "name": name, "uid": uid, "controller": controller}


def claim(device_class: str = "h200", **request: Any) -> Object:
    exactly = {"deviceClassName": device_class, **request}
    return {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
