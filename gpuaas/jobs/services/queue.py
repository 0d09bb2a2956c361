"""The queue of a workspace: jobs wait in it until what they ask for is free, and leave it in the order of their submission."""

import uuid

from django.db import transaction
from django.db.models import Q, QuerySet

from gpuaas.core.queue import poke
from gpuaas.jobs.models import Job
from gpuaas.jobs.selectors import queued_in
from gpuaas.jobs.services.rows import JOB
from gpuaas.jobs.states import JobState
from gpuaas.lifecycle.allowed import Verb
from gpuaas.providers.base import Change
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.room import room_of
from gpuaas.workspaces.services.rows import WORKSPACE, workspace_lock
from tenants.actors import SYSTEM

TASK = "jobs.queue"
BEHIND = "waits for the jobs that were submitted before it"
BATCH = 100  # jobs that one round looks at; the next one continues


def queue_poke(workspace_id: uuid.UUID) -> None:
    """A round, after the commit."""
    poke(TASK, str(workspace_id))


@transaction.atomic
def queue_start(*, workspace_id: uuid.UUID) -> int:
    """Starts what fits now; returns how many. No later job passes an earlier one, unless that asks for more than the workspace
    has bought at all.

    The workspace's row is locked first, as by every order and start in it, so that two never take the same room.
    """
    if not Job.objects.filter(workspace=workspace_id, state=JobState.QUEUED).exists():
        return 0
    place = workspace_lock(workspace_id)
    if not WORKSPACE.may(place, Verb.RUN):
        _wait(queued_in(place), f"its workspace is {WORKSPACE.look(place).label.lower()}")
        return 0
    room, started = room_of(workspace=place), 0
    for row in _locked(place):
        short = room.shortage(row.pool, row.takes)
        if short is None:
            JOB.begin(row, SYSTEM, Change.CREATE, holding=True, waiting="")
            JOB.wake(row)
            room, started = room.less(row.pool, row.takes), started + 1
            continue
        _wait(queued_in(place).filter(pk=row.pk), short.waits)
        if not short.is_lasting:
            later = Q(created_at__gt=row.created_at) | Q(created_at=row.created_at, pk__gt=row.pk)
            _wait(queued_in(place).filter(later), BEHIND)
            break
    return started


def _locked(place: Workspace) -> list[Job]:
    rows = queued_in(place).select_for_update(of=("self",), no_key=True)
    return list(rows.select_related("project", "site", "workspace", "pool__gpu_type")[:BATCH])


def _wait(rows: QuerySet[Job], words: str) -> None:
    """Writes why they wait, where that has changed."""
    for row in rows.exclude(waiting=words)[:BATCH]:
        if Job.objects.filter(pk=row.pk, state=row.state).update(waiting=words[:300]):
            JOB.announce(row)
