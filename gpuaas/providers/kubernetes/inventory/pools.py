"""From devices on nodes to pools: what is sold as one thing, and how pods are brought to it and to nothing else."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace

from gpuaas.providers.base import DeviceKind, ObservedPool
from gpuaas.providers.kubernetes.inventory.found import Found
from gpuaas.providers.kubernetes.inventory.vendors import VENDORS

PRODUCT_LABELS = tuple(label for vendor in VENDORS.values() for label in vendor.product_labels)


@dataclass(frozen=True)
class Pools:
    """`found`: the same devices, each by the kind of its pool."""

    rows: list[ObservedPool]
    found: list[Found]


def pools_of(found: Iterable[Found], pool_label: str) -> Pools:
    """One per kind. The operator's pool label brings pods to it; without one, the product's label."""
    apart = _apart(list(found))
    by_kind: dict[str, list[Found]] = {}
    for each in apart:
        by_kind.setdefault(each.kind.slug, []).append(each)
    labels = (pool_label, *PRODUCT_LABELS)
    return Pools([_pool(by_kind[slug], apart, labels) for slug in sorted(by_kind)], apart)


def _apart(found: list[Found]) -> list[Found]:
    """Devices of one kind that the site counts by two names are two pools: a workspace buys one name or the other.

    The name that comes first keeps the kind's plain slug: short ones are the usual ones.
    """
    names: dict[str, set[str]] = {}
    for each in found:
        names.setdefault(each.kind.slug, set()).add(each.resource_name)
    plain = {slug: min(each, key=lambda name: (len(name), name)) for slug, each in names.items()}
    return [
        each if each.resource_name == plain[each.kind.slug] else replace(each, kind=_renamed(each))
        for each in found
    ]


def _renamed(each: Found) -> DeviceKind:
    tail = each.resource_name.rpartition("/")[2].lower().replace("_", "-")
    return replace(each.kind, slug=f"{each.kind.slug}-{tail}"[:64], name=f"{each.kind.name} ({tail})")


def _pool(members: Sequence[Found], found: Sequence[Found], labels: Iterable[str]) -> ObservedPool:
    first = members[0]
    others = [
        each for each in found if first.resource_name in each.reached_by and each.kind.slug != first.kind.slug
    ]
    selector = _selector(members, others, labels)
    return ObservedPool(
        kind=_best_known(members),
        resource_name=first.resource_name,
        selector=selector,
        trouble="" if selector else _trouble(members, others),
        shares_with=tuple(sorted(set().union(*(each.shares_with for each in members)))),
    )


def _selector(members: Sequence[Found], others: Sequence[Found], labels: Iterable[str]) -> dict[str, str]:
    """The first label on which all members agree and that none of `others`, which go by the same name, has too."""
    for label in labels:
        values = {each.labels.get(label, "") for each in members}
        taken = {each.labels.get(label, "") for each in others}
        if len(values) == 1 and "" not in values and not values & taken:
            return {label: values.pop()}
    return {}


def _trouble(members: Sequence[Found], others: Sequence[Found]) -> str:
    """Why it cannot be sold; a device class of its own needs no nodes to be told apart."""
    first = members[0]
    if first.dra and not others:
        return ""
    if others:
        rivals = ", ".join(sorted({each.kind.name for each in others}))
        return (
            f"the site counts {first.kind.name} and {rivals} by one name ({first.resource_name}), and no label tells "
            f"their nodes apart"
        )
    return f"the nodes of {first.kind.name} share no label, so nothing would keep its workspaces on them"


def _best_known(members: Sequence[Found]) -> DeviceKind:
    """Nodes of one kind may say more or less about it; what one says counts for all, in the order of their names."""
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
    """The labels that all of the nodes have alike."""
    if not nodes:
        return {}
    return dict(set(nodes[0].items()).intersection(*(node.items() for node in nodes[1:])))
