"""Guests of a workspace leave it: for its own jobs, once it is not open to the project any more, when it is taken down, and to go
home where they have not begun yet."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from django.db.models import Q, QuerySet

from gpuaas.core import clock
from gpuaas.jobs.guests import Wanted, left, left_words, to_end
from gpuaas.jobs.models import Job
from gpuaas.jobs.mover import TAKES
from gpuaas.jobs.selectors import ahead_of, held_in, in_turn, waiting_in
from gpuaas.jobs.services.rows import JOB
from gpuaas.jobs.states import STAGING, JobState
from gpuaas.lifecycle.allowed import Verb
from gpuaas.lifecycle.kind import conditions_write
from gpuaas.providers.base import Change
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.room import Room, room_of
from gpuaas.workspaces.services.rows import WORKSPACE
from tenants.actors import SYSTEM

S = JobState
STAY = Q(place__isnull=False, state__in=[S.STARTING, S.RUNNING])  # guests that have not been told to leave
# those that have not run anywhere
AWAY = Q(place__isnull=False, state=S.STARTING, ready_at=None)
AWAY_LEAST = timedelta(minutes=1)  # then the site has told why it starts none, if it does not
ENDS = (S.ENDING, S.DELETING)
WANTED_MOST = 100  # of the workspace's own queue, for which its guests leave at once


def guests_end(place: Workspace) -> int:
    """Of a workspace whose row is locked: as many as it needs for its own queue, and all once it is closed. Returns how many.

    They are locked in the order of their keys, as by everything that locks several of them."""
    rows = Job.objects.filter(STAY, place=place).select_for_update(of=("self",), no_key=True)
    found = list(
        rows.select_related("project", "site", "workspace", "place", "pool__gpu_type").order_by("pk")
    )
    if not found:
        return 0
    why, leave = f"{place.name} is not open to its project any more", found
    if place.open_to_project:
        why = f"{place.name} needs its room"
        newest = sorted(found, key=lambda row: (row.placed_at, row.pk), reverse=True)
        leave = to_end(_room(place), newest, _wanted(place))
    for row in leave:
        guest_end(row, why)
    return len(leave)


def guests_call(home: Workspace) -> int:
    """Of a workspace whose row is locked, at the end of its round: its jobs that wait elsewhere, as for what members have started
    there, leave that once it has room for them itself and nothing waits before them. Returns how many.

    Those that somebody has locked are left to a later round: another round may wait for them that has locked guests of this one."""
    rows = Job.objects.filter(AWAY, workspace=home, placed_at__lte=clock.now() - AWAY_LEAST)
    if not rows.exists() or not WORKSPACE.may(home, Verb.RUN):
        return 0
    rows = rows.select_related("project", "site", "workspace", "place", "pool__gpu_type")
    room, called = room_of(workspace=home), 0
    for row in in_turn(rows).select_for_update(of=("self",), no_key=True, skip_locked=True):
        if _has_nodes(row) or room.shortage(row.pool, row.takes) or ahead_of(row).exists():
            continue
        guest_end(row, f"{home.name} has room for it again")
        room, called = room.less(row.pool, row.takes), called + 1
    return called


def _has_nodes(row: Job) -> bool:
    """As it was seen last: it may be getting its image."""
    seen = row.observed
    return bool(seen.get("node") or any(each.get("node") for each in seen.get("tasks", [])))


def guest_end(row: Job, why: str) -> None:
    """Of a locked row: it ends where it is a guest, and waits again once nothing of it is left there."""
    moment = clock.now()
    words = left_words(row, moment, why)
    JOB.operation_end(row, "ended, since it had to leave")
    facts: dict[str, Any] = {
        "preempted_at": moment,
        "preemptions": row.preemptions + 1,
        "waiting": words[:300],
    }
    condition = left(words, row)
    JOB.begin(row, SYSTEM, Change.SUSPEND, summary=words, reason=words, **facts)
    conditions_write(row, condition)
    JOB.wake(row)


def _room(place: Workspace) -> Room:
    """Once all that is ending has ended."""
    room = room_of(workspace=place)
    for row in _ending(place):
        room = room.more(row.pool, row.takes)
    return room


def _ending(place: Workspace) -> QuerySet[Job]:
    return held_in(place).filter(state__in=ENDS).select_related("pool")


def _wanted(place: Workspace) -> Iterator[Wanted]:
    """By its own queue, while that starts anything."""
    if not WORKSPACE.may(place, Verb.RUN):
        return
    for row in waiting_in(place).select_related("pool__gpu_type")[:WANTED_MOST]:
        moves = row.state in STAGING
        yield Wanted(None, TAKES, moves=True) if moves else Wanted(row.pool, row.takes)
