"""Cards of pools: a card that is sold in slices is one, and so is one that a site offers by two names."""

import pytest
from django.test import Client

from gpuaas.catalog.models import GpuPool, Site
from gpuaas.catalog.selectors import cards_by_site
from gpuaas.catalog.services import site_probe
from gpuaas.catalog.services.inventory import inventory_apply
from gpuaas.core import clock
from gpuaas.providers.base import DeviceKind, Inventory, ObservedNode, ObservedPool
from gpuaas.providers.kinds import Share, kind
from gpuaas.providers.sandbox.models import SandboxNode
from tenants.models import User

A100 = kind("NVIDIA-A100-SXM4-40GB", memory_mib=40960)
SLICE = kind("NVIDIA-A100-SXM4-40GB", memory_mib=40960, mig_profile="1g.5gb")
SHARED = kind("NVIDIA-L40S", memory_mib=46068, share=Share(4))


def apply(site: Site, pools: list[ObservedPool], nodes: list[ObservedNode]) -> None:
    inventory_apply(
        site=site, inventory=Inventory("1", tuple(pools), tuple(nodes)), breaches={}, at=clock.now()
    )


def pool_of(given: DeviceKind, *shares_with: DeviceKind) -> ObservedPool:
    return ObservedPool(given, given.slug, shares_with=tuple(each.slug for each in shares_with))


def node(name: str, given: DeviceKind, devices: int, *, shares: int = 1, unhealthy: int = 0) -> ObservedNode:
    return ObservedNode(name, given.slug, devices, 0, 64, 512, shares=shares, unhealthy=unhealthy)


def cards_in(pool: GpuPool, devices: int) -> tuple[float, float]:
    """Of the pool, and of so many of its devices."""
    return float(pool.counted_cards), float(pool.in_cards(devices))


def found(site: Site) -> dict[str, tuple[float, float]]:
    rows = GpuPool.objects.filter(site=site).select_related("gpu_type")
    return {pool.gpu_type.slug: cards_in(pool, pool.capacity) for pool in rows}


def test_a_simulated_fleet_has_42_gpus_though_it_counts_54_devices(attached: Site, olga: User) -> None:
    """16 + 16 + 8 and 14 slices of two more; the overview, the capacity page, the list and the page of the site agree."""
    assert site_probe(attached.pk)
    assert sum(pool.capacity for pool in GpuPool.objects.all()) == 54
    assert cards_by_site() == {attached.pk: 42}
    browser = Client()
    browser.force_login(olga)
    for path in ("/operator/", "/operator/sites/at/lab-1/", "/operator/capacity/"):
        assert "42 GPUs" in " ".join(browser.get(path).content.decode().split()), path
    assert browser.get("/operator/sites/").context["list"].rows[0].gpus == 42
    cells = [node.cells for row in browser.get("/operator/").context["rows"] for node in row.nodes]
    assert sum(map(len, cells)) == 42


def test_shares_of_a_card_are_parts_of_it(attached: Site) -> None:
    apply(attached, [pool_of(SHARED)], [node("a", SHARED, 16, shares=4), node("b", SHARED, 8, shares=8)])
    assert found(attached) == {SHARED.slug: (5, 5)}


def test_a_card_with_two_names_is_counted_with_the_one_that_can_be_used(attached: Site) -> None:
    """On one node the slices are closed, on the other the cards; and where both are open, as cards."""
    pools = [pool_of(A100, SLICE), pool_of(SLICE, A100)]
    both = [node("a", A100, 8), node("a", SLICE, 56, unhealthy=56)]
    apply(attached, pools, both)
    assert found(attached) == {A100.slug: (8, 8), SLICE.slug: (0, 8)}
    other = [node("b", A100, 2, unhealthy=2), node("b", SLICE, 14)]
    apply(attached, pools, [*both, *other])
    assert found(attached) == {A100.slug: (8, 10), SLICE.slug: (2, 10)}
    apply(attached, pools, [node("a", A100, 8), node("a", SLICE, 56)])
    assert found(attached) == {A100.slug: (8, 8), SLICE.slug: (0, 8)}


def test_a_pool_that_is_gone_has_no_cards_and_keeps_what_a_slice_was(attached: Site) -> None:
    apply(attached, [pool_of(SLICE)], [node("a", SLICE, 14)])
    apply(attached, [], [])
    pool = GpuPool.objects.get()
    assert cards_in(pool, 7) == (0, 1)


@pytest.mark.parametrize("capacity", [14, 21])
def test_cards_follow_when_a_node_is_cut_anew(attached: Site, capacity: int) -> None:
    SandboxNode.objects.filter(resource_name="nvidia.com/mig-1g.5gb").update(capacity=capacity)
    assert site_probe(attached.pk)
    pool = GpuPool.objects.get(resource_name="nvidia.com/mig-1g.5gb")
    assert cards_in(pool, 7) == (capacity / 7, 1)
