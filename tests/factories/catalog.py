"""Factories of the catalog, and one stocked site for tests that only need something to rent."""

import factory
from factory.django import DjangoModelFactory

from gpuaas.catalog.models import Flavor, GpuPool, GpuType, NodeCheck, Site, StorageClass
from gpuaas.core import clock
from gpuaas.workspaces.models import AdoptionScan
from quotas.models import SiteCapacity


class SiteFactory(DjangoModelFactory[Site]):
    class Meta:
        model = Site

    slug = factory.Sequence(lambda n: f"site-{n}")
    name = factory.LazyAttribute(lambda row: row.slug)
    driver = "sandbox"


class GpuTypeFactory(DjangoModelFactory[GpuType]):
    class Meta:
        model = GpuType
        django_get_or_create = ("slug",)

    slug = "h100-sxm-80gb"
    name = "H100 SXM 80 GB"
    product = "NVIDIA-H100-80GB-HBM3"
    memory_gib = 80
    compute_capability = "9.0"
    interconnect = "NVLink"
    state = "active"


class GpuPoolFactory(DjangoModelFactory[GpuPool]):
    class Meta:
        model = GpuPool

    site = factory.SubFactory(SiteFactory)
    gpu_type = factory.SubFactory(GpuTypeFactory)
    resource_name = "nvidia.com/gpu"


class FlavorFactory(DjangoModelFactory[Flavor]):
    class Meta:
        model = Flavor

    pool = factory.SubFactory(GpuPoolFactory)
    slug = factory.Sequence(lambda n: f"flavor.{n}")
    name = factory.LazyAttribute(lambda row: row.slug)
    gpus = 1
    vcpus = 16
    memory_gib = 180
    state = "active"


def stock_site(*, h100s: int = 16, l40s: int = 8) -> Site:
    """`ber-1` with two GPU types; vCPU, memory and storage are not counted (hard null)."""
    site = SiteFactory.create(slug="ber-1")
    h100 = GpuPoolFactory.create(site=site, capacity=h100s, healthy=h100s, largest_block=8)
    l40s_type = GpuTypeFactory.create(
        slug="l40s-48gb", name="L40S 48 GB", product="NVIDIA-L40S", memory_gib=48
    )
    other = GpuPoolFactory.create(site=site, gpu_type=l40s_type, capacity=l40s, healthy=l40s, largest_block=4)
    FlavorFactory.create(pool=h100, slug="h100.1", name="H100 SXM")
    FlavorFactory.create(pool=other, slug="l40s.1", name="L40S", memory_gib=96)
    for resource, hard in (("gpu:h100-sxm-80gb", h100s), ("gpu:l40s-48gb", l40s)):
        SiteCapacity.objects.create(site=site, resource=resource, healthy=hard, hard=hard)
    for resource in ("vcpu", "memory", "storage"):
        SiteCapacity.objects.create(site=site, resource=resource, hard=None)
    return site


def check_make(site: Site) -> NodeCheck:
    """Beside it, somebody has looked what could be taken over."""
    AdoptionScan.objects.create(site=site, requested_at=clock.now())
    return NodeCheck.objects.create(site=site, node="h100-01", requested_by="olga", requested_at=clock.now())


def class_make(site: Site) -> StorageClass:
    """A storage class that is sold."""
    return StorageClass.objects.create(
        site=site, name="fast", slug="fast-1", state="active", observed_at=clock.now()
    )
