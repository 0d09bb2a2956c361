"""What a workspace takes of limits and capacity, as numbers and as text."""

from collections.abc import Sequence

from gpuaas.catalog.models import StorageClass
from gpuaas.workspaces.models import Workspace
from quotas.amounts import Items, amounts_of

__all__ = ["Items", "StorageItem", "amounts_of", "storage_items", "storage_sum", "words_of"]

StorageItem = tuple[StorageClass, int]


def storage_items(workspace: Workspace) -> list[StorageItem]:
    """What is wanted of each storage class by name."""
    rows = workspace.storage.select_related("storage_class")
    return [(row.storage_class, row.gib) for row in rows if row.gib]


def storage_sum(plain_gib: int, items: Sequence[StorageItem]) -> int:
    """GiB over all classes, as limits count them."""
    return plain_gib + sum(gib for _, gib in items)


def words_of(items: Items, *, storage_gib: int, storage: Sequence[StorageItem] = ()) -> str:
    """`2 × H100 SXM, 4 × L40S, 100 GiB storage, 50 GiB fast-ber-1`, at most 200 characters."""
    parts = [f"{count:,} × {flavor.name}" for flavor, count in items if count]
    if storage_gib:
        parts.append(f"{storage_gib:,} GiB storage")
    parts += [f"{gib:,} GiB {storage_class.slug}" for storage_class, gib in storage]
    return ", ".join(parts)[:200]
