"""The queue of a workspace: jobs wait in it until what they ask for is free, and leave it by their priority, and of one
priority in the order of their submission. What moves the files of jobs waits in it, too."""

import uuid
from collections.abc import Iterator, Sequence

from django.db import transaction
from django.db.models import QuerySet

from gpuaas.core import clock
from gpuaas.core.queue import poke
from gpuaas.jobs.models import Job
from gpuaas.jobs.mover import TAKES
from gpuaas.jobs.selectors import behind, queued_in, waiting, waiting_in
from gpuaas.jobs.services.rows import JOB
from gpuaas.jobs.spec import JOBS
from gpuaas.jobs.states import STAGING
from gpuaas.lifecycle.allowed import Verb
from gpuaas.providers.base import Change
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.room import room_of
from gpuaas.workspaces.services.rows import WORKSPACE, workspace_lock
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
    workspace has bought at all. A mover of files passes those that it keeps waiting no longer: it takes of what they leave.

    The workspace's row is locked first, as by every order and start in it, so that two never take the same room.
    """
    if not waiting().filter(workspace=workspace_id).exists():
        return 0
    place = workspace_lock(workspace_id)
    if not WORKSPACE.may(place, Verb.RUN):
        _wait(waiting_in(place), f"its workspace is {WORKSPACE.look(place).label.lower()}")
        return 0
    room, started = room_of(workspace=place), 0
    blocking: list[Job] = []  # the one that keeps others waiting
    for row in _locked(place, blocking):
        moves = row.state in STAGING
        if started == BATCH:
            break
        if blocking and not moves:
            continue
        pool, takes = (None, TAKES) if moves else (row.pool, row.takes)
        short = room.shortage(pool, takes)
        if short is None:
            _start(row, moves=moves)
            room, started = room.less(pool, takes), started + 1
            continue
        _wait(waiting_in(place).filter(pk=row.pk), short.waits)
        if not moves and not short.is_lasting:
            _wait(queued_in(place).filter(behind(row)), BEHIND)
            room = room.less(pool, takes)
            blocking.append(row)
    return started


def _start(row: Job, *, moves: bool) -> None:
    if moves:
        row.moving, row.waiting, row.due_at, row.attempts = True, "", clock.now(), 0
        row.save(update_fields=["moving", "waiting", "due_at", "attempts"])
        JOB.operation_start(row, row.state, SYSTEM, steps=JOBS.steps_of(row, Change.CREATE))
    else:
        JOB.begin(row, SYSTEM, Change.CREATE, holding=True, waiting="")
    JOB.wake(row)


def _locked(place: Workspace, blocking: Sequence[Job]) -> Iterator[Job]:
    """All of them, as long as they are asked for: the first hundreds may ask for more than the workspace has. Once one of them
    keeps others waiting, what moves files alone."""
    rows = waiting_in(place).select_for_update(of=("self",), no_key=True)
    rows = rows.select_related("project", "site", "workspace", "pool__gpu_type")
    found = list(rows[:BATCH])
    while found:
        yield from found
        later = rows.filter(behind(found[-1])) if len(found) == BATCH else rows.none()
        found = list((later.filter(state__in=list(STAGING)) if blocking else later)[:BATCH])


def _wait(rows: QuerySet[Job], words: str) -> None:
    """Writes why they wait, where that has changed."""
    for row in rows.exclude(waiting=words)[:BATCH]:
        if Job.objects.filter(pk=row.pk, state=row.state).update(waiting=words[:300]):
            JOB.announce(row)
