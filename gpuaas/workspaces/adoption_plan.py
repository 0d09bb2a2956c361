"""Adoption of what existed at a site: what to propose, what a plan says, and when two plans are equal. Pure."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from math import ceil
from typing import Any
from uuid import UUID

from gpuaas.catalog.models import Flavor
from gpuaas.providers.base import AdoptionStep, ForeignWorkspace, StepSpec

ADOPT = StepSpec("adopt", "Adopt what is there")
KEEP = "keep"

Row = dict[str, Any]


@dataclass(frozen=True)
class Proposal:
    """Flavors × counts for what its consumers hold and its own quota allows; an operator can change them."""

    items: dict[str, int]
    storage_gib: int


def steps_stored(steps: Iterable[AdoptionStep]) -> list[Row]:
    return [asdict(step) for step in steps]


def plan_digest(steps: Iterable[AdoptionStep]) -> str:
    """Covers what would be done and what is blocking; objects that stay may come and go without changing it."""
    rows = [asdict(step) for step in steps if step.action != KEEP or step.blocking]
    lines = sorted(json.dumps(row, sort_keys=True) for row in rows)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def blocking(steps: Iterable[Row]) -> list[Row]:
    return [step for step in steps if step["blocking"]]


def found_stored(found: Iterable[ForeignWorkspace]) -> list[Row]:
    return [{**asdict(one), "created_at": one.created_at.isoformat()} for one in found]


def found_read(row: Row) -> ForeignWorkspace:
    return ForeignWorkspace(**{**row, "created_at": datetime.fromisoformat(row["created_at"])})


def propose(
    found: ForeignWorkspace, flavors: Sequence[Flavor], pools_of_nodes: Mapping[str, frozenset[UUID]]
) -> Proposal:
    """`flavors`: on sale at the site, with their pools loaded. If several pools share a GPU name, the nodes of its
    consumers decide; what a quota allows beyond them goes to the pool with most of them."""
    items: dict[str, int] = {}
    names = sorted({*found.gpus, *found.hard})
    for name in names:
        sold = [flavor for flavor in flavors if flavor.pool.resource_name == name]
        if not sold:
            continue
        wanted = _by_pool(found, name, sold, pools_of_nodes)
        for pool, count in wanted.items():
            flavor, times = _fitting([one for one in sold if one.pool_id == pool], count, found)
            items[flavor.slug] = times
    return Proposal(items=items, storage_gib=found.storage_gib)


def _by_pool(
    found: ForeignWorkspace,
    name: str,
    sold: Sequence[Flavor],
    pools_of_nodes: Mapping[str, frozenset[UUID]],
) -> dict[UUID, int]:
    pools = list(dict.fromkeys(flavor.pool_id for flavor in sold))
    wanted: Counter[UUID] = Counter()
    for node, gpus in found.placed.items():
        there = [pool for pool in pools if pool in pools_of_nodes.get(node, frozenset())]
        wanted[(there or pools)[0]] += gpus.get(name, 0)
    most = wanted.most_common(1)[0][0] if wanted else pools[0]
    total = max(found.gpus.get(name, 0), found.hard.get(name, 0))
    wanted[most] += max(total - wanted.total(), 0)
    return {pool: count for pool, count in wanted.items() if count}


def _fitting(sold: Sequence[Flavor], gpus: int, found: ForeignWorkspace) -> tuple[Flavor, int]:
    """Enough vCPUs and memory first, then the fewest surplus GPUs, then the fewest units."""

    def rank(flavor: Flavor) -> tuple[bool, int, int]:
        times = ceil(gpus / flavor.gpus)
        short = flavor.vcpus * times < found.vcpus or flavor.memory_gib * times < found.memory_gib
        return short, flavor.gpus * times, times

    best = min(sold, key=rank)
    return best, ceil(gpus / best.gpus)
