"""A program that is built for one architecture does not run on another: GPUs beside each are a type of their own."""

from gpuaas.catalog.services.contracts import contracts_keep
from gpuaas.providers.base import Inventory, SoldPool
from gpuaas.providers.kubeapi.client import Object
from gpuaas.providers.kubernetes.inventory.plugin import PRODUCT
from gpuaas.providers.kubernetes.inventory.sharing import GPU
from tests.providers.kubernetes.test_dra_inventory import device, device_class, published
from tests.providers.kubernetes.test_inventory import POOL, look, node

ARCH = "kubernetes.io/arch"
H100 = {PRODUCT: "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.memory": "81559", POOL: "h"}


def box(name: str, arch: str, **labels: str) -> Object:
    return node(name, {GPU: "4"}, H100 | ({ARCH: arch} if arch else {}) | labels)


def pools(seen: Inventory) -> dict[str, tuple[str, dict[str, str], str]]:
    return {pool.kind.slug: (pool.arch, dict(pool.selector), pool.trouble) for pool in seen.pools}


def test_two_architectures_are_two_types_that_a_selector_keeps_apart() -> None:
    seen = look(box("x", "amd64"), box("g", "arm64"))
    assert pools(seen) == {
        "h100-sxm-80gb": ("amd64", {POOL: "h", ARCH: "amd64"}, ""),
        "h100-sxm-80gb-arm64": ("arm64", {POOL: "h", ARCH: "arm64"}, ""),
    }
    assert {each.name: each.traits.arch for each in seen.nodes} == {"x": "amd64", "g": "arm64"}


def test_the_selector_has_it_only_where_it_is_needed() -> None:
    assert pools(look(box("g", "arm64"))) == {"h100-sxm-80gb-arm64": ("arm64", {POOL: "h"}, "")}
    apart = pools(look(box("x", "amd64"), box("g", "arm64", **{POOL: "g"})))
    assert [selector for _, selector, _ in apart.values()] == [{POOL: "h"}, {POOL: "g"}]


def test_a_site_that_does_not_say_has_the_usual_one() -> None:
    assert pools(look(box("x", ""))) == {"h100-sxm-80gb": ("", {POOL: "h"}, "")}


def test_what_was_sold_before_keeps_its_name() -> None:
    sold = (SoldPool("h100-sxm-80gb", GPU, {POOL: "h"}),)
    kept = contracts_keep(look(box("g", "arm64"), sold=sold), sold)
    assert pools(kept.inventory) == {"h100-sxm-80gb": ("arm64", {POOL: "h"}, "")}
    assert not kept.breaches


def test_nodes_of_another_architecture_that_join_are_not_what_was_sold() -> None:
    sold = (SoldPool("h100-sxm-80gb", GPU, {POOL: "h"}),)
    kept = contracts_keep(look(box("x", "amd64"), box("g", "arm64"), sold=sold), sold)
    found = pools(kept.inventory)
    assert found["h100-sxm-80gb"][:2] == ("amd64", {POOL: "h"})
    assert "also selects H100 SXM 80 GB arm64" in kept.breaches["h100-sxm-80gb"]
    assert "workspaces that bought h100-sxm-80gb" in found["h100-sxm-80gb-arm64"][2]


def test_claimable_devices_have_the_architecture_of_their_node() -> None:
    seen = look(
        node("c", {}, {POOL: "c", ARCH: "arm64"}),
        resourceslices=[published(device("gpu-0", "NVIDIA GB200"), pool="c")],
        deviceclasses=[device_class("gb200", "device.driver == 'gpu.nvidia.com'")],
    )
    (pool,) = seen.pools
    assert pool.kind.slug.endswith("-dra-arm64")
    assert pool.arch == "arm64"
