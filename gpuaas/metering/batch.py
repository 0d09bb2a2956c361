"""What waits between two flushes, and which workspaces to notify. Pure: no database, no clock."""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime

from gpuaas.metering.owners import Owner
from gpuaas.providers.base import ObservedConsumer, UsageEvent, UsageKind


@dataclass
class Batch:
    """Events in the order of arrival. A list that has not ended is held back, because it would close what is still to
    come."""

    events: list[UsageEvent] = field(default_factory=list)
    listing: bool = False

    def add(self, event: UsageEvent) -> None:
        if event.kind is UsageKind.RELIST:
            self.listing = True
        elif event.kind is UsageKind.RELISTED:
            self.listing = False
        last = self.events[-1] if self.events else None
        if last is not None and last.kind is event.kind is UsageKind.BOOKMARK:
            self.events.pop()
        self.events.append(event)

    @property
    def has_news(self) -> bool:
        """Whether there is more than proofs of life."""
        return any(event.kind is not UsageKind.BOOKMARK for event in self.events)

    def take(self) -> list[UsageEvent]:
        """What can be written now; a list without its end stays."""
        cut = len(self.events)
        if self.listing:
            cut = max(n for n, event in enumerate(self.events) if event.kind is UsageKind.RELIST)
        taken, self.events = self.events[:cut], self.events[cut:]
        return taken


class CatchUp:
    """After a start or an outage the first events are history: they prove life only up to our last proof.

    History ends with the first barrier, or `seconds` after the watch was opened.
    """

    def __init__(self, *, last_proof_at: datetime | None, opened: float, seconds: float) -> None:
        self._proof = last_proof_at
        self._until = opened + seconds

    def stamp(self, event: UsageEvent, *, monotonic: float) -> UsageEvent:
        if self._proof is None:
            return event
        if event.kind not in {UsageKind.SEEN, UsageKind.GONE} or monotonic >= self._until:
            self._proof = None
            return event
        return replace(event, at=min(event.at, self._proof))


class Changes:
    """Workspaces whose consumers changed, each notified at most once per `seconds`."""

    def __init__(self, *, seconds: float = 1.0) -> None:
        self._seconds = seconds
        self._known: dict[str, ObservedConsumer] = {}
        self._waiting: dict[uuid.UUID, Owner] = {}
        self._told: dict[uuid.UUID, float] = {}

    def note(self, events: Iterable[UsageEvent], owners: dict[str, Owner]) -> None:
        """Skips events that repeat what is known, because a watch that resumes repeats many."""
        for event in events:
            if event.consumer is not None and self._is_news(event.kind, event.consumer):
                owner = owners.get(event.workspace_name)
                if owner is not None:
                    self._waiting[owner.workspace_id] = owner

    def due(self, *, monotonic: float) -> list[Owner]:
        self._told = {key: at for key, at in self._told.items() if monotonic - at < self._seconds}
        ready = [owner for key, owner in self._waiting.items() if key not in self._told]
        for owner in ready:
            del self._waiting[owner.workspace_id]
            self._told[owner.workspace_id] = monotonic
        return ready

    def _is_news(self, kind: UsageKind, consumer: ObservedConsumer) -> bool:
        if kind is UsageKind.GONE:
            self._known.pop(consumer.uid, None)
            return True
        changed = self._known.get(consumer.uid) != consumer
        self._known[consumer.uid] = consumer
        return changed
