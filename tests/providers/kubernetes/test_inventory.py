"""From labels to pools, without a site: one GPU model is never brought to the nodes of another."""

from typing import Any

import pytest

from gpuaas.providers.base import Inventory, ObservedNode, SoldPool
from gpuaas.providers.kubeapi.client import Object
from gpuaas.providers.kubeapi.training import TRAINER
from gpuaas.providers.kubernetes.inventory import take
from gpuaas.providers.kubernetes.inventory.found import Found
from gpuaas.providers.kubernetes.inventory.owners import Holders
from gpuaas.providers.kubernetes.inventory.plugin import PRODUCT, kind_on_node
from gpuaas.providers.kubernetes.inventory.pools import pools_of
from gpuaas.providers.kubernetes.inventory.sharing import GPU
from gpuaas.providers.kubernetes.inventory.storage import CLASSES

POOL = "gpuaas.io/pool"


def found(name: str, product: str, pool: str = "") -> Found:
    labels = {PRODUCT: product, "nvidia.com/gpu.memory": "81559"} | ({POOL: pool} if pool else {})
    kind = kind_on_node(GPU, labels)
    assert kind is not None
    return Found(name, kind, GPU, 8, 0, labels)


H100, A100 = "NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-80GB"
SITES = {
    "a label for each": ([found("a", H100, "h"), found("b", A100, "a")], {POOL: "h"}),
    "one label for all": ([found("a", H100, "gpu"), found("b", A100, "gpu")], {PRODUCT: H100}),
    "two labels for one": (
        [found("a", H100, "h1"), found("b", H100, "h2"), found("c", A100)],
        {PRODUCT: H100},
    ),
    "no label": ([found("a", H100), found("b", A100)], {PRODUCT: H100}),
}


@pytest.mark.parametrize("how", SITES)
def test_the_selector_of_a_pool_means_only_its_nodes(how: str) -> None:
    given, selector = SITES[how]
    pools = {pool.kind.slug: pool for pool in pools_of(given, POOL).rows}
    assert dict(pools["h100-sxm-80gb"].selector) == selector
    assert pools["h100-sxm-80gb"].selector != pools["a100-sxm-80gb"].selector
    assert not pools["h100-sxm-80gb"].trouble


class Site:
    """An API server's answers, as far as an inventory asks; the real one is asked in test_counting.py."""

    def __init__(self, *nodes: Object, **collections: list[Object]) -> None:
        self._items = {"/api/v1/nodes": list(nodes), "/api/v1/pods": collections.get("pods", [])}
        self._items["/api/v1/namespaces"] = collections.get("namespaces", [])
        for kind in ("resourceslices", "deviceclasses", "resourceclaims"):
            self._items[f"/apis/resource.k8s.io/v1/{kind}"] = collections.get(kind, [])
        self._items[CLASSES] = collections.get("storageclasses", [])
        self._items[f"{TRAINER}/clustertrainingruntimes"] = collections.get("clustertrainingruntimes", [])

    def get(self, path: str) -> Object:
        assert path == "/version"
        return {"gitVersion": "v1.36.3"}

    def find(self, path: str) -> Object | None:
        del path
        return None

    def items(self, path: str) -> list[Object]:
        return self._items[path]

    items_if_known = items


def look(
    *nodes: Object,
    gpu_resources: tuple[str, ...] = (),
    sold: tuple[SoldPool, ...] = (),
    holders: Holders | None = None,
    **collections: list[Object],
) -> Inventory:
    api: Any = Site(*nodes, **collections)
    return take(api, pool_label=POOL, gpu_resources=gpu_resources, sold=sold, holders=holders)


def node(
    name: str,
    capacity: dict[str, str],
    labels: dict[str, str] | None = None,
    *,
    allocatable: dict[str, str] | None = None,
    taints: list[Object] | None = None,
    conditions: list[Object] | None = None,
    unschedulable: bool = False,
) -> Object:
    ready = {"type": "Ready", "status": "True"}
    return {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"taints": taints or [], "unschedulable": unschedulable},
        "status": {
            "capacity": capacity,
            "allocatable": capacity | (allocatable or {}),
            "conditions": [ready, *(conditions or [])],
        },
    }


