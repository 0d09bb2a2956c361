"""How far a pool can grow now, within the limits and the capacity of its site; reserves nothing."""

from dataclasses import dataclass

from gpuaas.clusters.models import Cluster, ClusterPool
from gpuaas.clusters.selectors import definition_of
from gpuaas.clusters.services.changes import scale_preview
from gpuaas.core.errors import Invalid
from gpuaas.core.rows import one_or_none


@dataclass(frozen=True)
class Room:
    """`most` workers in total; `reason` names the limit, "" if nothing limits it below what was requested."""

    most: int
    reason: str = ""


def room_after(*, cluster: Cluster, pool: ClusterPool, maximum: int, after: str) -> Room:
    """Like `room_of`; no growth while the pool `after` could grow instead, up to its policy's maximum or the
    template's."""
    room = room_of(cluster=cluster, pool=pool, maximum=maximum)
    held = max(pool.count, pool.confirmed)
    first = one_or_none(cluster.pools.select_related("policy").filter(name=after)) if after else None
    if first is None or room.most <= held:
        return room
    policy = getattr(first, "policy", None)
    bound = definition_of(cluster.template_version).pool(after).maximum
    most = policy.maximum if policy is not None and policy.enabled else bound
    there = max(first.count, first.confirmed)
    free = room_of(cluster=cluster, pool=first, maximum=most).most - there
    if free <= 0:
        return room
    return Room(held, f"the pool {after} at {cluster.site.slug} grows first: it has room for {free} more")


def room_of(*, cluster: Cluster, pool: ClusterPool, maximum: int) -> Room:
    """Present workers count as included. 4 queries."""
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
