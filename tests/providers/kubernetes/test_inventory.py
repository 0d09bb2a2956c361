"""From labels to pools, without a site: one GPU model is never brought to the nodes of another."""

import pytest

from gpuaas.providers.kubernetes.inventory import GPU, PRODUCT, Found, _pools, kind_on_node

POOL = "gpuaas.io/pool"


def node(name: str, product: str, pool: str = "") -> Found:
    labels = {PRODUCT: product, "nvidia.com/gpu.memory": "81559"} | ({POOL: pool} if pool else {})
    kind = kind_on_node(GPU, labels)
    assert kind is not None
    return Found(name, kind, GPU, 8, 0, labels)


H100, A100 = "NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-80GB"
SITES = {
    "a label for each": ([node("a", H100, "h"), node("b", A100, "a")], {POOL: "h"}),
    "one label for all": ([node("a", H100, "gpu"), node("b", A100, "gpu")], {PRODUCT: H100}),
    "two labels for one": ([node("a", H100, "h1"), node("b", H100, "h2"), node("c", A100)], {PRODUCT: H100}),
    "no label": ([node("a", H100), node("b", A100)], {PRODUCT: H100}),
}


@pytest.mark.parametrize("how", SITES)
def test_the_selector_of_a_pool_means_only_its_nodes(how: str) -> None:
    found, selector = SITES[how]
    pools = {pool.kind.slug: dict(pool.selector) for pool in _pools(found, POOL)}
    assert pools["h100-sxm-80gb"] == selector
    assert pools["h100-sxm-80gb"] != pools["a100-sxm-80gb"]
