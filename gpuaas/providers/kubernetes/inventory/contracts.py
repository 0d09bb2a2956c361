"""Keeps sold devices under the name they were sold by, even if the site now counts them by other names too."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gpuaas.providers.base import DeviceKind, SoldPool
from gpuaas.providers.contracts import Sold, kinds_apart
from gpuaas.providers.kubeapi.names import selector_text
from gpuaas.providers.kubernetes.inventory.found import Found
from gpuaas.providers.kubernetes.inventory.vendors import vendor_of

COUNT = "nvidia.com/gpu.count"


def apart(found: Sequence[Found], sold: Sold) -> list[Found]:
    kinds = kinds_apart({(each.kind.slug, each.resource_name): each.kind for each in found}, sold)
    return [replace(each, kind=kinds[each.kind.slug, each.resource_name]) for each in found]


@dataclass(frozen=True)
class Once:
    """`found`: each device by one usable name. `shares`: slug → slugs of the same devices. `seconds`: see Inventory."""

    found: list[Found]
    shares: Mapping[str, frozenset[str]] = field(default_factory=dict)
    seconds: tuple[str, ...] = ()


def counted_once(found: Sequence[Found], sold: Sold) -> Once:
    """If a node counts the same cards by several names, only the one that was sold first is usable there."""
    order = {each.kind_slug: number for number, each in enumerate(sold)}
    groups: dict[tuple[str, str, str], list[Found]] = {}
    for each in found:
        groups.setdefault((each.node, _card(each.kind), _part(each)), []).append(each)
    shares: dict[str, set[str]] = {}
    sold_as: dict[tuple[str, str], Found] = {}
    for group in groups.values():
        slugs = {each.kind.slug for each in group}
        if len(slugs) == 1 or _fits(group):
            continue
        for slug in slugs:
            shares.setdefault(slug, set()).update(slugs - {slug})
        if first := min(
            (each for each in group if each.kind.slug in order),
            key=lambda each: order[each.kind.slug],
            default=None,
        ):
            sold_as |= {_key(each): first for each in group if each.kind.slug != first.kind.slug}
    second = [(each, sold_as[_key(each)]) for each in found if _key(each) in sold_as]
    counts = Counter((each.resource_name, first.resource_name, first.kind.name) for each, first in second)
    beside: dict[tuple[str, str], list[Found]] = {}
    for each, first in second:
        beside.setdefault(_key(first), []).append(each)
    return Once(
        found=[
            _closed(_taken_by(each, beside.get(_key(each), ())), sold_as.get(_key(each))) for each in found
        ],
        shares={slug: frozenset(others) for slug, others in shares.items()},
        seconds=tuple(
            f"{name} counts {kind} that are sold as {first} ({nodes} {'node' if nodes == 1 else 'nodes'})"
            for (name, first, kind), nodes in sorted(counts.items())
        ),
    )


def _key(each: Found) -> tuple[str, str]:
    return each.node, each.kind.slug


def _closed(each: Found, first: Found | None) -> Found:
    return each if first is None else replace(each, closed=f"these GPUs are sold as {first.resource_name}")


def _taken_by(each: Found, rest: Iterable[Found]) -> Found:
    """What is taken of the same cards by another name is not free by this one."""
    held = [(min(one.allocated, one.capacity), min(one.others, one.capacity)) for one in rest]
    return replace(
        each,
        allocated=each.allocated + sum(allocated for allocated, _ in held),
        others=each.others + sum(others for _, others in held),
    )


def _card(kind: DeviceKind) -> str:
    return re.sub(r"[^a-z0-9]+", "-", kind.product.lower())


def _part(each: Found) -> str:
    """How a card is partitioned: a slice's profile, or the plugin's resource name for cards in that mode."""
    vendor, name = vendor_of(each.resource_name)
    named = vendor is not None and not vendor.renames and name in vendor.gpu[1:]
    return each.kind.mig_profile or (name if named else "")


def _fits(group: Iterable[Found]) -> bool:
    """Whether the node has enough cards for each name to mean different ones."""
    cards, has = 0, 0
    for each in group:
        count = each.labels.get(COUNT, "")
        has = int(count) if count.isdigit() else 0
        cards += -(-each.capacity // each.shares)
        if each.dra:
            return False
    return cards <= has


def has_labels(each: Found, selector: Mapping[str, str]) -> bool:
    return all(each.labels.get(key) == value for key, value in selector.items())


def out_of_reach(each: Found, contract: SoldPool) -> Found:
    """Devices that the sold selector does not reach are closed."""
    if each.closed or has_labels(each, contract.selector):
        return each
    return replace(
        each,
        closed=f"the node lacks the label {selector_text(contract.selector)}, to which sold workspaces are pinned",
    )


def reached_by_others(slug: str, members: Iterable[Found], sold: Sold) -> str:
    """Which other sold kind would also get these devices, in words."""
    for other in sold:
        if other.kind_slug != slug and any(
            other.resource_name in each.reached_by and has_labels(each, other.selector) for each in members
        ):
            pins = selector_text(other.selector)
            where = f"{other.resource_name} on nodes with {pins}" if pins else other.resource_name
            return f"workspaces that bought {other.kind_slug} ({where}) would get these devices"
    return ""
