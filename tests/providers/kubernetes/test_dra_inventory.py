"""From ResourceSlices to pools, without a site: what counts, where it is, and what can be given out together."""

from typing import Any

import pytest

from gpuaas.providers.base import Inventory
from gpuaas.providers.kubeapi.client import Object
from tests.providers.kubernetes.test_inventory import A100, H100, L40S, POOL, look, node

NVIDIA = "gpu.nvidia.com"
TYPE, PRODUCT = f"device.attributes['{NVIDIA}'].type", f"device.attributes['{NVIDIA}'].productName"


def device(name: str, product: str = H100, sort: str = "gpu", memory: str = "80Gi", **more: Any) -> Object:
    attributes = {"type": {"string": sort}, "productName": {"string": product}}
    if sort == "mig":
        attributes["profile"] = {"string": more.pop("profile")}
    return {"name": name, "attributes": attributes, "capacity": {"memory": {"value": memory}}, **more}


def published(
    *devices: Object, pool: str = "a", generation: int = 1, slices: int = 1, **where: Any
) -> Object:
    return {
        "spec": {
            "driver": NVIDIA,
            "pool": {"name": pool, "generation": generation, "resourceSliceCount": slices},
            "devices": list(devices),
            **(where or {"nodeName": pool}),
        }
    }


def device_class(name: str, *expressions: str, extended: str = "") -> Object:
    spec: Object = {"selectors": [{"cel": {"expression": text}} for text in expressions]}
    return {
        "metadata": {"name": name},
        "spec": spec | ({"extendedResourceName": extended} if extended else {}),
    }


def claim(*devices: str, pool: str = "a", admin: bool = False) -> Object:
    results = [
        {"driver": NVIDIA, "pool": pool, "device": name, **({"adminAccess": True} if admin else {})}
        for name in devices
    ]
    status = {"allocation": {"devices": {"results": results}}}
    return {"metadata": {"name": "held", "namespace": "old-lab"}, "status": status}


GPUS = device_class("gpu.nvidia.com", f"device.driver == '{NVIDIA}'", f"{TYPE} == 'gpu'")
SLICES = device_class("mig.nvidia.com", f"{TYPE} == 'mig'")
H100S = device_class("h100", f"{PRODUCT} == '{H100}'", extended="example.com/h100")


def names(seen: Inventory) -> dict[str, str]:
    return {pool.kind.slug: pool.resource_name for pool in seen.pools}


def counts(seen: Inventory) -> dict[str, tuple[str, int, int, int]]:
    return {
        row.kind_slug: (row.name, row.capacity, row.unhealthy, row.allocated)
        for row in seen.nodes
        if row.kind_slug
    }


def site(*rows: Object, classes: tuple[Object, ...] = (GPUS,), claims: tuple[Object, ...] = ()) -> Inventory:
    nodes = [node(name, {}, {POOL: f"pool-{name}"}) for name in ("a", "b")]
    return look(*nodes, resourceslices=list(rows), deviceclasses=list(classes), resourceclaims=list(claims))


def test_a_class_of_the_driver_sells_the_only_model_there_is() -> None:
    seen = site(published(device("gpu-0"), device("gpu-1")))
    assert names(seen) == {"h100-sxm-80gb-dra": "deviceclass.resource.kubernetes.io/gpu.nvidia.com"}
    assert counts(seen) == {"h100-sxm-80gb-dra": ("a", 2, 0, 0)}


def test_a_class_for_one_model_goes_before_one_for_all() -> None:
    seen = site(
        published(device("gpu-0")),
        published(device("gpu-0", A100), pool="b"),
        classes=(GPUS, H100S),
    )
    assert names(seen) == {
        "h100-sxm-80gb-dra": "example.com/h100",
        "a100-sxm-80gb-dra": "deviceclass.resource.kubernetes.io/gpu.nvidia.com",
    }
    a100 = next(pool for pool in seen.pools if pool.kind.slug.startswith("a100"))
    assert dict(a100.selector) == {POOL: "pool-b"}, (
        "its class would give an H100 too, so its nodes tell them apart"
    )
    assert set(seen.names) == {*names(seen).values(), "deviceclass.resource.kubernetes.io/h100"}


