"""What a batch of events says about each consumer: pure, and independent of order and repetition."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from gpuaas.core.clock import whole_second
from gpuaas.metering.models import EndedBy, Meter
from gpuaas.providers.base import ObservedConsumer, UsageEvent, UsageKind, UseState

METERS = {
    UseState.RUNNING: Meter.GPU_ALLOCATED,
    UseState.STOPPED: Meter.GPU_STOPPED,
    UseState.SHELVED: Meter.GPU_SHELVED,
}


# of an interval at a site: consumer, meter, resource
Key = tuple[str, str, str]


@dataclass(frozen=True)
class Fact:
    """One resource of one consumer. ended_by "" = still held at last_seen_at. like: resource and quantity are a guess (see
    gpus_like). told_at: when the site was last seen to say so. deadline_at: the first one that was seen; it does not end later,
    whatever else is told."""

    workspace_name: str
    uid: str
    name: str
    node: str
    resource: str
    quantity: int
    started_at: datetime
    ended_at: datetime | None
    last_seen_at: datetime
    told_at: datetime
    ended_by: str
    owner: str = ""
    meter: Meter = Meter.GPU_ALLOCATED
    like: str = ""
    deadline_at: datetime | None = None

    def by(self, deadline: datetime | None) -> "Fact":
        """Ended by the deadline at the latest."""
        if deadline is None:
            return self
        last = max(deadline, self.started_at)
        if self.ended_at is None or self.ended_at <= last:
            return replace(self, deadline_at=last)
        return replace(
            self, deadline_at=last, ended_at=last, last_seen_at=last, ended_by=EndedBy.OBSERVED.value
        )

    @property
    def key(self) -> Key:
        return self.uid, self.meter, self.resource

    def is_before(self, moment: datetime | None) -> bool:
        """Cut off at `moment`, in whole seconds."""
        if moment is None or self.ended_at is None:
            return False
        return self.ended_at <= whole_second(moment) and self.started_at < whole_second(moment)

    def since(self, moment: datetime | None) -> "Fact":
        """The part from `moment` on; for one that is entirely before, its end at `moment`."""
        if moment is None or self.started_at >= (start := whole_second(moment)):
            return self
        ended_at = self.ended_at and max(self.ended_at, start)
        part = replace(self, started_at=start, ended_at=ended_at, last_seen_at=max(self.last_seen_at, start))
        return part.by(self.deadline_at)


def facts_of(event: UsageEvent) -> list[Fact]:
    """Nothing for a consumer that holds no GPU yet (or never did): devices count from PodScheduled on."""
    consumer = event.consumer
    if consumer is None or consumer.started_at is None:
        return []
    started = whole_second(consumer.started_at)
    ended, ended_by = _end(event, consumer, started)
    return [
        Fact(
            workspace_name=event.workspace_name,
            uid=consumer.uid,
            name=consumer.name,
            node=consumer.node,
            resource=resource,
            quantity=quantity,
            started_at=started,
            ended_at=ended,
            last_seen_at=ended or max(whole_second(event.at), started),
            told_at=max(whole_second(event.at), started),
            ended_by=ended_by,
            owner=consumer.owner,
            meter=METERS[consumer.state],
            like=consumer.gpus_like,
        )
        for resource, quantity in _devices(consumer)
    ]


def _devices(consumer: ObservedConsumer) -> list[tuple[str, int]]:
    """Unknown devices that are not even guessed have no name until they are looked up in what was written."""
    if not consumer.gpus and consumer.gpus_like:
        return [("", 0)]
    return [(resource, quantity) for resource, quantity in sorted(consumer.gpus.items()) if quantity > 0]


def facts_merge(events: Iterable[UsageEvent]) -> list[Fact]:
    """One fact per row, the best known: one statement cannot change a row twice."""
    merged: dict[Key, Fact] = {}
    listed = list(events)
    deadlines = _deadlines(listed)
    for event in _telling(listed):
        for fact in facts_of(event):
            merged[fact.key] = better(merged[fact.key], fact) if fact.key in merged else fact
    return [fact.by(deadlines.get(fact.uid)) for fact in merged.values()]


def _deadlines(events: Iterable[UsageEvent]) -> dict[str, datetime]:
    """The earliest of each consumer: a deletion by force moves the deadline of one that is past it."""
    found: dict[str, datetime] = {}
    for event in events:
        if event.consumer is not None and event.consumer.deadline_at is not None:
            deadline, uid = whole_second(event.consumer.deadline_at), event.consumer.uid
            found[uid] = min(found.get(uid, deadline), deadline)
    return found


def _telling(events: Iterable[UsageEvent]) -> Iterator[UsageEvent]:
    """All facts with an end, and of the others the latest of each consumer: earlier ones add nothing."""
    running: dict[str, UsageEvent] = {}
    for event in events:
        consumer = event.consumer
        if consumer is None or consumer.started_at is None:
            continue
        if not consumer.gpus and not consumer.gpus_like:
            continue
        if event.kind is UsageKind.GONE or consumer.ended_at is not None:
            yield event
        elif consumer.uid not in running or running[consumer.uid].at <= event.at:
            running[consumer.uid] = event
    yield from running.values()


def segments(events: Sequence[UsageEvent]) -> list[list[UsageEvent]]:
    """Cut at barriers, each ending its segment; RELIST … RELISTED stays in one piece (ValueError if it is torn)."""
    made: list[list[UsageEvent]] = [[]]
    relisting = False
    for event in events:
        if event.kind is UsageKind.RELIST:
            relisting = True
            made.append([])
        made[-1].append(event)
        if event.kind is UsageKind.RELISTED and not relisting:
            raise ValueError("a list without its start: the batch would close all intervals")
        if event.kind is UsageKind.RELISTED or (event.kind is UsageKind.BOOKMARK and not relisting):
            relisting = False
            made.append([])
    if relisting:
        raise ValueError("a list without its end in one batch")
    return [segment for segment in made if segment]


def _end(event: UsageEvent, consumer: ObservedConsumer, started: datetime) -> tuple[datetime | None, str]:
    if consumer.ended_at is not None:
        return max(whole_second(consumer.ended_at), started), EndedBy.OBSERVED.value
    if event.kind is UsageKind.GONE:
        return max(whole_second(event.at), started), EndedBy.PROOF_OF_LIFE.value
    return None, ""


RANK = {"": 0, EndedBy.PROOF_OF_LIFE.value: 1, EndedBy.OBSERVED.value: 2}


def better(old: Fact, new: Fact) -> Fact:
    """An observed end beats a proof of life, which beats none; of two open facts the later one wins."""
    if RANK[old.ended_by] != RANK[new.ended_by]:
        best = max(old, new, key=lambda fact: RANK[fact.ended_by])
    else:
        best = max(old, new, key=lambda fact: fact.last_seen_at) if not old.ended_by else old
    if best.ended_by == EndedBy.PROOF_OF_LIFE and best.ended_at is not None:
        last = (
            max(best.ended_at, old.last_seen_at, new.last_seen_at)
            if old.ended_by != new.ended_by
            else best.ended_at
        )
        best = replace(best, ended_at=last, last_seen_at=last)
    told_at = max(old.told_at, new.told_at)
    return replace(best, node=old.node or new.node, owner=_owner(old.owner, new.owner), told_at=told_at)


def _owner(old: str, new: str) -> str:
    """The consumer's owner, if known; otherwise the pod itself (usage_upsert.sql does the same)."""
    return new if new and (not old or old.startswith("Pod/")) else old
