"""Whose the devices of a site are, and which of them nobody understands: each is counted once, and the sum is what the site says."""

import uuid
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuaas.providers.base import Inventory, SoldPool, Unknown
from gpuaas.providers.kubeapi.client import Object
from gpuaas.providers.kubernetes.inventory.plugin import PRODUCT
from gpuaas.providers.kubernetes.inventory.sharing import GPU
from tests.providers.kubernetes.test_dra_inventory import device, device_class, published
from tests.providers.kubernetes.test_inventory import L40S, POOL, look, node

OURS, LEFT = uuid.UUID(int=1), uuid.UUID(int=2)
SPACES: list[Object] = [
    {"metadata": {"name": "gpu-00000001-train", "labels": {"gpuaas.io/workspace": str(OURS)}}},
    {"metadata": {"name": "old-lab", "labels": {"gpuaas.io/workspace": str(OURS)}}},  # adopted
    {"metadata": {"name": "vc-1", "labels": {"gpuaas.io/virtual-cluster": str(OURS)}}},
    {"metadata": {"name": "gpu-00000002-gone", "labels": {"gpuaas.io/workspace": str(LEFT)}}},
    {"metadata": {"name": "gpu-00000003-spoofed", "labels": {"team": str(OURS)}}},
    {"metadata": {"name": "others"}},
    {"metadata": {"name": "gpuaas-checks"}},
]
HELD_BY_US = ("gpu-00000001-train", "old-lab", "vc-1", "gpuaas-checks")
HELD_BY_OTHERS = ("gpu-00000002-gone", "gpu-00000003-spoofed", "others", "a namespace that went meanwhile")


def pod(space: str, count: int, *, on: str = "a", name: str = GPU, phase: str = "Running") -> Object:
    asked = {"resources": {"limits": {name: str(count)}}}
    return {
        "metadata": {"name": "p", "namespace": space},
        "spec": {"nodeName": on, "containers": [asked]} if on else {"containers": [asked]},
        "status": {"phase": phase},
    }


def seen(*nodes: Object, **collections: Any) -> Inventory:
    return look(*nodes, namespaces=SPACES, holders=lambda: frozenset({OURS}), **collections)


@pytest.mark.parametrize(
    ("space", "others"), [*((each, 0) for each in HELD_BY_US), *((each, 2) for each in HELD_BY_OTHERS)]
)
def test_ours_is_what_is_in_our_books(space: str, others: int) -> None:
    """A label of ours is not enough: another portal at the same site has it, too."""
    (row,) = seen(node("a", {GPU: "8"}, L40S), pods=[pod(space, 2)]).nodes
    assert (row.capacity, row.allocated, row.others, row.free) == (8, 2, others, 6)


def test_without_books_the_label_decides() -> None:
    pods = [pod("gpu-00000002-gone", 2), pod("others", 1)]
    (row,) = look(node("a", {GPU: "8"}, L40S), namespaces=SPACES, pods=pods).nodes
    assert (row.allocated, row.others) == (3, 1)


@pytest.mark.parametrize("facts", [{"on": ""}, {"phase": "Succeeded"}, {"phase": "Failed"}])
def test_what_holds_nothing_is_nobodys(facts: dict[str, str]) -> None:
    (row,) = seen(node("a", {GPU: "8"}, L40S), pods=[pod("others", 2, **facts)]).nodes
    assert (row.allocated, row.others) == (0, 0)


def claim(space: str, name: str, *devices: str, **facts: bool) -> Object:
    results = [{"driver": "gpu.nvidia.com", "pool": "c", "device": each, **facts} for each in devices]
    status = {"allocation": {"devices": {"results": results}}}
    return {"metadata": {"name": name, "namespace": space}, "status": status}


def test_claimed_devices_are_others_likewise() -> None:
    """One of ours, one of others, one that both have, and one that is only watched."""
    claims = [
        claim("gpu-00000001-train", "one", "gpu-0", "gpu-1"),
        claim("others", "two", "gpu-1", "gpu-2"),
        claim("others", "three", "gpu-3", adminAccess=True),
    ]
    devices = [device(f"gpu-{number}", "NVIDIA-L40S") for number in range(4)]
    found = seen(
        node("c", {}, {POOL: "l40s"}),
        resourceslices=[published(*devices, pool="c")],
        deviceclasses=[device_class("l40s", "device.driver == 'gpu.nvidia.com'")],
        resourceclaims=claims,
    )
    (row,) = found.nodes
    assert (row.capacity, row.allocated, row.others, row.free) == (4, 3, 2, 1)


