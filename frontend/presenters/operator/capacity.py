"""The capacity map: every GPU of every pool as a cell, and the sums beside it."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.urls import reverse

from frontend.components import Amount, CapacityNode, CapacityRow, GpuCell
from gpuaas.catalog.models import GpuPool, GpuType, Node, Site
from gpuaas.catalog.selectors import PoolMap, capacity_map
from gpuaas.catalog.states import Sharing
from gpuaas.core.conditions import Status, conditions_read
from quotas.models import SiteCapacity
from quotas.resources import gpu_resource
from tenants.actors import Actor

MIG_SLICES = {"1g": 7, "2g": 3, "3g": 2, "4g": 1, "7g": 1}
SHARES = 4


@dataclass(frozen=True)
class Sums:
    """Devices of pools. `held` is promised and not in use; `out` can neither be used nor sold."""

    capacity: int = 0
    healthy: int = 0
    allocated: int = 0
    held: int = 0
    free: int = 0
    out: int = 0

    def __add__(self, other: "Sums") -> "Sums":
        return Sums(
            self.capacity + other.capacity,
            self.healthy + other.healthy,
            self.allocated + other.allocated,
            self.held + other.held,
            self.free + other.free,
            self.out + other.out,
        )


@dataclass(frozen=True)
class PoolShown:
    pool: GpuPool
    sums: Sums
    sellable: int | None
    row: CapacityRow


def pools_shown(*, actor: Actor, site: Site | None = None) -> list[PoolShown]:
    """Three queries at any size: pools, their nodes, what is sellable and reserved."""
    sellable = {
        (row.site_id, row.resource): row for row in SiteCapacity.objects.filter(resource__startswith="gpu:")
    }
    return sorted(
        (
            _pool(item, sellable.get((item.site.pk, gpu_resource(item.gpu_type.slug))))
            for item in capacity_map(actor=actor, site=site)
        ),
        key=lambda shown: (shown.row.name, shown.pool.site.slug),
    )


def sums_of(pools: Sequence[PoolShown]) -> Sums:
    return sum((pool.sums for pool in pools), Sums())


def _pool(item: PoolMap, promised: SiteCapacity | None) -> PoolShown:
    pool = item.pool
    allocated = item.allocated if item.nodes else pool.allocated
    reserved = promised.used if promised else 0
    held = max(reserved - allocated, 0)
    drawn = min(held, item.free)
    free = item.free - drawn
    out = max(pool.capacity - allocated - drawn - free, 0)
    sums = Sums(pool.capacity, pool.healthy, allocated, held, free, out)
    row = CapacityRow(
        name=item.gpu_type.name,
        note=_note(pool, item.nodes),
        nodes=_nodes(pool, item.nodes, drawn),
        allocated=sums.allocated,
        held=sums.held,
        free=sums.free,
        out=sums.out,
    )
    return PoolShown(pool, sums, promised.hard if promised else None, row)


def _note(pool: GpuPool, nodes: Sequence[Node]) -> str:
    sizes = {node.capacity for node in nodes}
    of = f" of {sizes.pop()}" if len(sizes) == 1 else ""
    count = f"{len(nodes)} node" if len(nodes) == 1 else f"{len(nodes)} nodes"
    return f"{pool.site.slug}, {count}{of}"


def _nodes(pool: GpuPool, nodes: Sequence[Node], held: int) -> tuple[CapacityNode, ...]:
    """What is held and not in use has no node yet; it is drawn on the first free GPUs of the pool."""
    shown = []
    for node in nodes:
        kinds = [Amount.USED] * min(node.allocated, node.capacity)
        rest = node.capacity - len(kinds)
        sick = rest if not node.ready else min(node.unhealthy, rest)
        kinds += [Amount.BAD] * sick
        rest -= sick
        if node.cordoned:
            kinds += [Amount.CORDONED] * rest
        else:
            here = min(held, rest)
            held -= here
            kinds += [Amount.HELD] * here + [Amount.FREE] * (rest - here)
        url = reverse("frontend:operator_node", args=[pool.site.slug, node.name])
        shown.append(CapacityNode(node.name, _cells(kinds, pool.gpu_type), detail=_detail(node), url=url))
    return tuple(shown)


def _cells(kinds: Sequence[Amount], gpu_type: GpuType) -> tuple[GpuCell, ...]:
    if gpu_type.sharing == Sharing.MIG:
        size = MIG_SLICES.get(gpu_type.mig_profile.partition(".")[0], SHARES)
    elif gpu_type.sharing == Sharing.SHARED:
        size = SHARES
    else:
        return tuple(GpuCell(kind) for kind in kinds)
    parts = [tuple(kinds[start : start + size]) for start in range(0, len(kinds), size)]
    return tuple(GpuCell(part[0], part) for part in parts)


def _detail(node: Node) -> str:
    """Why some of it is out: the site's reason, then what its checks say."""
    said = []
    if node.reason:
        said.append(node.reason)
    elif not node.ready:
        said.append("not ready, not sold until it is back")
    if node.cordoned:
        said.append("cordoned, takes no new work")
    failing = [item for item in conditions_read(node.checks) if item.status is Status.FALSE]
    said += [item.message for item in failing[:2] if item.message]
    if node.unhealthy and node.ready and not said:
        said.append("its unhealthy GPUs are not sold until they are well")
    text = "; ".join(part.rstrip(".") for part in said)
    return f"{text[:1].upper()}{text[1:]}." if text else ""
