"""The keys by which limits and capacity are counted, and their names for people."""

import re
from typing import Final

from gpuaas.catalog.models import Flavor

VCPU: Final = "vcpu"
MEMORY: Final = "memory"
STORAGE: Final = "storage"
GPU_PREFIX: Final = "gpu:"
SPOT_PREFIX: Final = "spot:"  # devices that are lent: they take nothing of what can be bought
COMMON: Final = (VCPU, MEMORY, STORAGE)

_GPU = re.compile(r"\A(?:gpu|spot):[a-z0-9](?:[a-z0-9.-]{0,62}[a-z0-9])?\Z")
_UNITS = {VCPU: "vCPU cores", MEMORY: "GiB of memory", STORAGE: "GiB of storage"}


def gpu_resource(gpu_type_slug: str) -> str:
    return f"{GPU_PREFIX}{gpu_type_slug}"


def spot_resource(gpu_type_slug: str) -> str:
    return f"{SPOT_PREFIX}{gpu_type_slug}"


def flavor_resource(flavor: Flavor) -> str:
    """As what its devices are counted; needs `pool.gpu_type`."""
    slug = flavor.pool.gpu_type.slug
    return spot_resource(slug) if flavor.is_lent else gpu_resource(slug)


def is_spot(resource: str) -> bool:
    return resource.startswith(SPOT_PREFIX)


def gpu_type_slug(resource: str) -> str:
    """Of bought and of lent devices; '' for a resource that is not a GPU type."""
    prefix = next((each for each in (GPU_PREFIX, SPOT_PREFIX) if resource.startswith(each)), "")
    return resource.removeprefix(prefix) if prefix else ""


def is_resource(key: str) -> bool:
    """Whether the key is well formed; the caller checks whether the GPU type exists."""
    return key in COMMON or _GPU.match(key) is not None


def resource_unit(resource: str) -> str:
    """The unit in a sentence: `h100-sxm-80gb GPUs`, `spot h100-sxm-80gb GPUs`, `GiB of memory`."""
    return _UNITS.get(resource) or gpus_named(resource, gpu_type_slug(resource))


def gpus_named(resource: str, name: str) -> str:
    """name: of the GPU type, for people."""
    return f"{'spot ' if is_spot(resource) else ''}{name} GPUs"


def resource_order(resource: str) -> tuple[int, str]:
    """GPU types first, bought before lent, by name, then vCPU, memory and storage: the order of every table."""
    return (COMMON.index(resource) + 1 if resource in COMMON else 0, resource)
