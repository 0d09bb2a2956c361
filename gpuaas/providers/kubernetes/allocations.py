"""Usage events of ResourceClaims' allocations, completed by the pods that own and use them.

Two watches have no common order: an event of an allocation whose pods are not known yet is repeated, complete, once
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
Value = TypeVar("Value")


@dataclass(frozen=True)
class Allocation:
    """A claim's consumer, its namespace, the pod it was created for ("" for a standalone claim), and the pods for which it
    was last reserved."""

    space: str
    consumer: ObservedConsumer
    maker: str
    users: tuple[str, ...]


@dataclass
class ClaimBook:
    """The allocations at a version, needed because a deallocated claim no longer shows its allocation."""

    version: str = ""
    held: dict[str, Allocation] = field(default_factory=dict)  # by the claim's uid


class Claimants:
    """Owners and ends of pods that use claims, and the events that wait for them."""

    def __init__(self) -> None:
        self.owners: OrderedDict[str, str] = OrderedDict()
        self._ends: OrderedDict[str, datetime] = OrderedDict()
        # by the pod's uid, then the consumer's: the last event
        self._waiting: OrderedDict[str, dict[str, tuple[Allocation, UsageEvent]]] = OrderedDict()

    def forget_waiting(self) -> None:
        """A full list starts, which reports everything again."""
        self._waiting.clear()

    def event(self, allocation: Allocation, kind: UsageKind) -> UsageEvent:
        """A deallocation has no time of its own: it is the end of the last pod that used it, if all ends are known."""
        consumer, missing = self._best(allocation, kind)
        event = UsageEvent(kind, now(), "", allocation.space, consumer)
        for pod in missing:
            remember(self._waiting, pod, self._waiting.get(pod, {}) | {consumer.uid: (allocation, event)})
        return event

    def note(self, uid: str, *, owner: str, ended_at: datetime | None) -> Iterator[UsageEvent]:
        """Note facts of a pod; yields events of its allocations that are more complete now."""
        remember(self.owners, uid, owner)
        if ended_at is not None:
            remember(self._ends, uid, ended_at)
        for allocation, before in self._waiting.pop(uid, {}).values():
            event = self.event(allocation, before.kind)
            if event.consumer != before.consumer:
                yield event

    def _best(self, allocation: Allocation, kind: UsageKind) -> tuple[ObservedConsumer, set[str]]:
        """The consumer as far as it is known, and the pods whose facts are missing."""
        owner = self.owners.get(allocation.maker, "") or allocation.consumer.owner
        missing = {allocation.maker} - {"", *self.owners}
        ended_at = None
        if kind is UsageKind.GONE:
            unseen = set(allocation.users) - self._ends.keys()
            missing |= unseen
            if allocation.users and not unseen:
                ended_at = max(self._ends[user] for user in allocation.users)
        return replace(allocation.consumer, owner=owner, ended_at=ended_at), missing


def remember(values: OrderedDict[str, Value], key: str, value: Value) -> None:
    values[key] = value
    if len(values) > REMEMBERED:
        values.popitem(last=False)
