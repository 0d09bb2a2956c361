"""By when a job starts that waits in the queue of its workspace, as far as deadlines tell."""

import heapq
from datetime import datetime, timedelta
from itertools import count

from gpuaas.core import clock
from gpuaas.jobs.models import Job
from gpuaas.jobs.selectors import ahead_of
from gpuaas.jobs.states import JobState
from gpuaas.workspaces.room import Room, room_of

AHEAD_MOST = 500  # jobs before it in the queue, which are gone through for it
MINUTE = timedelta(minutes=1)


class Ends:
    """What is given back, and by when at the latest."""

    def __init__(self) -> None:
        self._heap: list[tuple[datetime, int, Job]] = []
        self._numbers = count()  # jobs themselves have no order

    def add(self, row: Job, started: datetime) -> None:
        if row.state == JobState.ENDING:
            heapq.heappush(self._heap, (started, next(self._numbers), row))
        elif row.deadline_seconds is not None:
            at = started + timedelta(seconds=row.deadline_seconds)
            heapq.heappush(self._heap, (at, next(self._numbers), row))

    def until(self, room: Room, row: Job, now: datetime) -> tuple[Room, datetime] | None:
        """The room and the time at which `row` fits; None if it never does by what is known."""
        while room.shortage(row.pool, row.takes) is not None:
            if not self._heap:
                return None
            at, _, ended = heapq.heappop(self._heap)
            room, now = _without(room, ended), max(now, at)
        return room, now


def starts_by(row: Job) -> datetime | None:
    """To the minute. It holds if all that runs ends by its deadline, and nothing comes before it in the queue meanwhile. None for one
    that is not in the queue, and where what it needs is taken by something without a deadline, or too many are before it."""
    if row.state != JobState.QUEUED:
        return None
    ahead = list(ahead_of(row).select_related("pool__gpu_type")[: AHEAD_MOST + 1])
    if len(ahead) > AHEAD_MOST:
        return None
    at = _simulated(row, ahead, room_of(workspace=row.workspace), clock.now())
    return _minute_of(at) if at is not None else None


def _minute_of(at: datetime) -> datetime:
    whole = at.replace(second=0, microsecond=0)
    return whole if whole == at else whole + MINUTE


def _simulated(row: Job, ahead: list[Job], room: Room, now: datetime) -> datetime | None:
    ends = Ends()
    for each in Job.objects.filter(workspace=row.workspace_id, holding=True).select_related("pool"):
        ends.add(each, each.ready_at or now)
    empty = room.empty
    for each in (*ahead, row):
        if each is not row and empty.shortage(each.pool, each.takes) is not None:
            continue  # nothing waits for one that never starts
        found = ends.until(room, each, now)
        if found is None:
            return None
        room, now = found[0].less(each.pool, each.takes), found[1]
        ends.add(each, now)
    return now


def _without(room: Room, row: Job) -> Room:
    return room.less(row.pool, {name: -each for name, each in row.takes.items()})
