"""Derives the stretches of a machine's life from Nova's instance actions: pure, with the same result however often it is read.

Nova's times are whole seconds; of two events in one second, the one that Nova lists later is the earlier one.
Times are those of the actions' events. A machine holds devices from the moment a host starts to build (or unshelve) it
until the host has shelved or deleted it; it counts as stopped, or resized, from when that is done.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate

from gpuaas.providers.base import UseState
from gpuaas.providers.openstack.client import Object
from gpuaas.providers.openstack.servers import instant

CREATE, DELETE, RESIZE, MIGRATE = "create", "delete", "resize", "migrate"
REVERT = "revertResize"
BUILD = "compute__do_build_and_run_instance"
SHELVE, OFFLOAD = "compute_shelve_instance", "compute_shelve_offload_instance"
UNSHELVE = "compute_unshelve_instance"
TERMINATE = "compute_terminate_instance"
SOFT_DELETE = "compute_soft_delete_instance"
STARTS = "compute_start_instance"
RESIZES = {
    "compute_finish_resize",
    "compute_finish_snapshot_based_resize_at_dest",
    "compute_finish_revert_resize",
    "compute_finish_revert_snapshot_based_resize_at_source",
}
RUNS = {
    STARTS,
    "compute_unpause_instance",
    "compute_resume_instance",
    "compute_reboot_instance",  # a hard one also starts what was stopped
    "compute_restore_instance",
    "compute_rescue_instance",
    "compute_unrescue_instance",
}
STOPS = {
    "compute_stop_instance",
    "compute_pause_instance",
    "compute_suspend_instance",
    SOFT_DELETE,  # kept until it is reclaimed
}
RELEVANT = {BUILD, SHELVE, OFFLOAD, UNSHELVE, TERMINATE, *RESIZES, *RUNS, *STOPS}


@dataclass(frozen=True)
class Happening:
    """One event of an action; finished_at None = the host is working on it."""

    action: str
    request: str
    name: str
    started_at: datetime
    finished_at: datetime | None
    succeeded: bool


@dataclass(frozen=True)
class Stretch:
    """uid: the machine's own for the first, then `<machine>:<request>`. epoch: number of resizes before it.

    sure=False: after a failure only Placement knew whether it held anything, and it no longer does.
    """

    uid: str
    state: UseState
    epoch: int
    started_at: datetime
    ended_at: datetime | None
    sure: bool = True


@dataclass(frozen=True)
class Fate:
    """The machine's current state. allocated: it has allocations in Placement; ended_at: of a deleted one.

    waits: it was deleted just now, and its host may still report when it finished.
    """

    id: str
    status: str
    allocated: bool
    ended_at: datetime | None = None
    waits: bool = False

    @property
    def is_gone(self) -> bool:
        return self.status == "DELETED"

    @property
    def may_be_kept(self) -> bool:
        """Whether it may hold devices that a failure left allocated."""
        return self.is_gone or self.allocated


@dataclass(frozen=True)
class _Edge:
    """state None = nothing is held from then on."""

    at: datetime
    request: str
    state: UseState | None
    resized: bool = False
    sure: bool = True


def happenings(action: Object) -> list[Happening]:
    """The events of one action, oldest first; `/os-instance-actions/{request}` returns them newest first."""
    return [
        Happening(
            action=action["action"],
            request=action["request_id"],
            name=event["event"],
            started_at=instant(event["start_time"]),
            finished_at=instant(event["finish_time"]) if event.get("finish_time") else None,
            succeeded=event.get("result") == "Success",
        )
        for event in reversed(action.get("events") or ())
    ]


def stretches(fate: Fate, actions: Sequence[Object]) -> list[Stretch]:
    """`actions`: all of the machine's, with events, newest first as Nova lists them. Empty for one that never had a host."""
    found = [each for action in reversed(actions) for each in happenings(action) if each.name in RELEVANT]
    found.sort(key=_moment)
    edges = [*_unhosted(fate, found, actions), *_edges(fate, found), *_end(fate, found, actions)]
    return list(_stretched(fate.id, edges))


def in_progress(actions: Sequence[Object]) -> bool:
    return any(
        each.finished_at is None and each.name in RELEVANT
        for action in actions
        for each in happenings(action)
    )


def resizing(actions: Sequence[Object]) -> bool:
    """Whether a resize is under way, so that its flavor and its actions may not match."""
    changing = [each for each in actions if each["action"] in (RESIZE, MIGRATE, REVERT)]
    return any(not each.get("events") or in_progress([each]) for each in changing)


