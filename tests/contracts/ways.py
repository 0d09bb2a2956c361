"""Every way in which a site counts GPUs: one node for each on the real control plane, one rack on the simulated site."""

import json
from dataclasses import dataclass, field
from pathlib import Path

from gpuaas.providers.base import DeviceKind
from gpuaas.providers.kubeapi.client import Object
from gpuaas.providers.sandbox.fleet import Rack

CARD = {"nvidia.com/gpu.replicas": "1", "nvidia.com/gpu.sharing-strategy": "none"}
SLICED = {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.sharing-strategy": "time-slicing"}
MPS = {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.sharing-strategy": "mps"}


def card(product: str, memory: int, **more: str) -> dict[str, str]:
    """The labels of GPU Feature Discovery."""
    return {"nvidia.com/gpu.product": product, "nvidia.com/gpu.memory": str(memory), **CARD, **more}


@dataclass(frozen=True)
class Way:
    """Devices of one kind on one node: the name by which the site counts them, and what they become in the catalog.

    `device_class`: they are claimed through it, by name or (where `by_claim`) by a claim that the pod brings.
    """

    slug: str
    resource: str
    devices: int = 8
    labels: dict[str, str] = field(default_factory=dict)
    product: str = ""
    device_class: str = ""
    by_claim: bool = False

    @property
    def node(self) -> str:
        return f"node-{self.slug.replace('.', '-')}"

    @property
    def pool(self) -> str:
        return f"pool-{self.slug}"


A100 = "NVIDIA-A100-SXM4-40GB"
WAYS = {
    "whole": Way("h100-sxm-80gb", "nvidia.com/gpu", labels=card("NVIDIA-H100-80GB-HBM3", 81559)),
    "mig mixed": Way("a100-40gb-mig-3g.20gb", "nvidia.com/mig-3g.20gb", labels=card(A100, 40960), devices=4),
    "mig single": Way(
        "a100-40gb-mig-1g.5gb", "nvidia.com/gpu", labels=card(f"{A100}-MIG-1g.5gb", 4864), devices=14
    ),
    "shared, renamed": Way(
        "l40s-48gb-shared-1of4", "nvidia.com/gpu.shared", labels=card("NVIDIA-L40S", 46068) | SLICED
    ),
    "shared, not renamed": Way(
        "l4-24gb-shared-1of4", "nvidia.com/gpu", labels=card("NVIDIA-L4-SHARED", 23034) | SLICED
    ),
    "mps": Way("rtx-a6000-48gb-mps-12gb", "nvidia.com/gpu", labels=card("NVIDIA-RTX-A6000", 49140) | MPS),
    "shares of slices": Way(
        "a100-40gb-mig-2g.10gb-shared-1of4",
        "nvidia.com/mig-2g.10gb.shared",
        labels=card(A100, 40960, **{"nvidia.com/mig-2g.10gb.replicas": "4"}),
    ),
    "renamed by the operator": Way("t4-16gb", "nvidia.com/t4-small", labels=card("Tesla-T4", 15360)),
    "of another vendor": Way(
        "mi300x-oam-192gb",
        "amd.com/gpu",
        labels={"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM", "amd.com/gpu.vram": "192G"},
    ),
    "class, by extended resource": Way(
        "h200-141gb-dra", "gpuaas.io/h200", product="NVIDIA H200", device_class="h200"
    ),
    "class, by its own name": Way(
        "b200-180gb-dra",
        "deviceclass.resource.kubernetes.io/b200",
        product="NVIDIA B200",
        device_class="b200",
    ),
    "class, by claim": Way(
        "gb200-192gb-dra",
        "gpuaas.io/gb200",
        product="NVIDIA GB200",
        device_class="gb200",
        by_claim=True,
    ),
}
MEMORY = {"h200": "141Gi", "b200": "180Gi", "gb200": "186Gi"}


def topology(folder: Path) -> Path:
    """For the lab."""
    path = folder / "every-way.json"
    content = {
        "pools": [_pool(way) for way in WAYS.values()],
        "device_classes": [_device_class(way) for way in WAYS.values() if way.device_class],
    }
    path.write_text(json.dumps(content))
    return path


def _pool(way: Way) -> Object:
    counted = {} if way.device_class else {way.resource: str(way.devices)}
    attributes = {
        "type": {"string": "gpu"},
        "productName": {"string": way.product},
        "cudaComputeCapability": {"version": "9.0.0"},
    }
    devices = {
        "driver": "gpu.nvidia.com",
        "count": way.devices,
        "attributes": attributes,
        "capacity": {"memory": {"value": MEMORY.get(way.device_class, "0")}},
    }
    return {
        "pool": way.pool,
        "nodes": [way.node],
        "gpu": True,
        "resources": {"cpu": "128", "memory": "1Ti", **counted},
        "labels": way.labels,
        **({"devices": devices} if way.device_class else {}),
    }


def _device_class(way: Way) -> Object:
    own = way.resource if way.resource.startswith("gpuaas.io/") else None
    cel = f"device.attributes['gpu.nvidia.com'].productName == '{way.product}'"
    return {"name": way.device_class, "cel": cel, "extended_resource": own}


def racks() -> list[Rack]:
    """For the simulated site, which has no claims."""
    return [
        Rack(
            way.node,
            1,
            DeviceKind(way.slug, way.slug, way.slug, 40, "whole"),
            way.devices,
            resource_name=way.resource,
        )
        for way in WAYS.values()
        if not way.by_claim
    ]
