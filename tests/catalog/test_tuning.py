"""Flavors that need tuned nodes, and offers that are chosen by attributes."""

from typing import Any

import pytest

from gpuaas.catalog.models import Flavor, GpuPool, GpuType, Site
from gpuaas.catalog.offers import gives
from gpuaas.catalog.selectors import flavors_for
from gpuaas.catalog.services import flavor_create, flavor_publish, gpu_type_publish, pool_publish, site_probe
from gpuaas.core.errors import Conflict, Invalid
from gpuaas.providers.base import NodeTraits
from gpuaas.providers.sandbox.fleet import A100, Rack, fleet_seed, node_set
from gpuaas.providers.sandbox.models import SandboxNode
from quotas.models import SiteCapacity
from quotas.tasks import capacity_sync
from tenants.actors import Actor

BASE: dict[str, Any] = {"slug": "tuned", "name": "Tuned", "gpus": 2, "vcpus": 32, "memory_gib": 256}
TUNED: dict[str, Any] = {
    "hugepages_size": "1Gi",
    "hugepages_gib": 32,
    "exclusive_cpus": True,
    "sysctls": ["net.core.somaxconn", "kernel.shm_rmid_forced"],
    "profile": "hpc",
}


def pool_of(slug: str) -> GpuPool:
    return GpuPool.objects.select_related("site", "gpu_type").get(gpu_type__slug=slug)


@pytest.fixture
def h100(attached: Site) -> GpuPool:
    site_probe(attached.pk)
    return pool_of("h100-sxm-80gb")


@pytest.fixture
def sold(h100: GpuPool, as_olga: Actor) -> list[Flavor]:
    del h100
    pools = GpuPool.objects.select_related("gpu_type", "site")
    return [pool_publish(actor=as_olga, pool=each) for each in pools]


def slugs(actor: Actor, **wanted: Any) -> set[str]:
    return {flavor.slug for flavor in flavors_for(actor=actor, **wanted)}


def test_what_every_node_has_can_be_sold(h100: GpuPool, as_olga: Actor, as_alice: Actor) -> None:
    made = flavor_create(actor=as_olga, pool=h100, **BASE, **TUNED)
    gpu_type_publish(actor=as_olga, gpu_type=h100.gpu_type)
    flavor_publish(actor=as_olga, flavor=made)
    (offer,) = flavors_for(actor=as_alice)
    assert gives(offer) == [
        "2 × H100 SXM 80 GB",
        "32 vCPU, exclusive cores",
        "256 GiB memory, of it 32 GiB as hugepages of 1 GiB",
        "pods may set net.core.somaxconn, kernel.shm_rmid_forced",
        "nodes with the profile hpc",
        "GPUs, cores and memory of a pod are on one NUMA node",
        "pods can be put into one rack",
    ]


REFUSED: dict[str, tuple[str, dict[str, Any]]] = {
    "more pages than a node has": ("hugepages_gib", {"hugepages_gib": 65}),
    "pages of a size that is not there": ("hugepages_gib", {"hugepages_size": "2Mi"}),
    "nothing but pages": ("hugepages_gib", {"hugepages_gib": 32, "memory_gib": 32}),
    "pages without a size": ("hugepages_gib", {"hugepages_size": ""}),
    "a size without pages": ("hugepages_gib", {"hugepages_gib": 0}),
    "pages that are none": ("hugepages_size", {"hugepages_size": "3Gi"}),
    "another profile": ("profile", {"profile": "web"}),
    "a profile that is no label": ("profile", {"profile": "a b"}),
    "a sysctl of the whole node": ("sysctls", {"sysctls": ["vm.swappiness"]}),
    "a sysctl that is none": ("sysctls", {"sysctls": ["net.core.somaxconn=1"]}),
    "a sysctl with a star": ("sysctls", {"sysctls": ["net.*"]}),
    "a sysctl twice": ("sysctls", {"sysctls": ["kernel.sem", "kernel.sem"]}),
    "a sysctl as a number": ("sysctls", {"sysctls": [1]}),
    "sysctls as text": ("sysctls", {"sysctls": "kernel.sem"}),
    "part of a node as a whole one": ("whole_node", {"whole_node": True}),
    "a wish that there is not": ("turbo", {"turbo": True}),
}


@pytest.mark.parametrize("how", REFUSED)
def test_what_a_node_lacks_is_refused_beside_its_field(how: str, h100: GpuPool, as_olga: Actor) -> None:
    field, changes = REFUSED[how]
    with pytest.raises(Invalid) as caught:
        flavor_create(actor=as_olga, pool=h100, **{**BASE, **TUNED, **changes})
    assert field in caught.value.fields
    assert not Flavor.objects.exists()


def test_one_node_that_lacks_it_is_enough(h100: GpuPool, as_olga: Actor) -> None:
    made = flavor_create(actor=as_olga, pool=h100, **BASE, exclusive_cpus=True)
    gpu_type_publish(actor=as_olga, gpu_type=h100.gpu_type)
    SandboxNode.objects.filter(name="h100-02").update(traits={})
    site_probe(h100.site_id)
    with pytest.raises(Invalid, match="h100-02"):
        flavor_publish(actor=as_olga, flavor=made)