def _moment(each: Happening) -> tuple[datetime, datetime]:
    """The time from which it counts: its start or its end, depending on the event. Unfinished events come last."""
    done = each.finished_at or datetime.max.replace(tzinfo=each.started_at.tzinfo)
    return (each.started_at if each.name in (BUILD, UNSHELVE) else done), each.started_at


def _unhosted(fate: Fate, found: Sequence[Happening], actions: Sequence[Object]) -> Iterator[_Edge]:
    """Nova failed before a host started, and may have left allocations that block devices."""
    made = next((each for each in actions if each["action"] == CREATE), None)
    is_failed = fate.is_gone or fate.status == "ERROR"
    if made is not None and not found and is_failed and fate.may_be_kept:
        at = instant(made["start_time"])
        yield _Edge(at, made["request_id"], UseState.STOPPED, sure=not fate.is_gone)


def _edges(fate: Fate, found: Sequence[Happening]) -> Iterator[_Edge]:
    state: UseState | None = None
    moved = False  # a migration by the cloud's operator ends in the same events as a resize
    for number, each in enumerate(found):
        after = found[number + 1 :]
        edges: list[_Edge] = []
        if each.name in (BUILD, UNSHELVE):
            edges = list(_on_host(fate, each, state, after))
        elif each.finished_at is None or not each.succeeded:
            continue
        elif each.name in RESIZES:
            moved = each.action == MIGRATE if each.action in (RESIZE, MIGRATE) else moved
            edges = [] if moved else [_Edge(each.finished_at, each.request, state, resized=True)]
        else:
            edges = [_Edge(each.finished_at, each.request, _state(fate, each, after))]
        for edge in edges:
            if edge.resized or edge.state is not state:
                state = edge.state
                yield edge


def _on_host(
    fate: Fate, each: Happening, before: UseState | None, after: Sequence[Happening]
) -> Iterator[_Edge]:
    """A host starts to build it. If that fails, devices were held until then, and further on if another host tries."""
    yield _Edge(each.started_at, each.request, UseState.RUNNING)
    if each.finished_at is None or each.succeeded:
        return
    if any(other.name == each.name and other.request == each.request for other in after):
        return
    if each.name == UNSHELVE:
        yield _Edge(each.finished_at, each.request, before)
    elif fate.may_be_kept:
        yield _Edge(each.finished_at, each.request, UseState.STOPPED, sure=not fate.is_gone)
    else:
        yield _Edge(each.finished_at, each.request, None)


def _state(fate: Fate, each: Happening, after: Sequence[Happening]) -> UseState | None:
    if each.name in RUNS:
        return UseState.RUNNING
    if each.name in STOPS:
        return UseState.STOPPED
    if each.name == TERMINATE:
        return None
    return UseState.STOPPED if each.name == SHELVE and _has_host(fate, after) else UseState.SHELVED


def _has_host(fate: Fate, after: Sequence[Happening]) -> bool:
    """Whether a shelved machine keeps its host for a while; most clouds offload it within the same event."""
    return after[0].name in (OFFLOAD, STARTS, TERMINATE) if after else fate.status == "SHELVED"


def _end(fate: Fate, found: Sequence[Happening], actions: Sequence[Object]) -> Iterator[_Edge]:
    """The end of a machine without a host: Nova only deletes its rows, so there is an action but no host's event."""
    ends = [each for each in found if each.name == TERMINATE]
    is_due = any(each.succeeded or (each.finished_at is None and fate.waits) for each in ends)
    if not fate.is_gone or is_due:
        return
    reclaimed = {each.request for each in found if each.name == SOFT_DELETE}
    asked = [each for each in actions if each["action"] == DELETE and each["request_id"] not in reclaimed]
    at = max((instant(each["start_time"]) for each in asked), default=fate.ended_at)
    if at is not None:
        yield _Edge(at, "", None)


def _stretched(machine: str, edges: Sequence[_Edge]) -> Iterator[Stretch]:
    epoch, is_first = 0, True
    seen: Counter[str] = Counter()
    moments = list(accumulate((edge.at for edge in edges), max))  # clocks of two hosts may differ
    for number, edge in enumerate(edges):
        epoch += edge.resized
        if edge.state is None:
            continue
        request = edge.request.removeprefix("req-")
        again = f".{seen[request]}" if seen[request] else ""
        seen[request] += 1
        uid = machine if is_first else f"{machine}:{request}{again}"
        is_first = False
        ended_at = moments[number + 1] if number + 1 < len(edges) else None
        yield Stretch(uid, edge.state, epoch, moments[number], ended_at, edge.sure)