def test_others_that_use_a_second_name_of_sold_gpus_have_them() -> None:
    sold = (SoldPool("l40s-48gb", GPU, {POOL: "l40s"}),)
    rows = seen(
        node("a", {GPU: "8", "nvidia.com/zz": "8"}, L40S | {"nvidia.com/gpu.count": "8"}),
        pods=[pod("others", 3, name="nvidia.com/zz"), pod("gpu-00000001-train", 1)],
        sold=sold,
    ).nodes
    row = next(each for each in rows if each.kind_slug == "l40s-48gb")
    assert (row.allocated, row.others, row.free) == (4, 3, 4)


UNKNOWN = {
    "no product": (
        {"nvidia.com/gpu": "8"},
        {},
        "nvidia.com/gpu",
        8,
        "no label of the node says which product",
    ),
    "a name of nobody": ({"example.com/gpu": "4"}, L40S, "example.com/gpu", 4, "Additional GPU resources"),
    "volcano": (
        {"volcano.sh/vgpu-number": "80"},
        L40S,
        "volcano.sh/vgpu-number",
        80,
        "does not know who counts",
    ),
    "another vendor": (
        {"huawei.com/Ascend910": "8"},
        {},
        "huawei.com/Ascend910",
        8,
        "does not know who counts",
    ),
}


@pytest.mark.parametrize("how", UNKNOWN)
def test_what_is_not_understood_is_told_with_its_reason(how: str) -> None:
    amounts, labels, name, count, reason = UNKNOWN[how]
    found = seen(node("a", amounts | {"cpu": "64"}, labels))
    (one,) = found.unknown
    assert (one.place, one.name, one.count) == ("a", name, count)
    assert reason in one.reason
    assert not found.pools
    assert name in found.names, "it is closed as what nobody bought"


@pytest.mark.parametrize(
    "name",
    [
        "volcano.sh/vgpu-memory",
        "aliyun.com/gpu-mem",
        "example.com/gpu-core.percentage",
        "rdma/hca",
        "smarter-devices/fuse",
        "gpu.intel.com/i915_monitoring",
        "gpu.intel.com/millicores",
        "nvidia.com/hostdev",
    ],
)
def test_what_is_no_gpu_is_not_told(name: str) -> None:
    assert seen(node("a", {name: "8"}, L40S)).unknown == ()


def test_claimable_gpus_without_a_class_or_a_name_are_told() -> None:
    nameless = {"name": "x", "attributes": {"type": {"string": "gpu"}}}
    found = seen(
        node("c", {}), resourceslices=[published(device("gpu-0", "NVIDIA-L40S"), nameless, pool="c")]
    )
    assert {(each.place, each.count) for each in found.unknown} == {("c", 1)}
    assert sorted(each.reason[:20] for each in found.unknown) == [
        "no device class sele",
        "the driver publishes",
    ]
    assert all(isinstance(each, Unknown) for each in found.unknown)


boxes = st.fixed_dictionaries(
    {
        "amounts": st.dictionaries(
            st.sampled_from(
                [GPU, "nvidia.com/quiet", "amd.com/gpu", "example.com/gpu", "volcano.sh/vgpu-number"]
            ),
            st.integers(0, 16),
        ),
        "gone": st.integers(0, 4),
        "labels": st.sampled_from([{}, L40S, L40S | {PRODUCT: "NVIDIA-H100-80GB-HBM3"}]),
        "cordoned": st.booleans(),
    }
)
users = st.lists(
    st.tuples(
        st.sampled_from([*HELD_BY_US, *HELD_BY_OTHERS]),
        st.integers(1, 4),
        st.integers(0, 2),
        st.sampled_from([GPU, "amd.com/gpu", "nvidia.com/quiet"]),
    ),
    max_size=6,
)


@settings(deadline=None)
@given(rows=st.lists(boxes, max_size=3), pods=users)
def test_each_device_is_counted_once_and_the_sum_is_what_the_site_says(
    rows: list[Any], pods: list[Any]
) -> None:
    nodes = [
        node(
            f"n{number}",
            {name: str(count) for name, count in row["amounts"].items()},
            row["labels"],
            allocatable={name: str(max(count - row["gone"], 0)) for name, count in row["amounts"].items()},
            unschedulable=row["cordoned"],
        )
        for number, row in enumerate(rows)
    ]
    found = seen(*nodes, pods=[pod(space, count, on=f"n{on}", name=name) for space, count, on, name in pods])
    said = Counter({f"n{number}": sum(row["amounts"].values()) for number, row in enumerate(rows)})
    told = Counter[str]()
    for each in found.nodes:
        told[each.name] += each.capacity
        assert 0 <= each.others <= each.allocated
        assert 0 <= each.free <= each.healthy <= each.capacity
    for one in found.unknown:
        told[one.place] += one.count
        assert one.count > 0
    assert +told == +said
