"""What to do next about a job, a pure function; and one visit: plan, act, write, plan again.

How it ends is written before it is removed from the site, and it takes its part of the workspace until that is confirmed.
"""

import random
import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.db import transaction

from gpuaas.core import claims, clock
from gpuaas.core.errors import GpuaasError
from gpuaas.jobs.models import Job, JobLog
from gpuaas.jobs.services.changes import end_begin
from gpuaas.jobs.services.queue import queue_poke
from gpuaas.jobs.services.rows import JOB
from gpuaas.jobs.spec import JOBS
from gpuaas.jobs.states import CHANGING, JobState
from gpuaas.lifecycle import inside, visits
from gpuaas.lifecycle.actions import CleanUp, Finish, Rest
from gpuaas.lifecycle.inside import Look, Record
from gpuaas.lifecycle.kind import conditions_write
from gpuaas.lifecycle.operations import StepRow, StepState
from gpuaas.providers.base import Change, JobPhase, Jobs, JobSpec, ObservedJob
from tenants.actors import SYSTEM

S = JobState
LOOK_MOST = timedelta(seconds=15)  # between two looks at one that runs
LOG_LINES, LOG_MOST = 1000, 64 * 1024
GONE = "it was removed at the site, not by the portal"
OVER = frozenset({JobPhase.GONE, JobPhase.SUCCEEDED, JobPhase.FAILED})
RECORD: Record[Job, Jobs, JobSpec] = Record(JOB, JOBS, CHANGING)
Visit = inside.Visit[Job, Jobs, JobSpec]
Action = StepRow | Finish | Look | CleanUp | Rest


def plan(state: S, pending: Sequence[StepRow], outcome: str) -> Action:
    """`pending`: steps that are not done, in order. outcome: of the row."""
    match state:
        case S.QUEUED:
            return Rest(None)
        case S.STARTING | S.RUNNING:
            return pending[0] if pending else Look()
        case S.ENDING:
            return pending[0] if pending else Finish(S(outcome))
        case S.DELETING:
            return pending[0] if pending else Finish(S.DELETED)
        case _:
            return CleanUp()


def run(job_id: uuid.UUID) -> None:
    """Brings one job as far as possible now. Safe to call at any time, in any number of processes."""
    RECORD.run(job_id, _plan, _act, _give_up)


def _plan(visit: Visit) -> Action:
    return plan(S(visit.row.state), visit.pending, visit.row.outcome)


def _act(visit: Visit, action: Action) -> bool:
    match action:
        case Finish(state=state):
            _finish(visit, state)
        case Look():
            return _look(visit)
        case CleanUp():
            RECORD.clean_up(visit, Change.DELETE)
        case StepRow(state=StepState.WAITING) if visit.row.state == S.ENDING:
            RECORD.step_begin(visit, action, also=partial(_log_write, text=_log_of(visit)))
            return RECORD.act(visit, action)
        case _:
            return RECORD.act(visit, action)
    return False


def _look(visit: Visit) -> bool:
    seen = visit.driver.observe(visit.spec)
    log = _log_of(visit) if seen.attempt and seen.phase is not JobPhase.GONE else None
    with RECORD.guarded(visit) as row:
        news = _seen_write(row, seen) | _log_write(row, log)
        news = conditions_write(row, visits.reachable(), drop=(visits.PROGRESSING,)) or news
        if seen.phase in OVER or seen.hopeless:
            _end(visit, row, seen)
            return True
        if row.state == S.STARTING and seen.phase is JobPhase.RUNNING:
            RECORD.operation_end(visit, clock.now(), succeeded=True)
            JOB.move(row, S.RUNNING, ready_at=row.ready_at or clock.now())
            row.due_at = visit.row.due_at  # the transition has read the row anew
            news = True
        claims.release(row, due_at=_next_look(row), attempts=0)
        if news:
            JOB.announce(row)
    return False


def _seen_write(row: Job, seen: ObservedJob) -> bool:
    facts = {
        "attempt": seen.attempt or row.attempt,
        "exit_code": seen.exit_code if seen.exit_code is not None else row.exit_code,
        "observed": {"node": seen.node},
        "waiting": seen.detail[:300] if seen.phase is JobPhase.WAITING else "",
    }
    changed = {name: value for name, value in facts.items() if getattr(row, name) != value}
    for name, value in changed.items():
        setattr(row, name, value)
    if changed:
        row.save(update_fields=list(changed))
    return bool(changed)


def _end(visit: Visit, row: Job, seen: ObservedJob) -> None:
    """It has ended, or can only be ended: what is left of it is removed now."""
    if visit.operation is not None:
        RECORD.operation_end(
            visit, clock.now(), succeeded=not seen.hopeless and seen.phase is not JobPhase.GONE
        )
    if seen.phase is JobPhase.GONE:
        end_begin(row, SYSTEM, S.FAILED, failure=GONE, cause="Removed")
        return
    ran: dict[str, Any] = {} if seen.hopeless else {"ready_at": row.ready_at or clock.now()}
    if seen.phase is JobPhase.SUCCEEDED:
        end_begin(row, SYSTEM, S.SUCCEEDED, **ran)
    else:
        end_begin(row, SYSTEM, S.FAILED, failure=seen.detail, cause=seen.reason[:40], **ran)


def _next_look(row: Job) -> datetime:
    """The longer it runs, the rarer."""
    most = clock.now() + LOOK_MOST * random.uniform(0.8, 1.0)  # noqa: S311  spreads load, hides nothing
    return min(visits.soon(row.ready_at), most)


def _finish(visit: Visit, state: S) -> None:
    """Once more after a while: what a late answer has left is removed then."""
    moment = clock.now()
    with RECORD.guarded(visit) as row:
        RECORD.operation_end(visit, moment, succeeded=True)
        conditions_write(row, visits.reachable(), drop=(visits.PROGRESSING,))
        changes: dict[str, Any] = {"deleted_at": moment} if state == S.DELETED else {}
        JOB.move(row, state, reason=row.failure, holding=False, **changes)
        if state == S.DELETED:
            JobLog.objects.filter(job=row).delete()
        row.due_at = visit.row.due_at  # the transition has read the row anew
        claims.release(row, due_at=moment + visits.LEFTOVERS_AFTER, attempts=0)
        queue_poke(row.workspace_id)
        JOB.announce(row)


def _give_up(visit: Visit, step: StepRow, words: str) -> None:
    """The site refuses to start it: it failed, once nothing of it is there."""
    with RECORD.guarded(visit) as row:
        step.state, step.finished_at, step.detail = StepState.FAILED, clock.now(), words
        step.save(update_fields=["state", "finished_at", "detail"])
        RECORD.operation_end(visit, clock.now(), succeeded=False)
        end_begin(row, SYSTEM, S.FAILED, failure=words, cause="Refused")
        row.due_at = visit.row.due_at
        claims.release(row, due_at=clock.now(), attempts=0)
        JOB.wake(row)


# -- its log -------------------------------------------------------------------------------------------------------


def _log_of(visit: Visit) -> str | None:
    """The end of what it has written; None where the site has nothing of it, or does not say."""
    try:
        text = visit.driver.log(visit.spec, lines=LOG_LINES)
    except GpuaasError:
        return None
    return text.replace("\x00", "").encode()[-LOG_MOST:].decode(errors="ignore")


@transaction.atomic
def _log_write(row: Job, text: str | None) -> bool:
    """What was taken before stays where there is nothing now."""
    if not text or JobLog.objects.filter(job=row, text=text).exists():
        return False
    JobLog.objects.update_or_create(job=row, defaults={"text": text, "taken_at": clock.now()})
    return True
