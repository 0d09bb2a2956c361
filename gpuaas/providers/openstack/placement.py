"""Reads a cloud's resource providers from Placement: what each has, what of it can be had, and who holds it.

A provider's inventory and traits are cached for as long as its generation is the same. Its allocations are not: Placement
raises the generation when it allocates, but not when allocations go. So they are read again if the generation has moved,
or if anybody held devices there at the last look.
"""

import uuid
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from gpuaas.providers.openstack import names
from gpuaas.providers.openstack.classes import Classes
from gpuaas.providers.openstack.client import Cloud, Object

PARALLEL = 8


@dataclass(frozen=True)
class Stock:
    """What a provider has of one class. unreserved: whatever can be had of them; usable: as many as can be held at once, and
    `most` by one consumer."""

    total: int
    unreserved: int
    usable: int
    most: int
    reason: str = ""  # why nobody can have any


@dataclass(frozen=True)
class Provider:
    """One resource provider: a host, or a GPU in it. held: consumer → devices by class; foreign: consumers that are not ours."""

    root: str
    stocks: Mapping[str, Stock]
    traits: frozenset[str]
    held: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    foreign: frozenset[str] = frozenset()

    def used(self, name: str) -> int:
        return sum(row.get(name, 0) for row in self.held.values())

    def others(self, name: str) -> int:
        return sum(row.get(name, 0) for consumer, row in self.held.items() if consumer in self.foreign)


_read: dict[uuid.UUID, dict[str, tuple[int, Provider]]] = {}
_owners: dict[uuid.UUID, dict[str, str]] = {}  # by consumer: its project


def providers_of(cloud: Cloud, site_id: uuid.UUID, rows: list[Object], classes: Classes) -> list[Provider]:
    """`rows`: all resource providers, as Placement lists them."""
    before = _read.get(site_id, {})

    def read(row: Object) -> tuple[int, Provider] | None:
        path, known = f"/resource_providers/{row['uuid']}", before.get(row["uuid"])
        if known is not None and known[0] == row["generation"]:
            found, moved = known[1], False
        else:
            inventory, traits = cloud.find("placement", f"{path}/inventories"), _traits(cloud, path)
            if inventory is None:
                return None  # it went meanwhile
            stocks = {name: stock_of(each) for name, each in inventory["inventories"].items()}
            found, moved = Provider(row["root_provider_uuid"], stocks, traits), True
        if (moved or found.held) and any(map(classes.is_gpu, found.stocks)):
            found = replace(found, held=_holders(cloud, path, classes))
        return row["generation"], found

    with ThreadPoolExecutor(PARALLEL) as pool:
        answers = list(pool.map(read, rows))
    made = {row["uuid"]: each for row, each in zip(rows, answers, strict=True) if each is not None}
    _read[site_id] = made
    found = [provider for _, provider in made.values()]
    foreign = _foreign(cloud, site_id, found)
    return [replace(each, foreign=foreign & each.held.keys()) for each in found]


def stock_of(row: Object) -> Stock:
    """Of a provider's inventory of one class. More than there are cannot be held, whatever the ratio, and devices that are given
    out only by several are not sold one by one."""
    unreserved = max(row["total"] - row["reserved"], 0)
    usable = min(int(unreserved * row["allocation_ratio"]), unreserved)
    step = max(row["min_unit"], row["step_size"])
    most: int = row["max_unit"]
    reason = f"Placement gives them out only by {step}" if step > 1 else ""
    if most < 1:
        reason = "Placement gives out none, as max_unit is 0"
    return Stock(row["total"], unreserved, 0 if reason else usable, most, reason)


def _traits(cloud: Cloud, path: str) -> frozenset[str]:
    return frozenset((cloud.find("placement", f"{path}/traits") or {}).get("traits") or ())


def _holders(cloud: Cloud, path: str, classes: Classes) -> dict[str, dict[str, int]]:
    rows = (cloud.find("placement", f"{path}/allocations") or {}).get("allocations") or {}
    held = {
        consumer: {name: count for name, count in row["resources"].items() if classes.is_gpu(name)}
        for consumer, row in rows.items()
    }
    return {consumer: row for consumer, row in held.items() if row}


def _foreign(cloud: Cloud, site_id: uuid.UUID, providers: Iterable[Provider]) -> frozenset[str]:
    """Consumers whose project is none of the portal's; one that has just gone is nobody's."""
    consumers = sorted({consumer for each in providers for consumer in each.held})
    if not consumers:
        return frozenset()
    known = _owners.get(site_id, {})

    def owner(consumer: str) -> str:
        return known.get(consumer) or str(
            cloud.get("placement", f"/allocations/{consumer}").get("project_id") or ""
        )

    with ThreadPoolExecutor(PARALLEL) as pool:
        owners = dict(zip(consumers, pool.map(owner, consumers), strict=True))
    _owners[site_id] = owners
    tags = f"{names.MANAGED},{names.CLUSTERS}"
    ours = {row["id"] for row in cloud.items("identity", "/projects", "projects", **{"tags-any": tags})}
    return frozenset(consumer for consumer, project in owners.items() if project and project not in ours)
