"""What a probe found becomes what may be sold."""

import uuid

from gpuaas.catalog.models import GpuPool, Node, Site
from gpuaas.core.clock import now
from quotas.models import SiteCapacity
from quotas.tasks import capacity_sync


def node(site: Site, pool: GpuPool | None, name: str, *, ready: bool = True, cordoned: bool = False) -> None:
    Node.objects.create(
        site=site,
        pool=pool,
        name=name,
        ready=ready,
        cordoned=cordoned,
        vcpus=64,
        memory_gib=512,
        observed_at=now(),
    )


def test_capacity_follows_the_probe(site: Site) -> None:
    h100, l40s = site.pools.order_by("gpu_type__slug")
    h100.healthy = 12
    h100.save()
    node(site, h100, "mixed-1")
    node(site, l40s, "mixed-1")  # the same node, with devices of two pools
    node(site, None, "cpu-1")
    node(site, h100, "broken-1", ready=False)
    node(site, h100, "cordoned-1", cordoned=True)
    Site.objects.filter(pk=site.pk).update(oversubscription_percent=150)

    capacity_sync(str(site.pk))

    sellable = dict(SiteCapacity.objects.filter(site=site).values_list("resource", "hard"))
    assert sellable == {
        "gpu:h100-sxm-80gb": 18,
        "gpu:l40s-48gb": 12,
        "vcpu": 192,
        "memory": 1536,
        "storage": None,
    }


def test_a_site_that_is_gone_is_left_alone(db: None) -> None:
    capacity_sync(str(uuid.uuid4()))
    assert not SiteCapacity.objects.exists()