def test_a_whole_node_is_all_of_its_gpus(h100: GpuPool, as_olga: Actor) -> None:
    made = flavor_create(actor=as_olga, pool=h100, **{**BASE, "gpus": 8}, whole_node=True)
    assert gives(made)[0] == "a whole node of 8 × H100 SXM 80 GB"


def test_attributes_choose(sold: list[Flavor], as_bob: Actor, as_olga: Actor) -> None:
    h100, a100, l40s = "h100-sxm-80gb.1", "a100-sxm-80gb.1", "l40s-48gb.1"
    cut = "a100-40gb-mig-1g.5gb.1"
    assert slugs(as_bob, ecc=True) == {h100, a100, l40s, cut}
    assert slugs(as_bob, ecc=False) == set()
    assert slugs(as_bob, mig_capable=True) == {h100, a100}
    assert slugs(as_bob, mig_capable=False) == {l40s, cut}
    assert slugs(as_bob, same_numa=True) == {h100}
    assert slugs(as_bob, same_rack=True) == {h100, a100}
    assert slugs(as_bob, nvlink_domain=True) == set()
    assert slugs(as_bob, nvlink_domain=False) == {h100, a100, l40s, cut}
    assert slugs(as_bob, whole_node=True) == set()
    assert slugs(as_bob, memory_gib_min=48, interconnect="nvlink", same_rack=True, ecc=True) == {h100, a100}
    assert slugs(as_bob, compute_capability_min="9") == {h100}
    GpuType.objects.filter(slug="l40s-48gb").update(compute_capability="12.0", ecc=None)
    assert slugs(as_bob, compute_capability_min="9.0") == {h100, l40s}, "12 is more than 9"
    assert l40s not in slugs(as_bob, ecc=True) | slugs(as_bob, ecc=False), "nobody says"


def test_one_node_outside_takes_the_promise_away(sold: list[Flavor], attached: Site, as_bob: Actor) -> None:
    fleet_seed(attached.pk, racks=[Rack("odd", 1, A100, 8, traits=NodeTraits(nvlink_domain="c1"))])
    site_probe(attached.pk)
    assert slugs(as_bob, same_rack=True) == {"h100-sxm-80gb.1"}
    assert slugs(as_bob, nvlink_domain=True) == {"a100-sxm-80gb.1"}


def test_what_cannot_be_told_apart_is_not_sold(h100: GpuPool, as_olga: Actor, as_alice: Actor) -> None:
    trouble = "the site counts H100 and A100 by one name"
    GpuPool.objects.filter(pk=h100.pk).update(trouble=trouble)
    h100.refresh_from_db()
    with pytest.raises(Conflict, match=r"gpuaas\.io/pool="):
        pool_publish(actor=as_olga, pool=h100)
    assert GpuType.objects.get(pk=h100.gpu_type_id).state == "draft", "all or nothing"
    GpuPool.objects.filter(pk=h100.pk).update(trouble="")
    h100.refresh_from_db()
    pool_publish(actor=as_olga, pool=h100)
    assert len(slugs(as_alice)) == 1
    GpuPool.objects.filter(pk=h100.pk).update(trouble=trouble)
    assert not slugs(as_alice), "once it cannot be told apart it is asked for no more"
    assert len(slugs(as_olga, drafts=True)) == 1


def test_what_is_cut_from_the_same_cards_is_sold_in_one_shape(h100: GpuPool, as_olga: Actor) -> None:
    other = pool_of("a100-sxm-80gb")
    GpuPool.objects.filter(pk=h100.pk).update(shares_with=["a100-sxm-80gb"])
    GpuPool.objects.filter(pk=other.pk).update(shares_with=["h100-sxm-80gb"])
    pool_publish(actor=as_olga, pool=pool_of("h100-sxm-80gb"))
    with pytest.raises(Conflict, match=r"h100-sxm-80gb\.1"):
        pool_publish(actor=as_olga, pool=pool_of("a100-sxm-80gb"))


def test_sick_devices_lower_what_is_sold_at_once(h100: GpuPool) -> None:
    node_set(h100.site_id, name="h100-01", unhealthy=3, reason="3 of 8 with Xid 79")
    site_probe(h100.site_id)
    h100.refresh_from_db()
    assert (h100.capacity, h100.healthy, h100.largest_block) == (16, 13, 8)
    capacity_sync(str(h100.site_id))
    assert SiteCapacity.objects.get(resource="gpu:h100-sxm-80gb").hard == 13


def test_a_gpu_type_learns_what_the_site_says_later(h100: GpuPool) -> None:
    GpuType.objects.filter(slug="h100-sxm-80gb").update(ecc=None, interconnect="", name="Ours")
    site_probe(h100.site_id)
    found = GpuType.objects.get(slug="h100-sxm-80gb")
    assert (found.ecc, found.interconnect, found.name) == (True, "NVLink", "Ours")
