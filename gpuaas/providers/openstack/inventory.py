"""Takes a cloud's inventory: GPU classes and their hosts from Placement, and their aliases from Nova's flavors."""

import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gpuaas.providers.base import DeviceKind, Inventory, ObservedNode, ObservedPool, SoldPool, Unknown
from gpuaas.providers.kinds import Share, kind
from gpuaas.providers.openstack import flavors, pci, placement
from gpuaas.providers.openstack.classes import PCI_CLASS, VGPU, Classes
from gpuaas.providers.openstack.client import Cloud, Object
from gpuaas.providers.openstack.placement import Provider

TRAIT = "CUSTOM_GPU_"


@dataclass(frozen=True, order=True)
class Cell:
    """Devices of one kind: their class, the trait that names a vGPU's model, the number of shares of a card, and the model that
    the operator named."""

    name: str
    trait: str = ""
    shares: int = 1
    model: str = ""


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
    cloud: Cloud,
    site_id: uuid.UUID,
    classes: Classes,
    aliases: Mapping[str, str],
    sold: Sequence[SoldPool] = (),
) -> Inventory:
    """`aliases`: resource class → alias of Nova's configuration, from the site's options; others are as they were sold, or
    guessed."""
    rows = cloud.items("placement", "/resource_providers", "resource_providers")
    providers = placement.providers_of(cloud, site_id, rows, classes)
    hosts = {row["uuid"]: row["name"] for row in rows if row["uuid"] == row["root_provider_uuid"]}
    before = {each.resource_name: alias for each in sold if (alias := each.selector.get(flavors.ALIAS))}
    known = alias_map(
        cloud, classes, {**before, **aliases}, {name for each in providers for name in each.stocks}
    )
    hypervisors = {row["hypervisor_hostname"]: row for row in cloud.items(*HYPERVISORS)}
    return inventory_of(providers, hosts, hypervisors, classes, known, aliases, sold, version=_version(cloud))


def inventory_of(
    providers: Sequence[Provider],
    hosts: Mapping[str, str],
    hypervisors: Mapping[str, Object],
    classes: Classes,
    known: Mapping[str, str],
    by_hand: Mapping[str, str],
    sold: Sequence[SoldPool] = (),
    *,
    version: str = "",
) -> Inventory:
    """Pure. `hosts`: names by root provider. `known`: resource class → alias; by_hand: those that the operator set."""
    cells = {cell for each in providers for cell in _cells(each, classes)}
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
                host,
                [each for each in providers if each.root == root],
                classes,
                {slug: (cell, _selector(cell, known)) for slug, cell in first.items()},
                hypervisors.get(host),
            )
        ),
        names=tuple(sorted({name for each in providers for name in each.stocks if classes.is_gpu(name)})),
        unknown=tuple(_unknown(providers, hosts, classes, first)),
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


NAMELESS = "the portal does not know what this class is"


def _unknown(
    providers: Iterable[Provider], hosts: Mapping[str, str], classes: Classes, first: Mapping[str, Cell]
) -> Iterator[Unknown]:
    """Devices of a class that nobody has explained, or whose type is sold as another class."""
    found: Counter[tuple[str, str, str]] = Counter()
    for each in providers:
        for name, stock in each.stocks.items():
            if classes.is_gpu(name) and not classes.is_known(name):
                found[hosts.get(each.root, each.root), name, NAMELESS] += stock.total
        for cell in _cells(each, classes):
            own = first[_kind(cell).slug]
            if not _same(cell, own):
                reason = f"GPUs of this type are sold as {own.name}: give these another model"
                found[hosts.get(each.root, each.root), cell.name, reason] += each.stocks[cell.name].total
    for (host, name, reason), count in sorted(found.items()):
        yield Unknown(host, name, count, reason)


def _same(cell: Cell, other: Cell) -> bool:
    return (cell.name, cell.trait) == (other.name, other.trait)


HYPERVISORS = ("compute", "/os-hypervisors/detail", "hypervisors")


def alias_map(
    cloud: Cloud, classes: Classes, given: Mapping[str, str], there: Iterable[str]
) -> dict[str, str]:
    """Resource class → alias: as given, or else the only alias of the site's flavors that is part of the type's name."""
    fitting = _fitting(cloud, classes, there)
    guessed = {name: found[0] for name, found in fitting.items() if len(found) == 1}
    return {**guessed, **given}


