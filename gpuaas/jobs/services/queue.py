"""The queue of a workspace: jobs wait in it until what they ask for is free, and leave it by their priority, and of one
priority in the order of their submission. What moves the files of jobs waits in it, too."""

import uuid
from collections.abc import Iterator, Sequence
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet

from gpuaas.core import clock
from gpuaas.core.queue import poke
from gpuaas.jobs.models import Job
from gpuaas.jobs.mover import TAKES
from gpuaas.jobs.selectors import behind, queued_in, waiting, waiting_in
from gpuaas.jobs.services.guests import AWAY, STAY, guests_call, guests_end
from gpuaas.jobs.services.lenders import Lenders, places_lock
from gpuaas.jobs.services.rows import JOB
from gpuaas.jobs.spec import JOBS
from gpuaas.jobs.states import STAGING
from gpuaas.lifecycle.allowed import Verb
from gpuaas.providers.base import Change
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.room import room_of
from gpuaas.workspaces.services.rows import WORKSPACE
from tenants.actors import SYSTEM

TASK = "jobs.queue"
BEHIND = "waits for the jobs before it"
BATCH = 100  # jobs that are read at once, and the most that one round starts; the next one continues


def queue_poke(workspace_id: uuid.UUID) -> None:
    """A round, after the commit."""
    poke(TASK, str(workspace_id))


@transaction.atomic
def queue_start(*, workspace_id: uuid.UUID) -> int:
    """Starts what fits now; returns how many. No job passes one whose turn is before its own, unless that asks for more than the
    workspace has bought at all. A mover of files passes those that it keeps waiting no longer: it takes of what they leave. So does a
    job that another workspace of the project lends its room to. Guests leave this one for what waits in it, and its own that wait
    elsewhere come back for what is free then.

    The workspace's row is locked first, as by every order and start in it, so that two never take the same room.
    """
    guests = Job.objects.filter(STAY & Q(place=workspace_id) | AWAY & Q(workspace=workspace_id))
    if not (waiting().filter(workspace=workspace_id).exists() or guests.exists()):
        return 0
    place, lenders = places_lock(workspace_id)
    started = 0
    if WORKSPACE.may(place, Verb.RUN):
        started = _round(place, lenders)
    else:
        _wait(waiting_in(place), f"its workspace is {WORKSPACE.look(place).label.lower()}")
    guests_end(place)
    guests_call(place)
    return started


def _round(place: Workspace, lenders: Lenders) -> int:
    room, started = room_of(workspace=place), 0
    blocking: list[Job] = []  # the one that keeps others waiting
    for row in _locked(place, blocking, lenders):
        moves = row.state in STAGING
        if started == BATCH:
            break
        pool, takes = (None, TAKES) if moves else (row.pool, row.takes)
        passes = moves or not blocking
        short = room.shortage(pool, takes) if passes else None
        if passes and short is None:
            _start(row, moves=moves)
            room, started = room.less(pool, takes), started + 1
        elif not moves and (lender := lenders.take(row)) is not None:
            _start_in(lender, row)
            started += 1
        elif short is not None:
            _wait(waiting_in(place).filter(pk=row.pk), short.waits + _elsewhere(row, lenders))
            if not moves and not short.is_lasting:
                _wait(queued_in(place).filter(behind(row)), BEHIND)
                room = room.less(pool, takes)
                blocking.append(row)
    return started


def _elsewhere(row: Job, lenders: Lenders) -> str:
    if not row.borrow or row.state in STAGING:
        return ""
    return f"; no other workspace of the project {'has room for it' if lenders.any_open else 'is open to it'}"


def _start_in(lender: Workspace, row: Job) -> None:
    """As a guest."""
    words = f"in {lender.name}, since {row.workspace.name} has no room for it"
    lenders = list(dict.fromkeys([*row.lenders, str(lender.pk)]))
    at: dict[str, Any] = {"place": lender, "placed_at": clock.now(), "lenders": lenders}
    JOB.begin(row, SYSTEM, Change.CREATE, summary=words, reason=words, holding=True, waiting="", **at)
    JOB.wake(row)


def _start(row: Job, *, moves: bool) -> None:
    if moves:
        row.moving, row.waiting, row.due_at, row.attempts = True, "", clock.now(), 0
        row.save(update_fields=["moving", "waiting", "due_at", "attempts"])
        JOB.operation_start(row, row.state, SYSTEM, steps=JOBS.steps_of(row, Change.CREATE))
    else:
        JOB.begin(row, SYSTEM, Change.CREATE, holding=True, waiting="")
    JOB.wake(row)


def _locked(place: Workspace, blocking: Sequence[Job], lenders: Lenders) -> Iterator[Job]:
    """All of them, as long as they are asked for: the first hundreds may ask for more than the workspace has. Once one of them
    keeps others waiting, what moves files alone, and what may run elsewhere."""
    rows = waiting_in(place).select_for_update(of=("self",), no_key=True)
    rows = rows.select_related("project", "site", "workspace", "pool__gpu_type")
    found = list(rows[:BATCH])
    while found:
        yield from found
        later = rows.filter(behind(found[-1])) if len(found) == BATCH else rows.none()
        passing = Q(state__in=list(STAGING)) | (Q(borrow=True) if lenders.any_left else Q())
        found = list((later.filter(passing) if blocking else later)[:BATCH])


def _wait(rows: QuerySet[Job], words: str) -> None:
    """Writes why they wait, where that has changed."""
    for row in rows.exclude(waiting=words)[:BATCH]:
        if Job.objects.filter(pk=row.pk, state=row.state).update(waiting=words[:300]):
            JOB.announce(row)
