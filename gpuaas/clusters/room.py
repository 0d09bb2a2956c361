"""How far a pool could grow now, within the limits and the capacity of its site; reserves nothing."""

from dataclasses import dataclass

from gpuaas.clusters.models import Cluster, ClusterPool
from gpuaas.clusters.services.changes import scale_preview
from gpuaas.core.errors import Invalid


@dataclass(frozen=True)
class Room:
    """`most` workers in all; `reason` says what ends it, "" where nothing does below what was asked."""

    most: int
    reason: str = ""


def room_of(*, cluster: Cluster, pool: ClusterPool, maximum: int) -> Room:
    """What is there counts as had. 4 queries."""
    held = max(pool.count, pool.confirmed)
    growth = maximum - held
    if growth <= 0:
        return Room(held)
    try:
        preview = scale_preview(cluster=cluster, counts={pool.name: maximum})
    except Invalid as error:
        return Room(held, error.message)
    if preview.hold:
        return Room(held, preview.hold)
    rooms = [
        Room(held + max(check.left or 0, 0) // -(-check.asked // growth), check.message)
        for check in preview.refusals
    ]
    return min(rooms, key=lambda room: room.most, default=Room(maximum))
