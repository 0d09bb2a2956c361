"""By when a job starts that waits in the queue of its workspace, as far as deadlines tell."""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count

from gpuaas.core import clock
from gpuaas.jobs.guests import NOTICE
from gpuaas.jobs.models import Job
from gpuaas.jobs.selectors import ahead_of, held_in, in_turn, unread
from gpuaas.jobs.states import JobState
from gpuaas.lifecycle.allowed import Verb
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.room import Room, room_of
from gpuaas.workspaces.states import ALLOWED

AHEAD_MOST = 500  # jobs before it in the queue, which are gone through for it
MINUTE = timedelta(minutes=1)


class Ends:
    """What is given back, and by when at the latest."""

    def __init__(self) -> None:
        self._heap: list[tuple[datetime, int, Job]] = []
        self._numbers = count()  # jobs themselves have no order

    def add(self, row: Job, started: datetime) -> None:
        at = started + timedelta(seconds=row.deadline_seconds) if row.deadline_seconds is not None else None
        if row.state == JobState.ENDING:
            at = started
        elif row.place_id is not None:  # it leaves for the workspace's own
            leaves = clock.now() + NOTICE
            at = leaves if at is None else min(at, leaves)
        if at is not None:
            heapq.heappush(self._heap, (at, next(self._numbers), row))

    def until(self, room: Room, row: Job, now: datetime) -> tuple[Room, datetime] | None:
        """The room and the time at which `row` fits; None if it never does by what is known."""
        while room.shortage(row.pool, row.takes) is not None:
            if not self._heap:
                return None
            at, _, ended = heapq.heappop(self._heap)
            room, now = room.more(ended.pool, ended.takes), max(now, at)
        return room, now


@dataclass(frozen=True)
class Turn:
    """A job that waits. position: in the queue from 1, None for one that has left it and waits at its site, as in a queue that
    the site keeps itself; starts_by: as that function has it."""

    row: Job
    position: int | None
    starts_by: datetime | None


def starts_by(row: Job) -> datetime | None:
    """To the minute. It holds if all that runs ends by its deadline, guests within their notice, and nothing comes before it in the
    queue meanwhile. One that borrows may start earlier elsewhere. None for one
    that is not in the queue, while its workspace starts none, and where what it needs is taken by something without a deadline, or too
    many are before it."""
    if row.state != JobState.QUEUED:
        return None
    ahead = list(unread(ahead_of(row)).select_related("pool__gpu_type")[: AHEAD_MOST + 1])
    if len(ahead) > AHEAD_MOST:
        return None
    return list(_starts(row.workspace, [*ahead, row]))[-1]


def turns_of(workspace: Workspace) -> list[Turn]:
    """All of a workspace that wait, in the order in which they start. Three queries, and those of `room_of`."""
    ours = unread(Job.objects.filter(workspace=workspace)).select_related(
        "pool__gpu_type", "created_by", "place"
    )
    at_site = list(ours.filter(state=JobState.STARTING).exclude(waiting="").order_by("created_at", "pk"))
    rows = list(in_turn(ours.filter(state=JobState.QUEUED)))
    for row in (*at_site, *rows):
        row.workspace, row.project = workspace, workspace.project
    known = list(_starts(workspace, rows[: AHEAD_MOST + 1]))
    known += [None] * (len(rows) - len(known))
    queued = zip(rows, known, strict=True)
    return [
        *(Turn(row, None, None) for row in at_site),
        *(Turn(row, number, at) for number, (row, at) in enumerate(queued, 1)),
    ]


def _starts(workspace: Workspace, rows: Sequence[Job]) -> Iterator[datetime | None]:
    """Of each of those that wait, which are the first of the queue in their order."""
    if workspace.state not in ALLOWED[Verb.RUN].states:  # its queue starts none
        yield from [None] * len(rows)
        return
    room, now = room_of(workspace=workspace), clock.now()
    ends, empty = Ends(), room.empty
    for each in unread(held_in(workspace)).select_related("pool"):
        ends.add(each, each.ready_at or now)
    known = True
    for row in rows:
        if not known or empty.shortage(row.pool, row.takes) is not None:
            yield None  # nothing waits for one that never starts
            continue
        if (found := ends.until(room, row, now)) is None:
            known = False
            yield None
            continue
        room, now = found[0].less(row.pool, row.takes), found[1]
        ends.add(row, now)
        yield _minute_of(now)


def _minute_of(at: datetime) -> datetime:
    whole = at.replace(second=0, microsecond=0)
    return whole if whole == at else whole + MINUTE