L40S = {PRODUCT: "NVIDIA-L40S", "nvidia.com/gpu.memory": "46068", POOL: "l40s"}
MI300X = {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM", "amd.com/gpu.vram": "192G"}
MAX = {"gpu.intel.com/product": "Max_1550", "gpu.intel.com/memory.max": str(128 * 1024**3)}
SLICE = {"nvidia.com/mig-1g.5gb.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb-SHARED"} | {
    "nvidia.com/mig-1g.5gb.replicas": "2",
    "nvidia.com/mig-1g.5gb.sharing-strategy": "time-slicing",
}
A100_40 = {PRODUCT: "NVIDIA-A100-SXM4-40GB", "nvidia.com/gpu.memory": "40960"}
WAYS = {
    "renamed by the operator": ("nvidia.com/h100-big", {PRODUCT: H100}, "h100-sxm-80gb", "whole", 80),
    "renamed and shared": (
        "nvidia.com/l40s.shared",
        L40S | {"nvidia.com/l40s.replicas": "4"},
        "l40s-48gb-shared-1of4",
        "shared",
        48,
    ),
    "mps": (
        "nvidia.com/gpu",
        L40S | {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.sharing-strategy": "mps"},
        "l40s-48gb-mps-12gb",
        "shared",
        12,
    ),
    "one replica is no share": (
        "nvidia.com/gpu",
        L40S | {"nvidia.com/gpu.replicas": "1", "nvidia.com/gpu.sharing-strategy": "none"},
        "l40s-48gb",
        "whole",
        48,
    ),
    "shares of a slice": (
        "nvidia.com/mig-1g.5gb.shared",
        A100_40 | SLICE,
        "a100-40gb-mig-1g.5gb-shared-1of2",
        "shared",
        5,
    ),
    "shares of a slice, not renamed": (
        "nvidia.com/mig-1g.5gb",
        A100_40 | SLICE,
        "a100-40gb-mig-1g.5gb-shared-1of2",
        "shared",
        5,
    ),
    "whole slices beside shared cards": (
        "nvidia.com/mig-1g.5gb",
        A100_40 | {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.sharing-strategy": "time-slicing"},
        "a100-40gb-mig-1g.5gb",
        "mig",
        5,
    ),
    "single strategy, with the slice's own memory": (
        "nvidia.com/gpu",
        {PRODUCT: "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "nvidia.com/gpu.memory": "4864"},
        "a100-40gb-mig-1g.5gb",
        "mig",
        5,
    ),
    "amd": ("amd.com/gpu", MI300X, "mi300x-oam-192gb", "whole", 192),
    "intel": ("gpu.intel.com/i915", MAX, "max-1550-128gb", "whole", 128),
}


@pytest.mark.parametrize("how", WAYS)
def test_every_way_of_counting_is_a_kind_of_its_own(how: str) -> None:
    resource, labels, slug, sharing, memory = WAYS[how]
    seen = look(node("a", {resource: "8", "cpu": "64"}, labels))
    (pool,) = seen.pools
    assert (pool.resource_name, pool.kind.slug) == (resource, slug)
    assert (pool.kind.sharing, pool.kind.memory_gib) == (sharing, memory)
    assert [(each.kind_slug, each.capacity) for each in seen.nodes] == [(slug, 8)]


def test_gpus_that_do_not_say_what_they_are_are_closed_and_not_sold() -> None:
    unlabeled = node("a", {"nvidia.com/mig-7g.80gb": "1", "amd.com/gpu": "8", "nvidia.com/hostdev": "4"})
    other = node("b", {"habana.ai/gaudi": "8", "example.com/gpu": "2", "hugepages-1Gi": "8Gi"})
    seen = look(unlabeled, other, gpu_resources=("example.com/gpu",))
    assert not seen.pools
    assert seen.names == ("amd.com/gpu", "example.com/gpu", "habana.ai/gaudi", "nvidia.com/mig-7g.80gb")


def test_a_name_of_the_sites_own_is_a_gpu_where_the_operator_says_so() -> None:
    row = node("a", {"example.com/gpu": "2"}, L40S)
    assert not look(row).pools
    (pool,) = look(row, gpu_resources=("example.com/gpu",)).pools
    assert (pool.kind.slug, pool.resource_name) == ("l40s-48gb", "example.com/gpu")


def test_one_model_under_two_names_is_two_pools() -> None:
    seen = look(node("a", {GPU: "8"}, L40S), node("b", {"nvidia.com/l40s-quiet": "4"}, L40S))
    assert {pool.kind.slug: pool.resource_name for pool in seen.pools} == {
        "l40s-48gb": GPU,
        "l40s-48gb-l40s-quiet": "nvidia.com/l40s-quiet",
    }
    assert {each.kind_slug: each.capacity for each in seen.nodes} == {
        "l40s-48gb": 8,
        "l40s-48gb-l40s-quiet": 4,
    }


def test_two_models_that_nothing_tells_apart_are_in_trouble() -> None:
    """A label of the name itself says the product, and the nodes have no other that differs."""
    named = {"nvidia.com/gpu.memory": "81559", POOL: "gpu"}
    one = node("a", {GPU: "8"}, named | {PRODUCT: H100})
    other = node(
        "b", {GPU: "8", "nvidia.com/a100": "2"}, named | {PRODUCT: H100, "nvidia.com/gpu.memory": "40960"}
    )
    pools = {pool.kind.slug: pool for pool in look(one, other).pools}
    big, small = pools["h100-sxm-80gb"], pools["h100-sxm-40gb"]
    assert "one name (nvidia.com/gpu)" in big.trouble
    assert small.trouble
    assert not big.selector


def test_a_pool_whose_nodes_share_no_label_is_in_trouble() -> None:
    spaced = {PRODUCT: "NVIDIA H200", "nvidia.com/gpu.memory": "143771"}
    dashed = {PRODUCT: "NVIDIA-H200", "nvidia.com/gpu.memory": "143771"}
    (pool,) = look(node("a", {GPU: "8"}, spaced), node("b", {GPU: "8"}, dashed)).pools
    assert "share no label" in pool.trouble
    (pool,) = look(
        node("a", {GPU: "8"}, spaced | {POOL: "h200"}), node("b", {GPU: "8"}, dashed | {POOL: "h200"})
    ).pools
    assert (dict(pool.selector), pool.trouble) == ({POOL: "h200"}, "")


def only(seen: Inventory) -> ObservedNode:
    (found_,) = seen.nodes
    return found_


UNWELL: dict[str, tuple[Object, int, str]] = {
    "well": ({}, 8, ""),
    "two devices not allocatable": ({"allocatable": {GPU: "6"}}, 6, "2 of 8 L40S 48 GB cannot take work"),
    "the plugin is gone": ({"allocatable": {GPU: "0"}}, 0, "8 of 8"),
    "cordoned": ({"unschedulable": True}, 0, "cordoned"),
    "our own taint": ({"taints": [{"key": GPU, "effect": "NoSchedule"}]}, 8, ""),
    "the taint of its pool": ({"taints": [{"key": POOL, "value": "l40s", "effect": "NoSchedule"}]}, 8, ""),
    "the taint of another pool": (
        {"taints": [{"key": POOL, "value": "h100", "effect": "NoSchedule"}]},
        0,
        "gpuaas.io/pool=h100:NoSchedule",
    ),
    "a taint that only warns": ({"taints": [{"key": "team", "effect": "PreferNoSchedule"}]}, 8, ""),
    "somebody else's taint": (
        {"taints": [{"key": "team", "value": "x", "effect": "NoSchedule"}]},
        0,
        "team=x:NoSchedule",
    ),
    "marked unhealthy": (
        {"taints": [{"key": "nvidia.com/gpu.unhealthy", "effect": "NoExecute"}]},
        0,
        "nvidia.com/gpu.unhealthy:NoExecute",
    ),
    "an xid": ({"conditions": [{"type": "XidError", "status": "True", "message": "79"}]}, 0, "XidError: 79"),
    "no xid": ({"conditions": [{"type": "XidError", "status": "False"}]}, 8, ""),
    "gpus healthy": ({"conditions": [{"type": "GPUHealthy", "status": "True"}]}, 8, ""),
    "gpus not healthy": ({"conditions": [{"type": "GPUHealthy", "status": "False"}]}, 0, "GPUHealthy"),
    "gpus unhealthy": ({"conditions": [{"type": "GpuUnhealthy", "status": "True"}]}, 0, "GpuUnhealthy"),
}


@pytest.mark.parametrize("how", UNWELL)
def test_what_cannot_take_work_is_not_healthy(how: str) -> None:
    facts, healthy, reason = UNWELL[how]
    seen = only(look(node("a", {GPU: "8"}, L40S, **facts)))
    assert (seen.capacity, seen.healthy) == (8, healthy)
    assert reason in seen.reason
    assert bool(seen.reason) == bool(reason)


def test_traits_are_read_from_labels_and_pages() -> None:
    labels = {
        "topology.kubernetes.io/zone": "ber-a",
        "gpuaas.io/rack": "r7",
        "topology.kubernetes.io/rack": "other",
        "nvidia.com/gpu.clique": "c1.0",
        "gpuaas.io/numa-policy": "single-numa-node",
        "gpuaas.io/cpu-policy": "static",
        "gpuaas.io/profile": "hpc",
    }
    pages = {"hugepages-1Gi": "64Gi", "hugepages-2Mi": "1536Mi", "hugepages-64Ki": "0"}
    traits = only(look(node("a", {"cpu": "64", **pages}, labels))).traits
    assert (traits.zone, traits.rack, traits.nvlink_domain) == ("ber-a", "r7", "c1.0")
    assert (traits.numa, traits.cpus, traits.profile) == ("single-numa-node", "static", "hpc")
    assert traits.hugepages == {"1Gi": 64, "2Mi": 1}


def test_a_kind_knows_what_any_of_its_nodes_says() -> None:
    bare = node("a", {GPU: "8"}, L40S)
    telling = node("b", {GPU: "8"}, L40S | {"gpuaas.io/ecc": "true", "nvidia.com/mig.capable": "false"})
    (pool,) = look(bare, telling).pools
    assert (pool.kind.ecc, pool.kind.mig_capable) == (True, False)
