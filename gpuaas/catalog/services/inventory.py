"""What a probe found, written down: set-based, a handful of statements however large the site is."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime

from gpuaas.catalog.models import GpuPool, GpuType, Node, Site
from gpuaas.catalog.services.checks import conditions_of
from gpuaas.providers.base import DeviceKind, Inventory, ObservedNode

POOL_COLUMNS = [
    "resource_name",
    "selector",
    "trouble",
    "shares_with",
    "capacity",
    "healthy",
    "allocated",
    "largest_block",
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
    "hugepages",
    "ready",
    "cordoned",
    "reason",
    "capacity",
    "allocated",
    "vcpus",
    "memory_gib",
    "observed_at",
]


# what a site may say later than the name of a GPU type
LEARNED = ("compute_capability", "interconnect", "ecc", "mig_capable")


def inventory_digest(inventory: Inventory) -> str:
    """The same for the same findings, in whatever order the site told them."""
    found = asdict(inventory)
    for part in ("pools", "nodes"):
        found[part] = sorted(json.dumps(row, sort_keys=True) for row in found[part])
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()


def inventory_apply(*, site: Site, inventory: Inventory, at: datetime) -> bool:
    """New GPU types are drafts; pools that are gone become empty; nodes that are gone are forgotten.

    True where the site counts by a name that was not known, or brings pods to a pool in another way: every workspace
    there has to be closed to the one, or pinned by the other.
    """
    before = _ways(site)
    types = _gpu_types([pool.kind for pool in inventory.pools])
    by_kind: dict[str, list[ObservedNode]] = {pool.kind.slug: [] for pool in inventory.pools}
    for node in inventory.nodes:
        if node.kind_slug in by_kind:
            by_kind[node.kind_slug].append(node)
    GpuPool.objects.bulk_create(
        [
            GpuPool(
                site=site,
                gpu_type=types[pool.kind.slug],
                resource_name=pool.resource_name,
                selector=dict(pool.selector),
                trouble=pool.trouble[:500],
                shares_with=list(pool.shares_with),
                observed_at=at,
                **_sums(by_kind[pool.kind.slug]),
            )
            for pool in inventory.pools
        ],
        update_conflicts=True,
        unique_fields=["site", "gpu_type"],
        update_fields=POOL_COLUMNS,
    )
    gone = GpuPool.objects.filter(site=site).exclude(gpu_type__slug__in=by_kind)
    gone.update(capacity=0, healthy=0, allocated=0, largest_block=0, observed_at=at)
    _nodes_write(site, inventory.nodes, at)
    return _names_write(site, inventory) or _ways(site) != before


def _ways(site: Site) -> set[str]:
    rows = GpuPool.objects.filter(site=site).order_by().values_list("resource_name", "selector")
    return {json.dumps(row, sort_keys=True) for row in rows}


def _names_write(site: Site, inventory: Inventory) -> bool:
    """A name is never forgotten: a node that brings it back must find it closed."""
    known = {*site.gpu_names}
    named = known | {*inventory.names} | {pool.resource_name for pool in inventory.pools}
    if named == known:
        return False
    Site.objects.filter(pk=site.pk).update(gpu_names=sorted(named))
    return True


def _gpu_types(kinds: Sequence[DeviceKind]) -> dict[str, GpuType]:
    """By slug. What is known stays as it is: an operator may have given it a better name. What was not is filled in."""
    GpuType.objects.bulk_create([GpuType(**asdict(kind)) for kind in kinds], ignore_conflicts=True)
    rows = {row.slug: row for row in GpuType.objects.filter(slug__in=[kind.slug for kind in kinds])}
    learned = []
    for kind in kinds:
        row = rows[kind.slug]
        said = {name: getattr(kind, name) for name in LEARNED if getattr(row, name) in ("", None)}
        said = {name: value for name, value in said.items() if value not in ("", None)}
        if said:
            for name, value in said.items():
                setattr(row, name, value)
            learned.append(row)
    if learned:
        GpuType.objects.bulk_update(learned, LEARNED)
    return rows


def _sums(nodes: Sequence[ObservedNode]) -> dict[str, int]:
    return {
        "capacity": sum(node.capacity for node in nodes),
        "healthy": sum(node.healthy for node in nodes),
        "allocated": sum(min(node.allocated, node.healthy) for node in nodes),
        "largest_block": max((node.free for node in nodes), default=0),
    }


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