def with_aliases(cloud: Cloud, classes: Classes, given: Mapping[str, str]) -> Classes:
    """With each alias of the site's flavors by which devices of one class are requested: several may be, but one is sold."""
    rows = cloud.items("placement", "/resource_classes", "resource_classes")
    meant: dict[str, set[str]] = {}
    for name, found in _fitting(cloud, classes, (row["name"] for row in rows)).items():
        for alias in found:
            meant.setdefault(alias, set()).add(name)
    guessed = {alias: next(iter(found)) for alias, found in meant.items() if len(found) == 1}
    return replace(classes, aliases={**guessed, **{alias: name for name, alias in given.items()}})


def _fitting(cloud: Cloud, classes: Classes, there: Iterable[str]) -> dict[str, list[str]]:
    """Aliases that are part of the name of a class's type."""
    asked = {
        name
        for row in flavors.all_flavors(cloud)
        for name in flavors.gpus_of(row.get("extra_specs") or {}, classes)
        if not classes.is_gpu(name)
    }
    found = {}
    for name in sorted(set(there)):
        if name.startswith(PCI_CLASS) and classes.is_known(name):
            slug = _kind(Cell(name, model=classes.model_of(name)[0])).slug.replace("-", "")
            found[name] = [
                alias for alias in sorted(asked) if alias.replace("-", "").replace("_", "").lower() in slug
            ]
    return found


def _cells(provider: Provider, classes: Classes) -> Iterator[Cell]:
    """Of what is understood. Shares follow from how many there are, reserved or not: a whole card is a provider with a total of 1.
    Of a class that the operator named they are as he said."""
    for name, stock in provider.stocks.items():
        model, shares = classes.model_of(name)
        if not classes.is_known(name):
            continue
        if model:
            yield Cell(name, shares=shares, model=model)
        elif name == VGPU:
            traits = sorted(trait for trait in provider.traits if trait.startswith(TRAIT))
            yield Cell(name, traits[0] if traits else "", stock.total)
        else:
            yield Cell(name, shares=stock.total)


def _kind(cell: Cell) -> DeviceKind:
    product, memory = pci.product_called(cell.model) if cell.model else pci.product_of(cell.name)
    if cell.name == VGPU:
        product, memory = pci.product_named(cell.trait.removeprefix(TRAIT) or "vGPU")
    share = Share(cell.shares, limited=True, word="vGPU") if cell.shares > 1 else None
    return kind(product.removesuffix("-VF"), memory_mib=memory, share=share)


def _selector(cell: Cell, aliases: Mapping[str, str]) -> dict[str, str]:
    """Passed-through cards are requested by an alias, everything else by its class."""
    if alias := aliases.get(cell.name):
        return {flavors.ALIAS: alias}
    if cell.name.startswith(PCI_CLASS):
        return {}
    return {f"resources:{cell.name}": "1", **({f"trait:{cell.trait}": "required"} if cell.trait else {})}


def _nodes(
    host: str,
    providers: Iterable[Provider],
    classes: Classes,
    sold: Mapping[str, tuple[Cell, Mapping[str, str]]],
    hypervisor: Object | None,
) -> Iterator[ObservedNode]:
    """`sold`: by slug, with the selector."""
    sums: dict[str, Sums] = {}
    plain: Counter[str] = Counter()
    for each in providers:
        plain.update(
            {name: each.stocks[name].unreserved for name in ("VCPU", "MEMORY_MB") if name in each.stocks}
        )
        for cell in _cells(each, classes):
            slug = _kind(cell).slug
            if _same(cell, sold[slug][0]):
                sums.setdefault(slug, Sums(cell.shares)).add(each, cell.name)
    if not plain and not sums:
        return  # a provider of shared storage
    state, status = (hypervisor or {}).get("state", "down"), (hypervisor or {}).get("status", "enabled")
    silent = [] if state == "up" else ["its compute service does not report to Nova"]
    for slug, row in sorted(sums.items()) or [("", Sums(1))]:
        # Nova requests passed-through cards one by one, and all else of one provider
        at_once = slug and flavors.ALIAS not in sold[slug][1]
        yield ObservedNode(
            name=host,
            kind_slug=slug,
            capacity=row.capacity,
            allocated=row.held,
            others=row.others,
            unhealthy=row.out,
            block=row.block if at_once else None,
            shares=row.shares,
            vcpus=plain["VCPU"],
            memory_gib=plain["MEMORY_MB"] // 1024,
            ready=state == "up",
            cordoned=status == "disabled",
            reason="; ".join([*silent, *sorted(row.reasons)]),
        )


def _version(cloud: Cloud) -> str:
    """Nova's newest microversion identifies the release."""
    found = cloud.get("compute", "/").get("version") or {}
    return f"Nova {found.get('version', '')}".strip()
