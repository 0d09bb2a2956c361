"""Slices of any sharing are types of their own by their size, whoever cut them and whether anything says so."""

import json

import pytest

from gpuaas.catalog.services.contracts import contracts_keep
from gpuaas.providers.base import Inventory, SoldPool
from gpuaas.providers.kubernetes.inventory.plugin import PRODUCT
from gpuaas.providers.kubernetes.inventory.sharing import GPU, HAMI
from tests.providers.kubernetes.test_inventory import L40S, MAX, MI300X, POOL, look, node

A100 = {PRODUCT: "NVIDIA-A100-SXM4-80GB", "nvidia.com/gpu.memory": "81920", POOL: "a"}
EIGHT = {"nvidia.com/gpu.count": "8"}
REGISTER = json.dumps([{"id": f"GPU-{number}", "count": 10, "devmem": 81920} for number in range(8)])
OLD_REGISTER = "".join(f"GPU-{number},10,81920,100,NVIDIA-A100,0,true:" for number in range(8))
SLICED = {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.sharing-strategy": "time-slicing"}
CPX = MI300X | {"amd.com/gpu.compute-memory-partition": "cpx_nps4"}

CUT = {
    "hami": (GPU, 80, A100 | EIGHT, "", "a100-sxm-80gb-shared-1of10"),
    "hami, by its own list": (GPU, 80, A100, REGISTER, "a100-sxm-80gb-shared-1of10"),
    "hami, by its old list": (GPU, 80, A100, OLD_REGISTER, "a100-sxm-80gb-shared-1of10"),
    "time slicing, not labelled": (
        GPU,
        40,
        A100 | {"nvidia.com/gpu.count": "4"},
        "",
        "a100-sxm-80gb-shared-1of10",
    ),
    "time slicing, labelled late": (
        GPU,
        40,
        L40S | SLICED | {"nvidia.com/gpu.count": "4"},
        "",
        "l40s-48gb-shared-1of10",
    ),
    "time slicing of some cards": (GPU, 8, L40S | SLICED | EIGHT, "", "l40s-48gb-shared-1of4"),
    "renamed, without replicas": (
        "nvidia.com/gpu.shared",
        16,
        L40S | {"nvidia.com/gpu.count": "4"},
        "",
        "l40s-48gb-shared-1of4",
    ),
    "slices of slices, not labelled": (
        "nvidia.com/mig-1g.5gb",
        28,
        {PRODUCT: "NVIDIA-A100-SXM4-40GB", "nvidia.com/mig-1g.5gb.count": "14"},
        "",
        "a100-40gb-mig-1g.5gb-shared-1of2",
    ),
    "mig single keeps to its name": (
        GPU,
        14,
        {PRODUCT: "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "nvidia.com/gpu.count": "2"},
        "",
        "a100-40gb-mig-1g.5gb",
    ),
    "whole": (GPU, 8, A100 | EIGHT, REGISTER, "a100-sxm-80gb"),
    "amd in partitions, by a label": ("amd.com/gpu", 64, CPX, "", "mi300x-oam-192gb-shared-1of8"),
    "amd in partitions, by name": ("amd.com/dpx_nps2", 16, MI300X, "", "mi300x-oam-192gb-shared-1of2"),
    "amd whole": (
        "amd.com/gpu",
        8,
        MI300X | {"amd.com/gpu.compute-memory-partition": "spx_nps1"},
        "",
        "mi300x-oam-192gb",
    ),
    "intel": (
        "gpu.intel.com/i915",
        80,
        MAX | {"gpu.intel.com/cards": "card0.card1"},
        "",
        "max-1550-128gb-shared-1of40",
    ),
    "intel, counted by nfd": (
        "gpu.intel.com/xe",
        4,
        MAX | {"gpu.intel.com/device-id.0380-0bd5.count": "2"},
        "",
        "max-1550-128gb-shared-1of2",
    ),
    "a name of the site's own": ("example.com/gpu", 16, A100 | EIGHT, "", "a100-sxm-80gb-shared-1of2"),
}


@pytest.mark.parametrize("how", CUT)
def test_more_devices_than_cards_are_shares(how: str) -> None:
    resource, devices, labels, register, slug = CUT[how]
    row = node("a", {resource: str(devices)}, labels)
    row["metadata"]["annotations"] = {HAMI: register} if register else {}
    found = look(row, gpu_resources=("example.com/gpu",))
    (pool,) = found.pools
    assert pool.kind.slug == slug
    assert pool.kind.sharing == ("shared" if "shared" in slug else "mig" if "mig" in slug else "whole")
    size = int(slug.rpartition("1of")[2]) if "1of" in slug else 1
    assert [(each.capacity, each.shares) for each in found.nodes] == [(devices, size)]


UNCLEAR = {
    "it does not divide": (GPU, 50, A100 | EIGHT, "8 cards are counted as 50 devices"),
    "nothing says the size": ("nvidia.com/gpu.shared", 16, L40S, "nothing says into how many shares"),
    "amd does not divide": ("amd.com/gpu", 12, CPX, "in the mode cpx each card is 8 devices"),
}


@pytest.mark.parametrize("how", UNCLEAR)
def test_what_does_not_divide_is_not_understood(how: str) -> None:
    resource, devices, labels, reason = UNCLEAR[how]
    found = look(node("a", {resource: str(devices)}, labels))
    assert not found.pools
    (one,) = found.unknown
    assert (one.name, one.count) == (resource, devices)
    assert reason in one.reason


def test_memory_and_cores_of_cards_are_no_gpus() -> None:
    amounts = {GPU: "80", "nvidia.com/gpumem": "655360", "nvidia.com/gpucores": "800"}
    amounts |= {"nvidia.com/gpumem-percentage": "100", "nvidia.com/priority": "1"}
    found = look(node("a", amounts, A100 | EIGHT))
    assert [pool.resource_name for pool in found.pools] == [GPU]
    assert (found.names, found.unknown) == ((GPU,), ())


def shared(replicas: int, *, cards: int = 4, name: str = "a") -> dict[str, object]:
    labels = L40S | {"nvidia.com/gpu.replicas": str(replicas), "nvidia.com/gpu.count": str(cards)}
    labels |= {"nvidia.com/gpu.sharing-strategy": "time-slicing"}
    return node(name, {"nvidia.com/gpu.shared": str(replicas * cards)}, labels)


def sold_of(seen: Inventory) -> tuple[SoldPool, ...]:
    return tuple(SoldPool(pool.kind.slug, pool.resource_name, pool.selector) for pool in seen.pools)


def test_a_node_that_is_cut_anew_changes_nothing_that_was_sold() -> None:
    sold = sold_of(look(shared(4)))
    assert [each.kind_slug for each in sold] == ["l40s-48gb-shared-1of4"]
    kept = contracts_keep(look(shared(10), sold=sold), sold)
    (pool,) = kept.inventory.pools
    assert pool.kind.slug == "l40s-48gb-shared-1of10"
    assert "workspaces that bought l40s-48gb-shared-1of4" in pool.trouble
    assert kept.breaches == {"l40s-48gb-shared-1of4": "the site has no nvidia.com/gpu.shared as it was sold"}


def test_one_node_of_two_that_is_cut_anew_closes_both_sizes() -> None:
    sold = sold_of(look(shared(4), shared(4, name="b")))
    kept = contracts_keep(look(shared(4), shared(10, name="b"), sold=sold), sold)
    pools = {pool.kind.slug: pool for pool in kept.inventory.pools}
    old, new = pools["l40s-48gb-shared-1of4"], pools["l40s-48gb-shared-1of10"]
    assert (old.resource_name, dict(old.selector)) == (sold[0].resource_name, dict(sold[0].selector))
    assert "also selects L40S 48 GB shared 1of10" in kept.breaches[old.kind.slug]
    assert new.trouble
    assert {each.kind_slug: each.capacity for each in kept.inventory.nodes} == {
        "l40s-48gb-shared-1of4": 16,
        "l40s-48gb-shared-1of10": 40,
    }


@pytest.mark.parametrize(("shares", "slug"), [(0, "l40s-48gb-shared"), (4, "l40s-48gb-shared")])
def test_what_was_sold_without_a_size_keeps_its_name(shares: int, slug: str) -> None:
    sold = (SoldPool("l40s-48gb-shared", "nvidia.com/gpu.shared", {POOL: "l40s"}, shares=shares),)
    kept = contracts_keep(look(shared(4), sold=sold), sold)
    assert [pool.kind.slug for pool in kept.inventory.pools] == [slug]
    assert not kept.breaches


def test_what_was_sold_without_a_size_has_the_one_it_had_first() -> None:
    sold = (SoldPool("l40s-48gb-shared", "nvidia.com/gpu.shared", {POOL: "l40s"}, shares=4),)
    kept = contracts_keep(look(shared(10), sold=sold), sold)
    assert [pool.kind.slug for pool in kept.inventory.pools] == ["l40s-48gb-shared-1of10"]
    assert "l40s-48gb-shared" in kept.breaches


def test_shares_of_unknown_size_are_understood_where_they_were_sold() -> None:
    sold = (SoldPool("l40s-48gb-shared", "nvidia.com/gpu.shared", {POOL: "l40s"}),)
    found = look(node("a", {"nvidia.com/gpu.shared": "16"}, L40S), sold=sold)
    assert [pool.kind.slug for pool in found.pools] == ["l40s-48gb-shared"]
    assert not found.unknown


def test_whole_cards_that_become_shares_are_no_longer_sold_as_whole() -> None:
    sold = sold_of(look(node("a", {GPU: "8"}, A100 | EIGHT)))
    kept = contracts_keep(look(node("a", {GPU: "80"}, A100 | EIGHT), sold=sold), sold)
    assert [(pool.kind.slug, bool(pool.trouble)) for pool in kept.inventory.pools] == [
        ("a100-sxm-80gb-shared-1of10", True)
    ]
    assert set(kept.breaches) == {"a100-sxm-80gb"}
