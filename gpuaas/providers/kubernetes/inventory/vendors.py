"""How each vendor's device plugin names its GPUs, and the labels that describe them."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from gpuaas.providers.kubeapi.quantities import quantity

MIB = Fraction(1024**2)


@dataclass(frozen=True)
class Vendor:
    """`gpu`: names (after the domain) that are GPUs; `other`: parts of names that are not GPUs."""

    domain: str
    gpu: tuple[str, ...]
    product_labels: tuple[str, ...]
    memory_labels: tuple[str, ...] = ()
    other: tuple[str, ...] = ()
    renames: bool = False  # its plugin supports resource names of the operator's choice

    def is_gpu(self, name: str) -> bool:
        """`name`: after the domain."""
        if any(part in name.lower() for part in self.other):
            return False
        return self.renames or name in self.gpu


NVIDIA = Vendor(
    "nvidia.com",
    gpu=("gpu", "gpu.shared"),
    product_labels=("nvidia.com/gpu.product",),
    memory_labels=("nvidia.com/gpu.memory",),
    # network cards and channels of the same vendor; memory and cores of shares
    other=(
        "gpumem",
        "gpucore",
        "gpu-mem",
        "gpu-core",
        "gpu.mem",
        "memory",
        "percentage",
        "priority",
        "hostdev",
        "rdma",
        "nic",
        "sriov",
        "vf",
        "imex",
        "channel",
        "ib",
        "roce",
        "mlnx",
        "bf",
    ),
    renames=True,
)
AMD = Vendor(
    "amd.com",
    gpu=(
        "gpu",
        *(
            f"{mode}_{memory}"
            for mode in ("spx", "dpx", "tpx", "qpx", "cpx")
            for memory in ("nps1", "nps2", "nps4", "nps8")
        ),
    ),
    product_labels=("amd.com/gpu.product-name", "beta.amd.com/gpu.product-name"),
    memory_labels=("amd.com/gpu.vram", "beta.amd.com/gpu.vram"),
)
INTEL = Vendor(
    "gpu.intel.com",
    gpu=("i915", "xe"),
    product_labels=("gpu.intel.com/product",),
    memory_labels=("gpu.intel.com/memory.max",),
)
HABANA = Vendor("habana.ai", gpu=("gaudi",), product_labels=("habana.ai/product",))
VENDORS = {vendor.domain: vendor for vendor in (NVIDIA, AMD, INTEL, HABANA)}


def vendor_of(resource: str) -> tuple[Vendor | None, str]:
    """The vendor of a resource and its name after the domain."""
    domain, _, name = resource.partition("/")
    return VENDORS.get(domain), name


def first(labels: Mapping[str, str], keys: tuple[str, ...]) -> str:
    return next((labels[key] for key in keys if labels.get(key)), "")


def memory_mib(text: str) -> int:
    """NVIDIA writes a number of MiB, others `192G` or bytes; 0 if it cannot be parsed."""
    if not text:
        return 0
    try:
        amount = quantity(text)
    except ValueError:
        return 0
    if text.isdigit() and amount < 1024**3:
        return int(amount)
    # a card's G is 1024³, whatever its label calls it
    return int(amount / MIB) if text.isdigit() or text.endswith("i") else int(quantity(f"{text}i") / MIB)