def test_two_models_on_one_node_under_one_class_are_in_trouble() -> None:
    seen = site(published(device("gpu-0"), device("gpu-1", A100)))
    assert all("one name" in pool.trouble for pool in seen.pools)
    assert len(seen.pools) == 2


def test_what_no_class_selects_is_said_and_not_sold() -> None:
    seen = site(published(device("gpu-0"), device("gpu-1", A100)), classes=(H100S,))
    assert list(names(seen)) == ["h100-sxm-80gb-dra"]
    seen = site(published(device("gpu-0")), classes=())
    assert not seen.pools
    assert "no device class selects H100 SXM 80 GB DRA" in next(
        row.reason for row in seen.nodes if row.name == "a"
    )


def test_the_same_card_by_plugin_and_by_class_is_two_pools() -> None:
    seen = look(
        node("a", {"nvidia.com/gpu": "8"}, L40S),
        node("b", {}, {POOL: "claims"}),
        resourceslices=[published(device("gpu-0", "NVIDIA L40S", memory="46068Mi"), pool="b")],
        deviceclasses=[GPUS],
    )
    assert {pool.kind.slug: pool.kind.sharing for pool in seen.pools} == {
        "l40s-48gb": "whole",
        "l40s-48gb-dra": "dra",
    }


def test_slices_passthrough_and_channels() -> None:
    seen = site(
        published(
            device("gpu-0", "NVIDIA A100-SXM4-40GB", memory="40Gi"),
            device("gpu-0-vfio", "NVIDIA A100-SXM4-40GB", "vfio", memory="40Gi"),
            device("gpu-1-mig-0", "NVIDIA A100-SXM4-40GB", "mig", "4864Mi", profile="1g.5gb"),
            device("gpu-1-mig-1", "NVIDIA A100-SXM4-40GB", "mig", "9856Mi", profile="1g.10gb+me"),
            {"name": "channel-0", "attributes": {"type": {"string": "channel"}}},
        ),
        classes=(GPUS, SLICES),
    )
    assert {slug: row[1] for slug, row in counts(seen).items()} == {
        "a100-sxm-40gb-dra": 1,
        "a100-40gb-mig-1g.5gb-dra": 1,
        "a100-40gb-mig-1g.10gb.me-dra": 1,
    }
    kinds = {pool.kind.slug: pool.kind for pool in seen.pools}
    assert kinds["a100-40gb-mig-1g.5gb-dra"].memory_gib == 5
    assert all(pool.trouble for pool in seen.pools if "mig" in pool.kind.slug), (
        "one class gives either profile"
    )


def cut(name: str, *cells: int) -> Object:
    """A slice that needs these of the card's memory cells."""
    counters = {f"cell-{number}": {"value": "1"} for number in cells}
    return device(name, sort="mig", memory="10Gi", profile="1g.10gb") | {
        "consumesCounters": [{"counterSet": "gpu-0", "counters": counters}]
    }


CARD = device("gpu-0") | {
    "consumesCounters": [
        {"counterSet": "gpu-0", "counters": {f"cell-{number}": {"value": "1"} for number in range(4)}}
    ]
}
CELLS = {"name": "gpu-0", "counters": {f"cell-{number}": {"value": "1"} for number in range(4)}}
# five places for slices, of which four fit beside each other
PARTS = [cut(f"slice-{number}", number) for number in range(4)] + [cut("slice-again", 0)]


