"""A template to order from, at the stock site with a simulated fleet behind it."""

import copy
from typing import Any

from gpuaas.catalog.models import Flavor, GpuPool, Site
from gpuaas.clusters.models import ClusterTemplate
from gpuaas.clusters.services import template_create, template_update, template_version_add
from gpuaas.providers.sandbox.dials import dials_set
from gpuaas.providers.sandbox.fleet import fleet_seed
from tenants.actors import Actor

H100 = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
L40S = {"nvidia.com/gpu.product": "NVIDIA-L40S"}
DOCUMENT: dict[str, Any] = {
    "releases": ["1.36.3", "1.34.9", "1.35.6"],
    "control_plane": {"vcpus": 4, "memory_gib": 8, "disk_gib": 40, "counts": [1, 3]},
    "pools": [
        {"name": "gpu", "label": "GPU workers", "flavors": ["h100.2"], "min": 1, "max": 8, "default": 1},
        {"name": "small", "flavors": ["l40s.1", "h100.2"], "min": 0, "max": 4},
    ],
    "addons": [
        {"name": "gpu-operator", "label": "NVIDIA GPU Operator", "required": True},
        {"name": "monitoring", "default": True},
    ],
    "parameters": {
        "type": "object",
        "properties": {
            "pod_network": {"type": "string", "enum": ["cilium", "calico"], "default": "cilium"},
            "boot_seconds": {"type": "integer", "minimum": 1, "maximum": 600},
            "mirrors": {"type": "array", "items": {"type": "string", "maxLength": 60}, "maxItems": 3},
        },
    },
}


def document(**changes: Any) -> dict[str, Any]:
    """The template's document with other parts."""
    return {**copy.deepcopy(DOCUMENT), **changes}


def stocked(site: Site) -> Site:
    """Behind the catalog's rows stand machines, and a flavor of two GPUs, as workers have."""
    fleet_seed(site.pk, slug=site.slug)
    dials_set(site.pk, confirm_ms=0, grace_ms=0, namespace_ms=0, machine_ms=0, latency_ms=0, retry_after=0)
    GpuPool.objects.filter(site=site, gpu_type__slug="h100-sxm-80gb").update(selector=H100)
    GpuPool.objects.filter(site=site, gpu_type__slug="l40s-48gb").update(selector=L40S)
    pool = GpuPool.objects.get(site=site, gpu_type__slug="h100-sxm-80gb")
    Flavor.objects.get_or_create(
        slug="h100.2",
        defaults={
            "pool": pool,
            "name": "2 × H100 SXM",
            "gpus": 2,
            "vcpus": 32,
            "memory_gib": 360,
            "state": "active",
        },
    )
    return site


def offered(as_olga: Actor, site: Site, *, slug: str = "k8s", public: bool = True) -> ClusterTemplate:
    stocked(site)
    template = template_create(
        actor=as_olga, slug=slug, name="Kubernetes", kind="kubernetes", site=site, driver="sandbox"
    )
    template_version_add(actor=as_olga, template=template, document=document())
    return template_update(actor=as_olga, template=template, state="active", public=public)
