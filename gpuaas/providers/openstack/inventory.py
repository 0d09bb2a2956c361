"""Takes a cloud's inventory: GPU classes and their hosts from Placement, and their aliases from Nova's flavors."""

import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gpuaas.providers.base import DeviceKind, Inventory, ObservedNode, ObservedPool, SoldPool, Unknown
from gpuaas.providers.kinds import Share, kind
from gpuaas.providers.openstack import flavors, names, pci, placement
from gpuaas.providers.openstack.client import Cloud, Object
from gpuaas.providers.openstack.placement import Provider

TRAIT = "CUSTOM_GPU_"


@dataclass(frozen=True, order=True)
class Cell:
    """Devices of one kind: their class, the trait that names a vGPU's model, and the number of shares of a card."""

    name: str
    trait: str = ""
    shares: int = 1


@dataclass
class Sums:
    """Of one host and kind. block: the most that one provider can give to one consumer."""

    shares: int
    capacity: int = 0
    held: int = 0
    others: int = 0
    out: int = 0
    block: int = 0
    reasons: set[str] = field(default_factory=set)

    def add(self, provider: Provider, name: str) -> None:
        """A reserved device is out of order, unless somebody still holds it."""
        stock = provider.stocks[name]
        held = min(provider.used(name), stock.total)
        self.capacity += stock.total
        self.held += held
        self.others += min(provider.others(name), held)
        self.out += stock.total - max(stock.usable, held)
        self.block = max(self.block, min(max(stock.usable - held, 0), stock.most))
        self.reasons |= {f"{name}: {stock.reason}"} if stock.reason else set()


def take(
    cloud: Cloud, site_id: uuid.UUID, aliases: Mapping[str, str], sold: Sequence[SoldPool] = ()
) -> Inventory:
    """`aliases`: resource class → alias of Nova's configuration, from the site's options; others are guessed."""
    rows = cloud.items("placement", "/resource_providers", "resource_providers")
    providers = placement.providers_of(cloud, site_id, rows)
    hosts = {row["uuid"]: row["name"] for row in rows if row["uuid"] == row["root_provider_uuid"]}
    known = alias_map(cloud, aliases, {name for each in providers for name in each.stocks})
    hypervisors = {row["hypervisor_hostname"]: row for row in cloud.items(*HYPERVISORS)}
    return inventory_of(providers, hosts, hypervisors, known, aliases, sold, version=_version(cloud))


def inventory_of(
    providers: Sequence[Provider],
    hosts: Mapping[str, str],
    hypervisors: Mapping[str, Object],
    known: Mapping[str, str],
    by_hand: Mapping[str, str],
    sold: Sequence[SoldPool] = (),
    *,
    version: str = "",
) -> Inventory:
    """Pure. `hosts`: names by root provider. `known`: resource class → alias; by_hand: those that the operator set."""
    cells = {cell for each in providers for cell in _cells(each)}
    first = _first(cells, sold)
    return Inventory(
        server_version=version,
        pools=tuple(
            ObservedPool(
                kind=_kind(cell),
                resource_name=cell.name,
                selector=_selector(cell, known),
                trouble=_alike(cell, cells),
                by_hand=cell.name in by_hand,
            )
            for cell in first.values()
        ),
        nodes=tuple(
            node
            for root, host in sorted(hosts.items(), key=lambda item: item[1])
            for node in _nodes(
                host, [each for each in providers if each.root == root], first, hypervisors.get(host)
            )
        ),
        names=tuple(sorted({cell.name for cell in cells})),
        unknown=tuple(_seconds(providers, hosts, first)),
    )


def _first(cells: Iterable[Cell], sold: Sequence[SoldPool]) -> dict[str, Cell]:
    """By slug: what counts the kind. Of two classes for one kind it is the one that was sold."""
    before = {(each.kind_slug, each.resource_name) for each in sold}
    order = sorted(cells, key=lambda cell: ((_kind(cell).slug, cell.name) not in before, cell))
    found: dict[str, Cell] = {}
    for cell in order:
        found.setdefault(_kind(cell).slug, cell)
    return dict(sorted(found.items()))


def _alike(cell: Cell, cells: Iterable[Cell]) -> str:
    """Why machines cannot choose it: others are requested by the same class and trait."""
    alike = [each for each in sorted(cells) if (each.name, each.trait) == (cell.name, cell.trait)]
    rivals = sorted({_kind(each).name for each in alike} - {_kind(cell).name})
    if not rivals:
        return ""
    asked = f"{cell.name} with the trait {cell.trait}" if cell.trait else cell.name
    return f"machines that request it may also get {' or '.join(rivals)}, since both are {asked}"


def _seconds(
    providers: Iterable[Provider], hosts: Mapping[str, str], first: Mapping[str, Cell]
) -> Iterator[Unknown]:
    """Devices of a class whose kind is counted by another class."""
    found: Counter[tuple[str, str, str]] = Counter()
    for each in providers:
        for cell in _cells(each):
            own = first[_kind(cell).slug]
            if not _same(cell, own):
                reason = f"GPUs of this type are sold as {own.name}: give these another model"
                found[hosts.get(each.root, each.root), cell.name, reason] += each.stocks[cell.name].total
    for (host, name, reason), count in sorted(found.items()):
        yield Unknown(host, name, count, reason)


def _same(cell: Cell, other: Cell) -> bool:
    return (cell.name, cell.trait) == (other.name, other.trait)


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


def _cells(provider: Provider) -> Iterator[Cell]:
    """Shares follow from how many there are, reserved or not. A whole card is a provider with a total of 1."""
    for name, stock in provider.stocks.items():
        if name == names.VGPU:
            traits = sorted(trait for trait in provider.traits if trait.startswith(TRAIT))
            yield Cell(name, traits[0] if traits else "", stock.total)
        elif names.is_gpu_class(name):
            yield Cell(name, shares=stock.total)


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
    host: str, providers: Iterable[Provider], first: Mapping[str, Cell], hypervisor: Object | None
) -> Iterator[ObservedNode]:
    sums: dict[str, Sums] = {}
    plain: Counter[str] = Counter()
    for each in providers:
        plain.update(
            {name: each.stocks[name].unreserved for name in ("VCPU", "MEMORY_MB") if name in each.stocks}
        )
        for cell in _cells(each):
            slug = _kind(cell).slug
            if _same(cell, first[slug]):
                sums.setdefault(slug, Sums(cell.shares)).add(each, cell.name)
    if not plain and not sums:
        return  # a provider of shared storage
    state = (hypervisor or {}).get("state", "down")
    disabled = (hypervisor or {}).get("status", "enabled") == "disabled"
    silent = [] if state == "up" else ["its compute service does not report to Nova"]
    for slug, row in sorted(sums.items()) or [("", Sums(1))]:
        by_class = slug and first[slug].name == names.VGPU  # Nova requests passed-through cards one by one
        yield ObservedNode(
            name=host,
            kind_slug=slug,
            capacity=row.capacity,
            allocated=row.held,
            others=row.others,
            unhealthy=row.out,
            block=row.block if by_class else None,
            shares=row.shares,
            vcpus=plain["VCPU"],
            memory_gib=plain["MEMORY_MB"] // 1024,
            ready=state == "up",
            cordoned=disabled,
            reason="; ".join([*silent, *sorted(row.reasons)]),
        )


def _version(cloud: Cloud) -> str:
    """Nova's newest microversion identifies the release."""
    found = cloud.get("compute", "/").get("version") or {}
    return f"Nova {found.get('version', '')}".strip()