@pytest.mark.parametrize(
    ("held", "card", "parts"),
    [
        ((), (1, 0, 0), (4, 0, 0)),
        (("gpu-0",), (1, 0, 1), (4, 4, 0)),
        (("slice-1",), (1, 1, 0), (4, 0, 1)),
        (("slice-0", "slice-1", "slice-2", "slice-3"), (1, 1, 0), (4, 0, 4)),
    ],
)
def test_a_card_and_its_slices_are_not_counted_twice(
    held: tuple[str, ...], card: tuple[int, int, int], parts: tuple[int, int, int]
) -> None:
    """(capacity, unhealthy, allocated): what somebody has cut away cannot take work."""
    row = published(CARD, *PARTS, nodeName="a", sharedCounters=[CELLS])
    seen = site(row, classes=(GPUS, SLICES), claims=(claim(*held),))
    found = {slug: row[1:] for slug, row in counts(seen).items()}
    assert found == {"h100-sxm-80gb-dra": card, "h100-80gb-mig-1g.10gb-dra": parts}
    assert {pool.kind.slug: pool.shares_with for pool in seen.pools} == {
        "h100-sxm-80gb-dra": ("h100-80gb-mig-1g.10gb-dra",),
        "h100-80gb-mig-1g.10gb-dra": ("h100-sxm-80gb-dra",),
    }


def test_sick_devices_are_capacity_that_takes_no_work() -> None:
    barred = [{"key": "gpu.nvidia.com/xid", "effect": "NoSchedule"}]
    seen = site(
        published(
            device("gpu-0", taints=barred), device("gpu-1"), device("gpu-2", taints=[{"effect": "None"}])
        )
    )
    assert counts(seen) == {"h100-sxm-80gb-dra": ("a", 3, 1, 0)}


def test_only_the_newest_generation_counts_and_only_when_it_is_whole() -> None:
    old = published(device("gpu-0"), device("gpu-1"), device("gpu-2"))
    seen = site(old, published(device("gpu-0"), device("gpu-1"), generation=2))
    assert counts(seen) == {"h100-sxm-80gb-dra": ("a", 2, 0, 0)}
    seen = site(published(device("gpu-0"), device("gpu-1"), slices=2))
    assert counts(seen) == {"h100-sxm-80gb-dra": ("a", 2, 2, 0)}


def test_a_look_with_admin_access_holds_nothing() -> None:
    row = published(device("gpu-0"), device("gpu-1"))
    assert counts(site(row, claims=(claim("gpu-0"), claim("gpu-1", admin=True)))) == {
        "h100-sxm-80gb-dra": ("a", 2, 0, 1)
    }


def term(operator: str, *values: str) -> Object:
    return {
        "nodeSelectorTerms": [
            {"matchExpressions": [{"key": POOL, "operator": operator, "values": list(values)}]}
        ]
    }


@pytest.mark.parametrize(
    ("where", "place"),
    [
        ({"nodeName": "a"}, "a"),
        ({"nodeSelector": term("In", "pool-b")}, "b"),
        ({"nodeSelector": term("NotIn", "pool-b")}, "a"),
        ({"nodeSelector": term("Exists")}, "cabinet"),
        ({"allNodes": True}, "cabinet"),
    ],
)
def test_devices_are_where_they_can_be_reached(where: dict[str, Any], place: str) -> None:
    """One that several nodes reach is counted once, under the name of its own pool."""
    seen = site(published(device("gpu-0"), pool="cabinet", **where))
    assert counts(seen) == {"h100-sxm-80gb-dra": (place, 1, 0, 0)}


def test_devices_of_a_node_that_is_not_there_do_not_count() -> None:
    assert not site(published(device("gpu-0"), nodeName="gone")).pools


def test_each_device_may_say_where_it_is() -> None:
    row = published(
        device("gpu-0", nodeName="a"), device("gpu-1", nodeName="b"), perDeviceNodeSelection=True, pool="both"
    )
    seen = site(row)
    assert sorted(row.name for row in seen.nodes if row.kind_slug) == ["a", "b"]
