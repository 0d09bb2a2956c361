"""A template at `ber-1` whose pool `far` comes from `cloud-1`, a second simulated site."""

from typing import Any

from gpuaas.catalog.models import GpuType, Site
from gpuaas.clusters.models import Cluster, ClusterTemplate
from gpuaas.clusters.services import cluster_order
from gpuaas.providers.sandbox.dials import dials_set
from gpuaas.providers.sandbox.fleet import fleet_seed
from gpuaas.providers.sandbox.models import SandboxNode
from quotas.models import SiteCapacity
from tenants.actors import Actor
from tenants.models import Project
from tests.clusters.stage import H100, SLIM, offered, settle
from tests.factories.catalog import FlavorFactory, GpuPoolFactory, SiteFactory
from tests.factories.quotas import limits_give

GPUS = "gpu:h100-sxm-80gb"
FAR: dict[str, Any] = {"name": "far", "label": "Cloud workers", "flavors": ["far.2"], "min": 0, "max": 8}
BURST: dict[str, Any] = {**SLIM, "pools": [*SLIM["pools"], FAR], "burst": ["cloud-1"]}


def cloud_made(*, gpus: int | None = 8) -> Site:
    """`cloud-1`, which may promise so many GPUs (None = any number), with the flavor `far.2` of two."""
    cloud = SiteFactory.create(slug="cloud-1")
    fleet_seed(cloud.pk, slug=cloud.slug)
    dials_set(cloud.pk, confirm_ms=0, grace_ms=0, namespace_ms=0, machine_ms=0, latency_ms=0, retry_after=0)
    pool = GpuPoolFactory.create(
        site=cloud, gpu_type=GpuType.objects.get(slug="h100-sxm-80gb"), capacity=16, healthy=16, selector=H100
    )
    FlavorFactory.create(
        pool=pool, slug="far.2", name="2 × H100 in the cloud", gpus=2, vcpus=8, memory_gib=64
    )
    SiteCapacity.objects.create(site=cloud, resource=GPUS, healthy=gpus or 16, hard=gpus)
    for resource in ("vcpu", "memory", "storage"):
        SiteCapacity.objects.create(site=cloud, resource=resource, hard=None)
    return cloud


def burst_offered(as_olga: Actor, site: Site) -> ClusterTemplate:
    """With room in the racks for all that killed workers have begun."""
    template = offered(as_olga, site, words=BURST)
    SandboxNode.objects.update(capacity=10_000)
    return template


def order_both(
    actor: Actor, project: Project, *, name: str = "train", near: int = 1, far: int = 1
) -> Cluster:
    wanted = {"release": "1.35.6", "pools": {"gpu": {"count": near}, "far": {"count": far}}}
    return cluster_order(actor=actor, project=project, template="k8s", name=name, document=wanted)


def ready_both(actor: Actor, project: Project, *, near: int = 1, far: int = 1) -> Cluster:
    limits_give(project, {GPUS: None})
    cluster = settle(order_both(actor, project, near=near, far=far))
    assert cluster.state == "ready", cluster.trouble
    return cluster


def used_at(site: Site) -> int:
    return SiteCapacity.objects.get(site=site, resource=GPUS).used


def in_ledger_at(cluster: Cluster, site: Site | None) -> set[tuple[str, str]]:
    """What is not proved gone there; None = at its own site."""
    return set(cluster.ledger.filter(site=site, gone_at=None).values_list("kind", "name"))


def by_site(cluster: Cluster, site: Site | None) -> int:
    """GPUs that are charged there."""
    rows = cluster.holdings.filter(meter="gpu_held", ended_at=None, site=site)
    return sum(rows.values_list("quantity", flat=True))
