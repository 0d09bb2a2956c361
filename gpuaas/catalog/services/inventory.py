"""Writes the result of a probe: set-based, a handful of statements however large the site is."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from decimal import Decimal
from fractions import Fraction

from gpuaas.catalog.models import GpuPool, GpuType, Node, Site, StorageClass
from gpuaas.catalog.services.checks import conditions_of
from gpuaas.catalog.services.storage import storage_classes_write
from gpuaas.providers.base import DeviceKind, Inventory, ObservedNode
from gpuaas.providers.kinds import cards_of

POOL_COLUMNS = [
    "resource_name",
    "selector",
    "device_class",
    "also",
    "trouble",
    "shares_with",
    "capacity",
    "healthy",
    "allocated",
    "others",
    "largest_block",
    "cards",
    "card_share",
    "arch",
    "observed_at",
]
NODE_COLUMNS = [
    "checks",
    "unhealthy",
    "zone",
    "rack",
    "nvlink_domain",
    "numa",
    "cpus",
    "profile",
    "arch",
    "hugepages",
    "ready",
    "cordoned",
    "reason",
    "capacity",
    "allocated",
    "others",
    "vcpus",
    "memory_gib",
    "observed_at",
]


# what a site may say later than the name of a GPU type
LEARNED = ("compute_capability", "interconnect", "ecc", "mig_capable")


def inventory_digest(inventory: Inventory) -> str:
    """A digest that does not depend on the order of the findings."""
    facts = asdict(inventory)
    for part in ("pools", "nodes"):
        facts[part] = sorted(json.dumps(row, sort_keys=True) for row in facts[part])
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def inventory_apply(*, site: Site, inventory: Inventory, breaches: Mapping[str, str], at: datetime) -> bool:
    """New GPU types become drafts; pools that no longer exist become empty; nodes that no longer exist are removed.

    `inventory` and `breaches` come from `contracts_keep`. True if the site counts under a new name, selects the nodes
    of a pool in another way, no longer has what was sold, or has a new storage class: then every workspace there must be
    closed to the name, be pinned again, or report it.
    """
    before = _ways(site)
    types = _gpu_types([pool.kind for pool in inventory.pools])
    cards, parts = _cards(inventory)
    by_kind = _by_kind(inventory)
    GpuPool.objects.bulk_create(
        [
            GpuPool(
                site=site,
                gpu_type=types[pool.kind.slug],
                resource_name=pool.resource_name,
                selector=dict(pool.selector),
                device_class=pool.device_class,
                also=list(pool.also),
                trouble=pool.trouble[:500],
                shares_with=list(pool.shares_with),
                arch=pool.arch,
                observed_at=at,
                cards=_decimal(cards[pool.kind.slug], 4),
                card_share=_decimal(parts[pool.kind.slug], 12),
                **pool_sums(by_kind[pool.kind.slug]),
            )
            for pool in inventory.pools
        ],
        update_conflicts=True,
        unique_fields=["site", "gpu_type"],
        update_fields=POOL_COLUMNS,
    )
    _shares_write(site, by_kind)
    _gone_write(site, by_kind, breaches, at)
    _nodes_write(site, inventory.nodes, at)
    if inventory.storage_classes is not None:
        storage_classes_write(site=site, found=inventory.storage_classes, at=at)
    return _names_write(site, inventory) or _ways(site) != before


def _by_kind(inventory: Inventory) -> dict[str, list[ObservedNode]]:
    found: dict[str, list[ObservedNode]] = {pool.kind.slug: [] for pool in inventory.pools}
    for node in inventory.nodes:
        if node.kind_slug in found:
            found[node.kind_slug].append(node)
    return found


def _shares_write(site: Site, found: Mapping[str, Sequence[ObservedNode]]) -> None:
    """Once: a site that divides its cards anew later does not change what was sold."""
    for slug in GpuPool.objects.filter(site=site, shares=None).values_list("gpu_type__slug", flat=True):
        sizes = {node.shares for node in found.get(slug, ()) if node.capacity}
        if len(sizes) == 1:
            GpuPool.objects.filter(site=site, gpu_type__slug=slug).update(shares=sizes.pop())


def _gone_write(site: Site, found: Mapping[str, object], breaches: Mapping[str, str], at: datetime) -> None:
    gone = GpuPool.objects.filter(site=site).exclude(gpu_type__slug__in=found)
    gone.update(capacity=0, cards=0, healthy=0, allocated=0, others=0, largest_block=0, observed_at=at)
    for slug in breaches.keys() - found.keys():
        gone.filter(gpu_type__slug=slug).update(trouble=breaches[slug][:500])


def _ways(site: Site) -> set[str]:
    columns = ("resource_name", "selector", "device_class", "also", "trouble")
    rows = GpuPool.objects.filter(site=site).order_by().values_list(*columns)
    classes = StorageClass.objects.filter(site=site).order_by().values_list("name", "plain")
    return {json.dumps(row, sort_keys=True) for row in (*rows, *classes)}


def _names_write(site: Site, inventory: Inventory) -> bool:
    """A name is never removed: a node that brings it back must find it closed."""
    known = {*site.gpu_names}
    named = known | {*inventory.names} | {pool.resource_name for pool in inventory.pools}
    if named == known:
        return False
    Site.objects.filter(pk=site.pk).update(gpu_names=sorted(named))
    return True


def _gpu_types(kinds: Sequence[DeviceKind]) -> dict[str, GpuType]:
    """By slug. Existing values stay, because an operator may have improved a name; empty ones are filled in. Rows are
    written in the order of slugs, so that two sites with the same new types do not deadlock."""
    made = [GpuType(**asdict(kind)) for kind in sorted(kinds, key=lambda kind: kind.slug)]
    GpuType.objects.bulk_create(made, ignore_conflicts=True)
    rows = {row.slug: row for row in GpuType.objects.filter(slug__in=[kind.slug for kind in kinds])}
    learned = []
    for kind in kinds:
        row = rows[kind.slug]
        missing = {name: getattr(kind, name) for name in LEARNED if getattr(row, name) in ("", None)}
        missing = {name: value for name, value in missing.items() if value not in ("", None)}
        if missing:
            for name, value in missing.items():
                setattr(row, name, value)
            learned.append(row)
    if learned:
        changed = GpuType.objects.filter(pk__in=[row.pk for row in learned]).order_by("slug")
        list(changed.select_for_update().values_list("pk", flat=True))
        GpuType.objects.bulk_update(learned, LEARNED)
    return rows


def pool_sums(nodes: Sequence[ObservedNode]) -> dict[str, int]:
    return {
        "capacity": sum(node.capacity for node in nodes),
        "healthy": sum(node.healthy for node in nodes),
        "allocated": sum(min(node.allocated, node.healthy) for node in nodes),
        "others": sum(min(node.others, node.healthy) for node in nodes),
        "largest_block": max((node.largest_block for node in nodes), default=0),
    }


def _cards(inventory: Inventory) -> tuple[dict[str, Fraction], dict[str, Fraction]]:
    """By kind: the cards that its devices are cut from, and the part of one that a device is. Where a node offers the same
    hardware by several names, the card is counted with the one that can be used, or else the whole one; and no name's devices
    are packed beside those of another."""
    pools = {pool.kind.slug: pool for pool in inventory.pools}
    apart = {slug: frozenset(pool.shares_with) for slug, pool in pools.items()}
    by_node: dict[str, list[ObservedNode]] = {}
    for node in inventory.nodes:
        if node.kind_slug in pools and node.capacity:
            by_node.setdefault(node.name, []).append(node)
    cards = dict.fromkeys(pools, Fraction())
    found: dict[str, list[tuple[Fraction, int]]] = {slug: [] for slug in pools}
    for rows in by_node.values():
        cut = {}
        for row in rows:
            beside = [
                row,
                *(each for each in rows if each is not row and each.kind_slug not in apart[row.kind_slug]),
            ]
            devices = [(pools[each.kind_slug].kind, each.capacity, each.shares) for each in beside]
            cut[row.kind_slug] = cards_of(devices)[0]
            found[row.kind_slug].append((cut[row.kind_slug], row.capacity))
        counted: set[str] = set()
        for row in sorted(
            rows, key=lambda one: (one.unhealthy >= one.capacity, -cut[one.kind_slug], one.capacity)
        ):
            if not counted & apart[row.kind_slug]:
                counted.add(row.kind_slug)
                cards[row.kind_slug] += cut[row.kind_slug]
    parts = {}
    for slug, rows_found in found.items():
        count = sum(capacity for _, capacity in rows_found)
        whole = sum((each for each, _ in rows_found), Fraction())
        parts[slug] = whole / count if count else Fraction(1)
    return cards, parts


def _decimal(value: Fraction, places: int) -> Decimal:
    return round(Decimal(value.numerator) / value.denominator, places)


def _nodes_write(site: Site, nodes: Sequence[ObservedNode], at: datetime) -> None:
    pools = dict(GpuPool.objects.filter(site=site).values_list("gpu_type__slug", "pk"))
    before = dict(Node.objects.filter(site=site).values_list("name", "checks"))
    rows = {
        (node.name, pools.get(node.kind_slug)): Node(
            site=site,
            pool_id=pools.get(node.kind_slug),
            name=node.name,
            ready=node.ready,
            cordoned=node.cordoned,
            reason=node.reason[:300],
            capacity=node.capacity,
            allocated=node.allocated,
            others=node.others,
            vcpus=node.vcpus,
            memory_gib=node.memory_gib,
            unhealthy=node.unhealthy,
            **asdict(node.traits),
            checks=conditions_of(node.checks, before.get(node.name, {}), at),
            observed_at=at,
        )
        for node in nodes
    }
    Node.objects.bulk_create(
        list(rows.values()),
        update_conflicts=True,
        unique_fields=["site", "name", "pool"],
        update_fields=NODE_COLUMNS,
        batch_size=1000,
    )
    Node.objects.filter(site=site).exclude(observed_at=at).delete()
