"""The condition of a site that says which of its GPUs are not sold because others use them, or nobody knows what they are."""

from collections import Counter
from datetime import datetime

from gpuaas.core.conditions import Status, Stored, condition_set
from gpuaas.providers.base import Inventory

COUNTED = "Counted"
REMEDY = (
    "Make the site describe these GPUs, as each reason says, or take them out of the site; until then nobody can buy or use "
    "them here."
)


def counted(stored: Stored, inventory: Inventory, now: datetime) -> Stored:
    """In other hands is no fault of a site that is shared; what is not understood is one."""
    unknown, taken = _unknown(inventory), _in_other_hands(inventory)
    status, reason, remedy = Status.TRUE, "AllOurs", ""
    message = "No GPU of the site is used by others, and it is known of each what it is."
    if taken:
        reason, message = "InOtherHands", f"Used by what this portal does not manage, and not sold: {taken}."
    if unknown:
        status, reason, remedy = Status.FALSE, "NotUnderstood", REMEDY
        message = f"Not understood, and not sold: {unknown}.{f' {message}' if taken else ''}"
    return condition_set(
        stored, type=COUNTED, status=status, reason=reason, message=message[:2000], remedy=remedy, now=now
    )


def _in_other_hands(inventory: Inventory) -> str:
    names = {pool.kind.slug: pool.kind.name for pool in inventory.pools}
    others, capacity = Counter[str](), Counter[str]()
    for node in inventory.nodes:
        if node.kind_slug in names:
            others[names[node.kind_slug]] += min(node.others, node.capacity)
            capacity[names[node.kind_slug]] += node.capacity
    return ", ".join(f"{count} of {capacity[name]} {name}" for name, count in sorted(others.items()) if count)


def _unknown(inventory: Inventory) -> str:
    found, places = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for each in inventory.unknown:
        found[each.name, each.reason] += each.count
        places[each.name, each.reason] += 1
    return "; ".join(
        f"{count} {name} ({places[name, reason]} {'place' if places[name, reason] == 1 else 'places'}): {reason}"
        for (name, reason), count in sorted(found.items())
    )
