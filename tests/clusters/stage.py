"""A template to order from, at the stock site with a simulated fleet behind it."""

import copy
from typing import Any

from gpuaas.catalog.models import Flavor, GpuPool, Site
from gpuaas.clusters.models import Cluster, ClusterOperationStep, ClusterTemplate
from gpuaas.clusters.reconcile import run
from gpuaas.clusters.selectors import clusters_loaded
from gpuaas.clusters.services import (
    cluster_order,
    revocations_carry_out,
    revocations_due,
    template_create,
    template_update,
    template_version_add,
)
from gpuaas.core.clock import now
from gpuaas.providers.sandbox.dials import dials_set
from gpuaas.providers.sandbox.fleet import fleet_seed
from gpuaas.providers.sandbox.models import SandboxClusterObject
from tenants.actors import Actor
from tenants.models import Project
from tests.factories.quotas import limits_give

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


def revocations_made() -> int:
    """As the sweep and its tasks make them; how many credentials the sites have ended."""
    return sum(revocations_carry_out(cluster_id=pk) for pk in revocations_due())


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


SLIM = document(pools=DOCUMENT["pools"][:1], addons=DOCUMENT["addons"][:1])


def offered(
    as_olga: Actor, site: Site, *, public: bool = True, words: dict[str, Any] = DOCUMENT
) -> ClusterTemplate:
    stocked(site)
    template = template_create(
        actor=as_olga, slug="k8s", name="Kubernetes", kind="kubernetes", site=site, driver="sandbox"
    )
    template_version_add(actor=as_olga, template=template, document=words)
    return template_update(actor=as_olga, template=template, state="active", public=public)


RESTING = {"ready", "suspended", "failed", "deleted"}


def order(
    actor: Actor, project: Project, *, name: str = "train", gpus: int = 1, small: int = 0, **changes: Any
) -> Cluster:
    """`gpus` workers of two H100 each, `small` of one L40S."""
    pools = {"gpu": {"count": gpus}} | ({"small": {"count": small}} if small else {})
    wanted = {"release": "1.35.6", "pools": pools, **changes}
    return cluster_order(actor=actor, project=project, template="k8s", name=name, document=wanted)


def run_now(cluster: Cluster) -> Cluster:
    """One run, whenever it would have been due."""
    Cluster.objects.filter(pk=cluster.pk).update(due_at=now())
    run(cluster.pk)
    return clusters_loaded().get(pk=cluster.pk)


def settle(cluster: Cluster, *, runs: int = 40) -> Cluster:
    """Run until it rests."""
    row = cluster
    for _ in range(runs):
        row = run_now(cluster)
        if row.state in RESTING:
            return row
    steps = list(
        ClusterOperationStep.objects.filter(operation__cluster=cluster).values_list("key", "state", "detail")
    )
    raise AssertionError(f"still {row.state} after {runs} runs: {row.conditions} {steps}")


def ready(actor: Actor, project: Project, *, name: str = "train", gpus: int = 1, small: int = 0) -> Cluster:
    """Ordered and made, within generous limits."""
    limits_give(project, {"gpu:h100-sxm-80gb": None})
    cluster = settle(order(actor, project, name=name, gpus=gpus, small=small))
    assert cluster.state == "ready", cluster.trouble
    return cluster


def at_site(site: Site) -> list[tuple[str, str]]:
    """Everything that the site has of clusters, asked of the site."""
    rows = SandboxClusterObject.objects.filter(site=site.pk, tag__isnull=False)
    return sorted(rows.values_list("kind", "name"))


def workers(cluster: Cluster) -> dict[str, list[str]]:
    """By pool ("" = the control plane): the releases of its machines at the site."""
    rows = SandboxClusterObject.objects.filter(tag=cluster.pk, kind="machine", gone_at=None)
    found: dict[str, list[str]] = {}
    for facts in rows.order_by("name").values_list("facts", flat=True):
        found.setdefault(facts["pool"], []).append(facts["release"])
    return found


def in_ledger(cluster: Cluster) -> set[tuple[str, str]]:
    """What is not proved gone."""
    return set(cluster.ledger.filter(gone_at=None).values_list("kind", "name"))
