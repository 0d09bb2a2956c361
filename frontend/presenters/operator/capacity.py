"""The capacity map: every GPU of every pool as a cell, or a bar for each pool where they are many; and the sums beside it."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from itertools import groupby
from typing import Any, Generic, TypeVar

from django.urls import reverse

from frontend.components import Amount, CapacityNode, CapacityRow, GpuCell
from gpuaas.catalog.models import GpuPool, GpuType, Node, Site
from gpuaas.catalog.selectors import NodeSums, node_sums, pools_for
from gpuaas.catalog.states import Sharing
from gpuaas.core.conditions import Status, conditions_read
from quotas.gpus import PoolGpus, gpus_of_pools
from tenants.actors import Actor

NONE = Decimal(0)
DRAWN = 300  # nodes of one map


N = TypeVar("N", int, Decimal)


@dataclass(frozen=True)
class Sums(Generic[N]):
    """Devices of one GPU type, or (`sums_of`) GPUs. allocated: those used by workspaces and clusters of ours, as last reported by the
    sites; what others use is in `others` alone. The rest: as quotas/gpus.py, and free + held + closed + others + out =
    capacity + beyond."""

    capacity: N
    healthy: N
    allocated: N
    held: N
    free: N
    others: N
    out: N
    closed: N
    beyond: N

    def __add__(self, other: "Sums[N]") -> "Sums[N]":
        return Sums(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))


@dataclass(frozen=True)
class PoolShown:
    """`drawn`: what is held and not allocated, which has no node yet."""

    pool: GpuPool
    sums: Sums[int]
    sellable: int | None
    nodes: NodeSums
    drawn: int

    @property
    def bar(self) -> tuple[tuple[Amount, int], ...]:
        left = self.pool.capacity - self.nodes.used - self.nodes.bad - self.nodes.cordoned
        held = min(self.drawn, max(left, 0))
        return (
            (Amount.USED, self.nodes.used - self.nodes.others),
            (Amount.HELD, held),
            (Amount.OTHERS, self.nodes.others),
            (Amount.BAD, self.nodes.bad),
            (Amount.CORDONED, self.nodes.cordoned),
            (Amount.FREE, max(left - held, 0)),
        )

    @property
    def cards(self) -> Sums[Decimal]:
        """As GPUs. Of pools that are cut from the same hardware one has the cards; of the others only what is taken of them
        counts, which is beyond these."""
        sums = Sums(*(self.pool.in_cards(getattr(self.sums, each.name)) for each in fields(self.sums)))
        cards = self.pool.counted_cards
        if not cards:
            sums = replace(sums, healthy=NONE, free=NONE, out=NONE, closed=NONE)
        else:
            sums = replace(sums, out=max(cards - sums.capacity + sums.out, NONE))
        parts = sums.free + sums.held + sums.closed + sums.others + sums.out
        return replace(sums, capacity=cards, beyond=parts - cards)


def pools_shown(*, actor: Actor, site: Site | None = None) -> list[PoolShown]:
    """Three queries at any size: pools, the sums of their nodes, what is sellable and held."""
    found = list(pools_for(actor=actor, site=site))
    gpus, nodes = gpus_of_pools(found), node_sums(pools=found)
    return sorted(
        (_pool(pool, gpus[pool.pk], nodes.get(pool.pk)) for pool in found),
        key=lambda shown: (shown.pool.gpu_type.name, shown.pool.gpu_type.slug, shown.pool.site.slug),
    )


def sums_of(pools: Iterable[PoolShown]) -> Sums[Decimal]:
    """In GPUs: a card that is sold in slices is one."""
    return sum((pool.cards for pool in pools), Sums(*(NONE,) * len(fields(Sums))))


def _pool(pool: GpuPool, gpus: PoolGpus, found: NodeSums | None) -> PoolShown:
    nodes = found or NodeSums(allocated=pool.allocated, used=pool.allocated, others=pool.others)
    allocated = max(nodes.allocated - nodes.others, 0)
    drawn = min(max(gpus.held - allocated, 0), pool.unallocated)
    sums = Sums(
        pool.capacity,
        pool.healthy,
        allocated,
        gpus.held,
        gpus.free,
        pool.others,
        gpus.out,
        gpus.closed,
        gpus.beyond,
    )
    return PoolShown(pool, sums, gpus.sellable, nodes, drawn)


def map_of(pools: Sequence[PoolShown]) -> tuple[CapacityRow, ...]:
    """A row for each pool, with its nodes if all of them together can be drawn; at most one query."""
    if sum(pool.nodes.nodes for pool in pools) > DRAWN:
        return tuple(
            _row(pool.pool.gpu_type, _note(pool), [pool], url=_nodes_url(pool.pool)) for pool in pools
        )
    nodes: dict[Any, list[Node]] = {}
    for node in Node.objects.filter(pool__in=[pool.pool for pool in pools]).order_by("name"):
        nodes.setdefault(node.pool_id, []).append(node)
    return tuple(
        _row(pool.pool.gpu_type, _note(pool), [pool], nodes=_nodes(pool, nodes.get(pool.pool.pk, ())))
        for pool in pools
    )


def map_by_type(pools: Sequence[PoolShown]) -> tuple[CapacityRow, ...]:
    """Likewise; where the nodes are too many, a row for each GPU type at all sites together."""
    if sum(pool.nodes.nodes for pool in pools) <= DRAWN:
        return map_of(pools)
    rows = []
    for gpu_type, each in groupby(pools, key=lambda pool: pool.pool.gpu_type):
        found = list(each)
        nodes = sum(pool.nodes.nodes for pool in found)
        note = f"{_count(len(found), 'site')}, {_count(nodes, 'node')}"
        url = f"{reverse('frontend:operator_capacity')}?type={gpu_type.slug}"
        rows.append(_row(gpu_type, note, found, url=url))
    return tuple(rows)


def _row(
    gpu_type: GpuType,
    note: str,
    pools: Sequence[PoolShown],
    *,
    nodes: tuple[CapacityNode, ...] = (),
    url: str = "",
) -> CapacityRow:
    sums, bar = sum((pool.sums for pool in pools), Sums(*(0,) * len(fields(Sums)))), Counter[Amount]()
    for pool in pools:
        bar.update(dict(pool.bar))
    return CapacityRow(
        name=gpu_type.name,
        note=note,
        nodes=nodes,
        allocated=sums.allocated,
        held=sums.held,
        others=sums.others,
        free=sums.free,
        out=sums.out,
        bar=tuple(bar.items()) if url else (),
        url=url,
    )


def _nodes_url(pool: GpuPool) -> str:
    page = reverse("frontend:operator_site_nodes", args=[pool.site.slug])
    return f"{page}?type={pool.gpu_type.slug}"


def _note(pool: PoolShown) -> str:
    nodes = pool.nodes
    of = f" of {nodes.largest}" if nodes.nodes and nodes.smallest == nodes.largest else ""
    return f"{pool.pool.site.slug}, {_count(nodes.nodes, 'node')}{of}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _nodes(shown: PoolShown, nodes: Sequence[Node]) -> tuple[CapacityNode, ...]:
    """What is held and not allocated is drawn on the first free GPUs of the pool."""
    pool, held, made = shown.pool, shown.drawn, []
    for node in nodes:
        used, others = min(node.allocated, node.capacity), min(node.others, node.capacity)
        kinds = [Amount.USED] * (used - others) + [Amount.OTHERS] * others
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
        made.append(CapacityNode(node.name, _cells(kinds, pool), detail=_detail(node), url=url))
    return tuple(made)


def _cells(kinds: Sequence[Amount], pool: GpuPool) -> tuple[GpuCell, ...]:
    """A cell for each card, in parts where it is sold in slices."""
    if pool.gpu_type.sharing in (Sharing.WHOLE, Sharing.DRA) and pool.card_share == 1:
        return tuple(GpuCell(kind) for kind in kinds)
    size = max(round(1 / pool.card_share), 1)
    parts = [tuple(kinds[start : start + size]) for start in range(0, len(kinds), size)]
    return tuple(GpuCell(part[0], part) for part in parts)


def _detail(node: Node) -> str:
    """Why GPUs of it are out: the site's reason, then its failing checks."""
    reasons = []
    if node.reason:
        reasons.append(node.reason)
    elif not node.ready:
        reasons.append("not ready, not sold until it is back")
    if node.cordoned:
        reasons.append("cordoned, takes no new work")
    failing = [item for item in conditions_read(node.checks) if item.status is Status.FALSE]
    reasons += [item.message for item in failing[:2] if item.message]
    if node.unhealthy and node.ready and not reasons:
        reasons.append("its unhealthy GPUs are not sold until they recover")
    text = "; ".join(part.rstrip(".") for part in reasons)
    return f"{text[:1].upper()}{text[1:]}." if text else ""
