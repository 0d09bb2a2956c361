"""What a workspace takes of limits and capacity, as numbers and as text."""

from quotas.amounts import Items, amounts_of

__all__ = ["Items", "amounts_of", "words_of"]


def words_of(items: Items, *, storage_gib: int) -> str:
    """`2 × H100 SXM, 4 × L40S, 100 GiB storage`, at most 200 characters."""
    parts = [f"{count} × {flavor.name}" for flavor, count in items if count]
    if storage_gib:
        parts.append(f"{storage_gib} GiB storage")
    return ", ".join(parts)[:200]
