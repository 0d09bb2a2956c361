"""Takes a cloud's inventory: GPU classes and their hosts from Placement, and their aliases from Nova's flavors.

Placement needs a call for every provider's inventory and another for its usage, and every GPU is a provider: so both are
cached for as long as the provider's generation, which changes with them, is the same.
"""

import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from gpuaas.providers.base import DeviceKind, Inventory, ObservedNode, ObservedPool
from gpuaas.providers.kinds import Share, kind
from gpuaas.providers.openstack import flavors, names, pci
from gpuaas.providers.openstack.client import Cloud, Object

PARALLEL = 8
TRAIT = "CUSTOM_GPU_"


@dataclass(frozen=True, order=True)
class Cell:
    """Devices of one kind: their class, the trait that names a vGPU's model, and the number of shares of a card."""

    name: str
    trait: str = ""
    shares: int = 1


@dataclass(frozen=True)
class Provider:
    """One resource provider: a host, or a GPU in it."""

    root: str
    inventory: Mapping[str, int]
    used: Mapping[str, int]
    traits: frozenset[str]


_read: dict[tuple[uuid.UUID, str], tuple[int, Provider]] = {}


def take(cloud: Cloud, site_id: uuid.UUID, aliases: Mapping[str, str]) -> Inventory:
    """`aliases`: resource class → alias of Nova's configuration, from the site's options; others are guessed."""
    rows = cloud.items("placement", "/resource_providers", "resource_providers")
    providers = _providers(cloud, site_id, rows)
    hosts = {row["uuid"]: row["name"] for row in rows if row["uuid"] == row["root_provider_uuid"]}
    kinds = {cell: _kind(cell) for cell in sorted({cell for each in providers for cell in _cells(each)})}
    known = alias_map(cloud, aliases, [cell.name for cell in kinds])
    hypervisors = {row["hypervisor_hostname"]: row for row in cloud.items(*HYPERVISORS)}
    return Inventory(
        server_version=_version(cloud),
        pools=tuple(
            ObservedPool(
                kind=found,
                resource_name=cell.name,
                selector=_selector(cell, known),
                by_hand=cell.name in aliases,
            )
            for cell, found in kinds.items()
        ),
        nodes=tuple(
            node
            for root, host in sorted(hosts.items(), key=lambda item: item[1])
            for node in _nodes(
                host, [each for each in providers if each.root == root], kinds, hypervisors.get(host)
            )
        ),
    )


HYPERVISORS = ("compute", "/os-hypervisors/detail", "hypervisors")


def alias_map(cloud: Cloud, given: Mapping[str, str], classes: Iterable[str]) -> dict[str, str]:
    """Resource class → alias: as given, or else the only alias of the site's flavors that is part of the type's name."""
    asked = {
        name
        for row in flavors.all_flavors(cloud)
        for name in flavors.gpus_of(row.get("extra_specs") or {})
        if not names.is_gpu_class(name)
    }
    known = dict(given)
    for name in sorted(set(classes)):
        if name.startswith(names.PCI_CLASS) and name not in known:
            slug = _kind(Cell(name)).slug.replace("-", "")
            fitting = [
                alias for alias in sorted(asked) if alias.replace("-", "").replace("_", "").lower() in slug
            ]
            if len(fitting) == 1:
                known[name] = fitting[0]
    return known


def gpu_classes(cloud: Cloud) -> list[str]:
    rows = cloud.items("placement", "/resource_classes", "resource_classes")
    return sorted(row["name"] for row in rows if names.is_gpu_class(row["name"]))


def _providers(cloud: Cloud, site_id: uuid.UUID, rows: list[Object]) -> list[Provider]:
    def read(row: Object) -> Provider:
        kept = _read.get((site_id, row["uuid"]))
        if kept is not None and kept[0] == row["generation"]:
            return kept[1]
        path = f"/resource_providers/{row['uuid']}"
        inventory = cloud.get("placement", f"{path}/inventories")["inventories"]
        made = Provider(
            root=row["root_provider_uuid"],
            inventory={name: each["total"] - each["reserved"] for name, each in inventory.items()},
            used=cloud.get("placement", f"{path}/usages")["usages"],
            traits=frozenset(cloud.get("placement", f"{path}/traits")["traits"]),
        )
        _read[site_id, row["uuid"]] = (row["generation"], made)
        return made

    with ThreadPoolExecutor(PARALLEL) as pool:
        return list(pool.map(read, rows))


def _cells(provider: Provider) -> Iterator[Cell]:
    for name, total in provider.inventory.items():
        if name == names.VGPU:
            traits = sorted(trait for trait in provider.traits if trait.startswith(TRAIT))
            yield Cell(name, traits[0] if traits else "", total)
        elif names.is_gpu_class(name):
            yield Cell(name, shares=total)  # a whole card is a provider with a total of 1


def _kind(cell: Cell) -> DeviceKind:
    product, memory = pci.product_of(cell.name)
    if cell.name == names.VGPU:
        product, memory = pci.product_named(cell.trait.removeprefix(TRAIT) or "vGPU")
    share = Share(cell.shares, limited=True, word="vGPU") if cell.shares > 1 else None
    return kind(product.removesuffix("-VF"), memory_mib=memory, share=share)


def _selector(cell: Cell, aliases: Mapping[str, str]) -> dict[str, str]:
    if cell.name == names.VGPU:
        return {f"resources:{names.VGPU}": "1", **({f"trait:{cell.trait}": "required"} if cell.trait else {})}
    alias = aliases.get(cell.name)
    return {flavors.ALIAS: alias} if alias else {}


def _nodes(
    host: str,
    providers: list[Provider],
    kinds: Mapping[Cell, DeviceKind],
    hypervisor: Object | None,
) -> Iterator[ObservedNode]:
    capacity: Counter[Cell] = Counter()
    used: Counter[Cell] = Counter()
    plain: Counter[str] = Counter()
    for each in providers:
        plain.update({name: each.inventory[name] for name in ("VCPU", "MEMORY_MB") if name in each.inventory})
        for cell in _cells(each):
            capacity[cell] += each.inventory[cell.name]
            used[cell] += each.used.get(cell.name, 0)
    if not plain and not capacity:
        return  # a provider of shared storage
    state = (hypervisor or {}).get("state", "down")
    disabled = (hypervisor or {}).get("status", "enabled") == "disabled"
    for cell in sorted(capacity) or [Cell("")]:
        yield ObservedNode(
            name=host,
            kind_slug=kinds[cell].slug if cell in kinds else "",
            capacity=capacity[cell],
            allocated=used[cell],
            shares=cell.shares,
            vcpus=plain["VCPU"],
            memory_gib=plain["MEMORY_MB"] // 1024,
            ready=state == "up",
            cordoned=disabled,
            reason="" if state == "up" else "its compute service does not report to Nova",
        )


def _version(cloud: Cloud) -> str:
    """Nova's newest microversion identifies the release."""
    found = cloud.get("compute", "/").get("version") or {}
    return f"Nova {found.get('version', '')}".strip()
