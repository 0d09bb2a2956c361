"""Which grants pay how much of a document: a pure rule. See rating.md, section 12."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from billing.money import largest_remainder


@dataclass(frozen=True)
class Offer:
    """What a grant has left, and the GPU types that it may pay for; empty means everything."""

    grant_id: uuid.UUID
    left: int
    gpu_types: frozenset[str]

    def pays(self, gpu_type: str) -> bool:
        return not self.gpu_types or gpu_type in self.gpu_types


def pools_of(net: Mapping[str, int], total: int) -> dict[str, int]:
    """A document's total, with tax and corrections, divided over its GPU types in proportion to their cost."""
    positive = {name: amount for name, amount in sorted(net.items()) if amount > 0}
    if total <= 0 or not positive:
        return {}
    shares = largest_remainder(
        [amount * total for amount in positive.values()], sum(positive.values()), total
    )
    return dict(zip(positive, shares, strict=True))


def cover(pools: Mapping[str, int], offers: Sequence[Offer]) -> dict[uuid.UUID, int]:
    """What each grant pays. The first ones (they expire first) pay first; each takes first what the fewest other
    grants could pay, so that a grant for one GPU type is not left over because a general one paid in its place."""
    left, paid = dict(pools), {}
    for number, offer in enumerate(offers):
        later = offers[number + 1 :]
        mine = sorted(
            (name for name in left if offer.pays(name)),
            key=lambda name: (sum(other.pays(name) for other in later), name),
        )
        spent = 0
        for name in mine:
            part = min(left[name], offer.left - spent)
            left[name] -= part
            spent += part
        if spent:
            paid[offer.grant_id] = spent
    return paid
