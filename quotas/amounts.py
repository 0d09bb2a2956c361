"""Amounts of limits and capacity that flavors × counts take."""

from collections import Counter
from collections.abc import Iterable

from gpuaas.catalog.models import Flavor
from quotas.resources import MEMORY, STORAGE, VCPU, flavor_resource

Items = Iterable[tuple[Flavor, int]]


def amounts_of(items: Items, *, storage_gib: int = 0, vcpus: int = 0, memory_gib: int = 0) -> dict[str, int]:
    """Amounts by resource key to reserve; vcpus and memory_gib are added to those of the flavors. Flavors need
    `pool.gpu_type` loaded. vCPU and memory that come with lent GPUs are lent, too: they take nothing of limits and capacity."""
    total: Counter[str] = Counter({VCPU: vcpus, MEMORY: memory_gib, STORAGE: storage_gib})
    for flavor, count in items:
        total[flavor_resource(flavor)] += flavor.gpus * count
        if flavor.is_lent:
            continue
        total[VCPU] += flavor.vcpus * count
        total[MEMORY] += flavor.memory_gib * count
    return {resource: amount for resource, amount in total.items() if amount}
