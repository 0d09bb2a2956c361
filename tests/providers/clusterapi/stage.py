"""A template of the class `lab`, at a site that is the management cluster."""

from typing import Any

from gpuaas.catalog.models import Flavor, GpuPool, Site
from gpuaas.clusters.models import ClusterTemplate
from gpuaas.clusters.services import template_create, template_update, template_version_add
from gpuaas.core.crypto import encrypt_json
from tenants.actors import Actor
from tests.contracts.clusters.clusterapi_rig import SETTINGS

DOCUMENT: dict[str, Any] = {
    "releases": ["1.35.6", "1.36.3"],
    "control_plane": {"vcpus": 4, "memory_gib": 8, "disk_gib": 40, "counts": [1]},
    "pools": [{"name": "gpu", "flavors": ["h100.2"], "min": 1, "max": 8, "default": 1}],
    "addons": [{"name": "gpu-operator", "required": True}],
    "parameters": {
        "type": "object",
        "properties": {"boot_seconds": {"type": "integer", "minimum": 1, "maximum": 60}},
    },
    "settings": {**SETTINGS, "parameters": {"boot_seconds": "bootSeconds"}},
}


def offered(as_olga: Actor, site: Site, kubeconfig: str) -> ClusterTemplate:
    Site.objects.filter(pk=site.pk).update(
        driver="kubernetes", credentials=encrypt_json({"kubeconfig": kubeconfig})
    )
    pool = GpuPool.objects.get(site=site, gpu_type__slug="h100-sxm-80gb")
    size = {"gpus": 2, "vcpus": 32, "memory_gib": 360, "state": "active"}
    Flavor.objects.get_or_create(slug="h100.2", defaults={"pool": pool, "name": "2 × H100", **size})
    template = template_create(
        actor=as_olga, slug="k8s", name="Kubernetes", kind="kubernetes", site=site, driver="cluster-api"
    )
    template_version_add(actor=as_olga, template=template, document=DOCUMENT)
    return template_update(actor=as_olga, template=template, state="active", public=True)
