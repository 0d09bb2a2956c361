"""Groups devices on nodes into pools, which are sold as one, and finds the label that brings pods to one pool only."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace

from gpuaas.providers.base import DeviceKind, ObservedPool, SoldPool
from gpuaas.providers.contracts import Sold
from gpuaas.providers.kubeapi.names import ARCH_LABEL, selector_text
from gpuaas.providers.kubernetes.inventory.contracts import (
    apart,
    counted_once,
    has_labels,
    out_of_reach,
    reached_by_others,
)
from gpuaas.providers.kubernetes.inventory.found import Found
from gpuaas.providers.kubernetes.inventory.vendors import VENDORS

PRODUCT_LABELS = tuple(label for vendor in VENDORS.values() for label in vendor.product_labels)


@dataclass(frozen=True)
class Pools:
    """`found`: the same devices, each with the kind of its pool. `seconds`: see Inventory."""

    rows: list[ObservedPool]
    found: list[Found]
    seconds: tuple[str, ...] = ()


def pools_of(found: Iterable[Found], pool_label: str, sold: Sold = ()) -> Pools:
    """One per kind. Pods are pinned to it by the operator's pool label or else by the product's label.

    What was `sold` keeps its slug, its name and its labels.
    """
    once = counted_once(apart(list(found), sold), sold)
    contracts = {each.kind_slug: each for each in sold}
    named = [
        out_of_reach(each, contracts[each.kind.slug]) if each.kind.slug in contracts else each
        for each in once.found
    ]
    by_kind: dict[str, list[Found]] = {}
    for each in named:
        by_kind.setdefault(each.kind.slug, []).append(each)
    labels = (pool_label, *PRODUCT_LABELS)
    rows = [
        _pool(by_kind[slug], named, labels, sold, once.shares.get(slug, frozenset()))
        for slug in sorted(by_kind)
    ]
    return Pools(rows, named, once.seconds)


def _pool(
    members: Sequence[Found],
    found: Sequence[Found],
    labels: Iterable[str],
    sold: Sold,
    shares: frozenset[str],
) -> ObservedPool:
    first = members[0]
    archs = {each.labels.get(ARCH_LABEL, "") for each in members}
    others = [
        each for each in found if first.resource_name in each.reached_by and each.kind.slug != first.kind.slug
    ]
    contract = next((each for each in sold if each.kind_slug == first.kind.slug), None)
    if contract is not None:
        selector, trouble = dict(contract.selector), _breach(members, others, contract)
    else:
        selector = _selector(members, others, labels)
        trouble = "" if selector else _trouble(members, others)
    return ObservedPool(
        kind=_best_known(members),
        resource_name=first.resource_name,
        selector=selector,
        trouble=trouble or reached_by_others(first.kind.slug, members, sold),
        shares_with=tuple(sorted(shares.union(*(each.shares_with for each in members)))),
        device_class=first.device_class,
        also=tuple(sorted(set().union(*(each.also for each in members)))),
        arch=archs.pop()[:16] if len(archs) == 1 else "",
    )


def _breach(members: Sequence[Found], others: Sequence[Found], contract: SoldPool) -> str:
    """Why workspaces would not get what was sold, in words; "" if they do."""
    first = members[0]
    if trouble := next((each.trouble for each in members if each.trouble), ""):
        return trouble
    pins = selector_text(contract.selector)
    if rivals := sorted({each.kind.name for each in others if has_labels(each, contract.selector)}):
        where = f" on nodes with {pins}" if pins else ""
        return (
            f"{first.resource_name}{where} also selects {', '.join(rivals)}, which was not sold by that name"
        )
    if all(each.closed for each in members):
        return members[0].closed
    return ""


def _selector(members: Sequence[Found], others: Sequence[Found], labels: Iterable[str]) -> dict[str, str]:
    """The first label that all members share and that none of `others`, which have the same resource name, has too; the architecture
    beside it where it takes both."""
    for keys in [*((label,) for label in labels), *((label, ARCH_LABEL) for label in labels)]:
        values = {tuple(each.labels.get(key, "") for key in keys) for each in members}
        taken = {tuple(each.labels.get(key, "") for key in keys) for each in others}
        if len(values) == 1 and not values & taken and "" not in (found := values.pop()):
            return dict(zip(keys, found, strict=True))
    return {}


def _trouble(members: Sequence[Found], others: Sequence[Found]) -> str:
    """Why it cannot be sold, in words; a device class of its own needs no labels."""
    first = members[0]
    if first.dra and not others:
        return ""
    if others:
        rivals = ", ".join(sorted({each.kind.name for each in others}))
        return (
            f"the site counts {first.kind.name} and {rivals} by one name ({first.resource_name}), and no label "
            f"distinguishes their nodes"
        )
    return f"the nodes of {first.kind.name} share no label, so workspaces cannot be pinned to them"


def _best_known(members: Sequence[Found]) -> DeviceKind:
    """Nodes of one kind may report different attributes of it; an attribute of any node counts, in the order of names."""
    known = members[0].kind
    for each in sorted(members, key=lambda each: each.node):
        unsaid = {
            field.name: getattr(each.kind, field.name)
            for field in fields(known)
            if getattr(known, field.name) in ("", None)
        }
        known = replace(known, **unsaid)
    return known


def agreed_labels(nodes: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """The labels that all of the nodes share."""
    if not nodes:
        return {}
    return dict(set(nodes[0].items()).intersection(*(node.items() for node in nodes[1:])))
