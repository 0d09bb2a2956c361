"""One card is called the same at every site, whichever way the site says it."""

from fractions import Fraction

import pytest

from gpuaas.providers.kinds import kind
from gpuaas.providers.kubeapi.names import is_workspace_namespace, quota_keys
from gpuaas.providers.kubeapi.quantities import gib, quantity, whole
from gpuaas.providers.kubernetes.inventory.plugin import kind_on_node

WHOLE = {
    ("NVIDIA-H100-80GB-HBM3", 81559): ("h100-sxm-80gb", "H100 SXM 80 GB", 80),
    ("NVIDIA-H100-PCIe", 81559): ("h100-pcie-80gb", "H100 PCIe 80 GB", 80),
    ("NVIDIA-H100-NVL", 95830): ("h100-nvl-94gb", "H100 NVL 94 GB", 94),
    ("NVIDIA-A100-SXM4-40GB", 40960): ("a100-sxm-40gb", "A100 SXM 40 GB", 40),
    ("NVIDIA-A100-PCIE-40GB", 40960): ("a100-pcie-40gb", "A100 PCIe 40 GB", 40),
    ("NVIDIA-H200", 143771): ("h200-141gb", "H200 141 GB", 141),
    ("NVIDIA-B200", 183359): ("b200-180gb", "B200 180 GB", 180),
    ("NVIDIA-L40S", 46068): ("l40s-48gb", "L40S 48 GB", 48),
    ("NVIDIA-L4", 23034): ("l4-24gb", "L4 24 GB", 24),
    ("Tesla-V100-SXM2-32GB", 32768): ("v100-sxm-32gb", "V100 SXM 32 GB", 32),
    ("Tesla-T4", 15360): ("t4-16gb", "T4 16 GB", 16),
    ("NVIDIA-RTX-A6000", 49140): ("rtx-a6000-48gb", "RTX A6000 48 GB", 48),
    ("NVIDIA-GH200-480GB", 97871): ("gh200-96gb", "GH200 96 GB", 96),
    ("NVIDIA H200", 144384): ("h200-141gb", "H200 141 GB", 141),
}


@pytest.mark.parametrize("given", WHOLE, ids=lambda given: given[0])
def test_whole_cards(given: tuple[str, int]) -> None:
    made = kind(given[0], memory_mib=given[1])
    assert (made.slug, made.name, made.memory_gib) == WHOLE[given]


A100 = {
    "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB",
    "nvidia.com/gpu.memory": "40960",
    "nvidia.com/gpu.compute.major": "8",
    "nvidia.com/gpu.compute.minor": "0",
}
SINGLE = {**A100, "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"}
L40S = {"nvidia.com/gpu.product": "NVIDIA-L40S", "nvidia.com/gpu.memory": "46068"}
SLICED = {"nvidia.com/gpu.sharing-strategy": "time-slicing", "nvidia.com/gpu.replicas": "4"}
ON_NODES = {
    "whole": ("nvidia.com/gpu", A100, "a100-sxm-40gb", "whole", 40),
    "mig mixed": ("nvidia.com/mig-3g.20gb", A100, "a100-40gb-mig-3g.20gb", "mig", 20),
    "mig single": ("nvidia.com/gpu", SINGLE, "a100-40gb-mig-1g.5gb", "mig", 5),
    "mig with media": ("nvidia.com/mig-1g.10gb.me", A100, "a100-40gb-mig-1g.10gb.me", "mig", 10),
    "shared by name": ("nvidia.com/gpu.shared", L40S, "l40s-48gb-shared", "shared", 48),
    "shared by label": ("nvidia.com/gpu", L40S | SLICED, "l40s-48gb-shared-1of4", "shared", 48),
    "shared by product": (
        "nvidia.com/gpu",
        L40S | {"nvidia.com/gpu.product": "NVIDIA-L40S-SHARED"},
        "l40s-48gb-shared",
        "shared",
        48,
    ),
}


@pytest.mark.parametrize("how", ON_NODES)
def test_on_nodes(how: str) -> None:
    resource, labels, slug, sharing, memory = ON_NODES[how]
    made = kind_on_node(resource, labels)
    assert made is not None
    assert (made.slug, made.sharing, made.memory_gib) == (slug, sharing, memory)


@pytest.mark.parametrize("resource", ["cpu", "memory", "rdma/hca", "hugepages-1Gi"])
def test_what_is_no_gpu_is_none(resource: str) -> None:
    assert kind_on_node(resource, A100) is None


def test_quantities_are_exact() -> None:
    assert quantity("500m") == Fraction(1, 2)
    assert quantity("2e3") == 2000
    assert (whole("100m"), whole("2k"), gib("1Ti"), gib("1536Mi"), gib("1G")) == (1, 2000, 1024, 2, 1)
    for text in ("", "GPU", "1Q", "1.2.3.4x"):
        with pytest.raises(ValueError, match="not a quantity"):
            quantity(text)


def test_a_device_class_has_three_keys() -> None:
    assert quota_keys("gpuaas.io/h200", "h200") == (
        "requests.gpuaas.io/h200",
        "requests.deviceclass.resource.kubernetes.io/h200",
        "h200.deviceclass.resource.k8s.io/devices",
    )
    assert quota_keys("nvidia.com/gpu") == ("requests.nvidia.com/gpu",)


def test_only_names_of_ours_are_workspaces() -> None:
    assert is_workspace_namespace("gpu-1a2b3c4d-train")
    assert not any(map(is_workspace_namespace, ("gpu-operator", "gpu-1a2b3c4", "my-gpu-1a2b3c4d-x")))
