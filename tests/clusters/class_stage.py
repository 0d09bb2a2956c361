"""A ClusterClass at a real API server, with no controller behind it: what its variables are is said here, as the controllers would."""

import copy
from typing import Any

from gpuaas.catalog.models import Flavor, GpuPool, Site
from gpuaas.clusters.models import ClusterTemplate
from gpuaas.clusters.services import template_create, template_update, template_version_add
from gpuaas.core.crypto import encrypt_json
from gpuaas.core.errors import GpuaasError
from gpuaas.core.ids import uuid7
from gpuaas.providers.kubeapi.client import Api, Object
from tenants.actors import Actor
from tests.lab.fixtures import LabSite, in_the_end, until

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CLASSES = "/apis/cluster.x-k8s.io/v1beta2/namespaces/default/clusterclasses"
ANY: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
ZONE = {"type": "string", "enum": ["a", "b"], "default": "a"}
BOOT = {"type": "integer", "minimum": 1, "maximum": 60, "default": 5}


class Classes:
    """One class of a name of its own."""

    def __init__(self, lab: LabSite) -> None:
        self.lab, self.api = lab, lab.api()
        self.name = f"gpu-{uuid7().hex[-12:]}"
        _served(self.api)
        self.path = f"{CLASSES}/{self.name}"
        self.tells(zone=ZONE, bootSeconds=BOOT)

    def tells(self, *required: str, **variables: Object) -> None:
        named: Object = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "ClusterClass"}
        named["metadata"] = {"name": self.name, "namespace": "default"}
        told = [
            {
                "name": name,
                "definitions": [{"required": name in required, "schema": {"openAPIV3Schema": one}}],
            }
            for name, one in variables.items()
        ]
        ready = {"type": "VariablesReady", "status": "True", "reason": "VariablesReady"}
        in_the_end(
            lambda: self.api.apply(CLASSES, {**named, "status": {"conditions": [ready], "variables": told}})
        )

    def document(self, **parameters: Object) -> dict[str, Any]:
        return copy.deepcopy(
            {
                "releases": ["1.35.6", "1.36.3"],
                "control_plane": {"vcpus": 4, "memory_gib": 8, "disk_gib": 40, "counts": [1]},
                "pools": [{"name": "gpu", "flavors": ["h100.2"], "min": 0, "max": 8, "default": 1}],
                "parameters": {"type": "object", "properties": parameters or {"zone": ZONE}},
                "settings": {
                    "class": self.name,
                    "class_namespace": "default",
                    "worker_class": "worker",
                    "flavor_variable": "flavor",
                    "parameters": {"boot_seconds": "bootSeconds"},
                },
            }
        )

    def offered(self, olga: Actor, site: Site, *, kubeconfig: str = "") -> ClusterTemplate:
        """By the driver `cluster-api`, at `site`, which is the API server."""
        credentials = encrypt_json({"kubeconfig": kubeconfig or self.lab.kubeconfig})
        Site.objects.filter(pk=site.pk).update(driver="kubernetes", credentials=credentials)
        pool = GpuPool.objects.get(site=site, gpu_type__slug="h100-sxm-80gb")
        size = {"gpus": 2, "vcpus": 32, "memory_gib": 360, "state": "active"}
        Flavor.objects.get_or_create(slug="h100.2", defaults={"pool": pool, "name": "2 × H100", **size})
        words = {"name": "Kubernetes", "kind": "kubernetes", "driver": "cluster-api"}
        template = template_create(actor=olga, slug="k8s", site=site, **words)
        template_version_add(actor=olga, template=template, document=self.document())
        return template_update(actor=olga, template=template, state="active", public=True)


def _served(api: Api) -> None:
    """Processes that share a server find what another has made."""
    kind = "ClusterClass"
    names = {"plural": "clusterclasses", "singular": "clusterclass", "kind": kind, "listKind": f"{kind}List"}
    version = {"name": "v1beta2", "served": True, "storage": True, "schema": {"openAPIV3Schema": ANY}}
    spec = {"group": "cluster.x-k8s.io", "scope": "Namespaced", "names": names, "versions": [version]}
    made = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "clusterclasses.cluster.x-k8s.io"},
        "spec": spec,
    }
    if api.find(f"{CRDS}/clusterclasses.cluster.x-k8s.io") is None:
        in_the_end(lambda: api.apply(CRDS, made))
    until(lambda: _listed(api), "classes are served")


def _listed(api: Api) -> bool:
    """A kind that is new answers 429 until its storage is there."""
    try:
        return api.find(CLASSES) is not None
    except GpuaasError:
        return False
