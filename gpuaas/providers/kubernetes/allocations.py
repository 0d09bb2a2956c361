"""The allocations of ResourceClaims as they are told, and the pods that say whose each is and when it ended.

Two watches keep no order between them. What is told of an allocation before its pods are known is told again, better, when
they are.
"""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeVar

from gpuaas.core.clock import now
from gpuaas.providers.base import ObservedConsumer, UsageEvent, UsageKind

REMEMBERED = 10_000
Kept = TypeVar("Kept")


@dataclass(frozen=True)
class Allocation:
    """A claim's consumer, its namespace, the pod it was made for ("" where it is a claim in its own right), and the pods
    that last had the right to use it."""

    space: str
    consumer: ObservedConsumer
    maker: str
    users: tuple[str, ...]


@dataclass
class ClaimBook:
    """The allocations there were at a version: the end of one no longer tells which it was."""

    version: str = ""
    held: dict[str, Allocation] = field(default_factory=dict)  # by the claim's uid


class Claimants:
    """Of pods that use claims: what made them, when they ended, and what waits to hear of them."""

    def __init__(self) -> None:
        self.owners: OrderedDict[str, str] = OrderedDict()
        self._ends: OrderedDict[str, datetime] = OrderedDict()
        # by the pod's uid, then the consumer's: what was told last
        self._waiting: OrderedDict[str, dict[str, tuple[Allocation, UsageEvent]]] = OrderedDict()

    def forget_waiting(self) -> None:
        """A list begins: it tells everything anew."""
        self._waiting.clear()

    def tell(self, allocation: Allocation, kind: UsageKind) -> UsageEvent:
        """Its end bears no time: that of the last pod that used it, where all were seen to end."""
        consumer, missing = self._best(allocation, kind)
        event = UsageEvent(kind, now(), "", allocation.space, consumer)
        for pod in missing:
            remember(self._waiting, pod, self._waiting.get(pod, {}) | {consumer.uid: (allocation, event)})
        return event

    def note(self, uid: str, *, owner: str, ended_at: datetime | None) -> Iterator[UsageEvent]:
        """A pod was told of; what was told of its allocations and is better known now."""
        remember(self.owners, uid, owner)
        if ended_at is not None:
            remember(self._ends, uid, ended_at)
        for allocation, told in self._waiting.pop(uid, {}).values():
            event = self.tell(allocation, told.kind)
            if event.consumer != told.consumer:
                yield event

    def _best(self, allocation: Allocation, kind: UsageKind) -> tuple[ObservedConsumer, set[str]]:
        """The consumer as far as it is known, and the pods that would tell more."""
        owner = self.owners.get(allocation.maker, "") or allocation.consumer.owner
        missing = {allocation.maker} - {"", *self.owners}
        ended_at = None
        if kind is UsageKind.GONE:
            unseen = set(allocation.users) - self._ends.keys()
            missing |= unseen
            if allocation.users and not unseen:
                ended_at = max(self._ends[user] for user in allocation.users)
        return replace(allocation.consumer, owner=owner, ended_at=ended_at), missing


def remember(kept: OrderedDict[str, Kept], key: str, value: Kept) -> None:
    kept[key] = value
    if len(kept) > REMEMBERED:
        kept.popitem(last=False)
