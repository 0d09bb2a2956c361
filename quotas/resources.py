"""The keys by which limits and capacity are counted, and their names for people."""

import re
from typing import Final

VCPU: Final = "vcpu"
MEMORY: Final = "memory"
STORAGE: Final = "storage"
GPU_PREFIX: Final = "gpu:"
COMMON: Final = (VCPU, MEMORY, STORAGE)

_GPU = re.compile(r"\Agpu:[a-z0-9](?:[a-z0-9.-]{0,62}[a-z0-9])?\Z")
_UNITS = {VCPU: "vCPU cores", MEMORY: "GiB of memory", STORAGE: "GiB of storage"}


def gpu_resource(gpu_type_slug: str) -> str:
    return f"{GPU_PREFIX}{gpu_type_slug}"


def gpu_type_slug(resource: str) -> str:
    """'' for a resource that is not a GPU type."""
    return resource.removeprefix(GPU_PREFIX) if resource.startswith(GPU_PREFIX) else ""


def is_resource(key: str) -> bool:
    """Whether the key is well formed; the caller checks whether the GPU type exists."""
    return key in COMMON or _GPU.match(key) is not None


def resource_unit(resource: str) -> str:
    """The unit in a sentence: `h100-sxm-80gb GPUs`, `GiB of memory`."""
    return _UNITS.get(resource) or f"{gpu_type_slug(resource)} GPUs"


def resource_order(resource: str) -> tuple[int, str]:
    """GPU types first, by name, then vCPU, memory and storage: the order of every table."""
    return (COMMON.index(resource) + 1 if resource in COMMON else 0, resource)
