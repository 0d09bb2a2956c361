"""The part of a visit in which files are moved: how far the mover is, and that nothing of it is left once it is done.

That it has succeeded is written before it is removed. Until it is gone it takes its part of the workspace (`Job.moving`).
"""

from dataclasses import dataclass
from typing import Any

from gpuaas.core import claims, clock
from gpuaas.core.errors import GpuaasError
from gpuaas.jobs.models import Job
from gpuaas.jobs.mover import LOG_LINES
from gpuaas.jobs.record import GONE, LOOK_MOST, RECORD, S, Visit
from gpuaas.jobs.services.changes import staging_fail
from gpuaas.jobs.services.queue import queue_poke
from gpuaas.jobs.services.rows import JOB
from gpuaas.lifecycle import visits
from gpuaas.lifecycle.kind import conditions_write
from gpuaas.providers.base import Change, JobPhase, ObservedJob
from gpuaas.staging.rclone import failure_of, progress_of
from gpuaas.staging.transfers import Way

USUAL = frozenset({"", "Error"})  # reasons that say nothing of the files


@dataclass(frozen=True)
class Moved:
    """The mover has succeeded: it is removed, and the job continues."""


def look(visit: Visit) -> bool:
    seen = visit.driver.observe(visit.spec)
    text = _log(visit) if seen.phase not in {JobPhase.GONE, JobPhase.WAITING} else ""
    with RECORD.guarded(visit) as row:
        way = Way(row.staging)
        news = _write(row, way, seen, text)
        news = conditions_write(row, visits.reachable(), drop=(visits.PROGRESSING,)) or news
        if seen.phase is JobPhase.SUCCEEDED:
            JOB.announce(row)
            return True
        if seen.phase is JobPhase.GONE:
            staging_fail(row, GONE, "Removed")
            return True
        if seen.phase is JobPhase.FAILED or seen.hopeless:
            cause = "" if seen.reason in USUAL else seen.reason[:40]
            staging_fail(row, failure_of("" if cause else text, way, seen.detail), cause)
            return True
        since = visit.operation.requested_at if visit.operation is not None else None
        claims.release(row, due_at=min(visits.soon(since), clock.now() + LOOK_MOST), attempts=0)
        if news:
            JOB.announce(row)
    return False


def _log(visit: Visit) -> str:
    try:
        return visit.driver.log(visit.spec, lines=LOG_LINES)
    except GpuaasError:
        return ""


def _write(row: Job, way: Way, seen: ObservedJob, text: str) -> bool:
    """Whether that is news."""
    known = row.moved.get(way, {})
    found = progress_of(text, known) | ({"done": True} if seen.phase is JobPhase.SUCCEEDED else {})
    waiting = seen.detail[:300] if seen.phase is JobPhase.WAITING else ""
    if (found, waiting) == (known, row.waiting):
        return False
    row.moved, row.waiting = {**row.moved, way.value: found}, waiting
    row.save(update_fields=["moved", "waiting"])
    return True


def leave(visit: Visit) -> None:
    steps = visit.driver.steps(Change.SUSPEND, visit.spec)
    if not all(visit.perform(Change.SUSPEND, step.key).done for step in steps):
        RECORD.rest(visit, visits.soon())
        return
    moment = clock.now()
    with RECORD.guarded(visit) as row:
        RECORD.operation_end(visit, moment, succeeded=True)
        facts: dict[str, Any] = {"staging": "", "moving": False, "waiting": ""}
        if row.staging == Way.IN:
            JOB.move(row, S.QUEUED, **facts)
        else:
            JOB.move(row, S.SUCCEEDED, finished_at=moment, **facts)
        row.due_at = visit.row.due_at  # the transition has read the row anew
        due_at = None if row.state == S.QUEUED else moment + visits.LEFTOVERS_AFTER
        claims.release(row, due_at=due_at, attempts=0)
        queue_poke(row.workspace_id)
        JOB.announce(row)
