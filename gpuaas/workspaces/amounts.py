"""What a workspace takes of limits and capacity, and what it holds: arithmetic on flavors × counts."""

from collections import Counter
from collections.abc import Iterable

from gpuaas.catalog.models import Flavor
from quotas.resources import MEMORY, STORAGE, VCPU, gpu_resource

Items = Iterable[tuple[Flavor, int]]


def amounts_of(items: Items, *, storage_gib: int) -> dict[str, int]:
    """Amounts by resource key, as `quotas` reserves them; flavors need `pool.gpu_type` loaded."""
    total: Counter[str] = Counter()
    for flavor, count in items:
        total[gpu_resource(flavor.pool.gpu_type.slug)] += flavor.gpus * count
        total[VCPU] += flavor.vcpus * count
        total[MEMORY] += flavor.memory_gib * count
    total[STORAGE] += storage_gib
    return {resource: amount for resource, amount in total.items() if amount}


def words_of(items: Items, *, storage_gib: int) -> str:
    """`2 × H100 SXM, 4 × L40S, 100 GiB storage`, at most 200 characters."""
    parts = [f"{count} × {flavor.name}" for flavor, count in items if count]
    if storage_gib:
        parts.append(f"{storage_gib} GiB storage")
    return ", ".join(parts)[:200]
