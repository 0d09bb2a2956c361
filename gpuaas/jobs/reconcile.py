"""What to do next about a job, a pure function; and one visit: plan, act, write, plan again.

How it ends is written before it is removed from the site, and it takes its part of the workspace until that is confirmed.
"""

import random
import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from gpuaas.core import claims, clock
from gpuaas.core.errors import GpuaasError
from gpuaas.jobs import staging
from gpuaas.jobs.guests import runs_again_write
from gpuaas.jobs.lending import is_out, preemption_write, waiting_words
from gpuaas.jobs.logs import logs_delete, logs_take, logs_write
from gpuaas.jobs.models import Job
from gpuaas.jobs.mover import mover_of
from gpuaas.jobs.record import GONE, LOOK_MOST, RECORD, Visit
from gpuaas.jobs.seen import observed_of
from gpuaas.jobs.selectors import starts_before
from gpuaas.jobs.services.changes import end_begin
from gpuaas.jobs.services.queue import queue_poke
from gpuaas.jobs.services.rows import JOB
from gpuaas.jobs.staging import Moved
from gpuaas.jobs.states import STAGING, JobState
from gpuaas.lifecycle import visits
from gpuaas.lifecycle.actions import CleanUp, Finish, Rest
from gpuaas.lifecycle.inside import Look
from gpuaas.lifecycle.kind import conditions_write
from gpuaas.lifecycle.operations import StepRow, StepState
from gpuaas.providers.base import DEADLINE, Change, JobPhase, ObservedJob
from gpuaas.staging.transfers import Way
from gpuaas.workspaces.lending import KEPT
from gpuaas.workspaces.room import room_of
from tenants.actors import SYSTEM

S = JobState
PAUSE, PAUSE_MOST = timedelta(seconds=10), timedelta(minutes=6)  # before another attempt, doubled each time
# of one that waits again after it was a guest: nothing of what it did counts
AS_NEW: dict[str, Any] = {
    "place": None,
    "placed_at": None,
    "ready_at": None,
    "attempt": 0,
    "exit_code": None,
    "observed": {},
    "waiting": "",
}
OVER = frozenset({JobPhase.GONE, JobPhase.SUCCEEDED, JobPhase.FAILED})
Action = StepRow | Finish | Look | Moved | CleanUp | Rest


def plan(state: S, pending: Sequence[StepRow], outcome: str, *, moving: bool, moved: bool) -> Action:
    """`pending`: steps that are not done, in order. outcome and moving: of the row; a guest that leaves has no outcome. moved: whether
    its mover is known to have succeeded."""
    match state:
        case S.QUEUED:
            return Rest(None)
        case S.STAGING_IN | S.STAGING_OUT:
            if not moving:
                return Rest(None)
            return pending[0] if pending else Moved() if moved else Look()
        case S.STARTING | S.RUNNING:
            return pending[0] if pending else Look()
        case S.ENDING:
            return pending[0] if pending else Finish(S(outcome) if outcome else S.QUEUED)
        case S.DELETING:
            return pending[0] if pending else Finish(S.DELETED)
        case _:
            return CleanUp()


def run(job_id: uuid.UUID) -> None:
    """Brings one job as far as possible now. Safe to call at any time, in any number of processes."""
    RECORD.run(job_id, _plan, _act, _give_up)


def _plan(visit: Visit) -> Action:
    row = visit.row
    moved = bool(row.moved.get(row.staging, {}).get("done"))
    return plan(S(row.state), visit.pending, row.outcome, moving=row.moving, moved=moved)


def _act(visit: Visit, action: Action) -> bool:
    match action:
        case Finish(state=state):
            _finish(visit, state)
        case Look():
            return staging.look(visit) if visit.row.state in STAGING else _look(visit)
        case Moved():
            staging.leave(visit)
        case StepRow() if visit.row.state in STAGING:
            spec = mover_of(visit.row, Way(visit.row.staging), sealed=False)
            return RECORD.act(replace(visit, spec=spec), action)
        case CleanUp():
            RECORD.clean_up(visit, Change.DELETE)
        case StepRow() if visit.row.state == S.STARTING and (first := starts_before(visit.row)) is not None:
            _wait_for(visit, first)
        case StepRow() if visit.row.state == S.ENDING:
            _log_keep(visit, action)
            return RECORD.act(visit, action)
        case _:
            return RECORD.act(visit, action)
    return False


def _wait_for(visit: Visit, first: Job) -> None:
    """Both would look at the same room of the site's, and each could get a part of it and wait for the other's."""
    words = f"waits until all tasks of {first.name} have their place, which began to start before"
    with RECORD.guarded(visit) as row:
        if row.waiting != words:
            row.waiting = words
            row.save(update_fields=["waiting"])
            JOB.announce(row)
        since = visit.operation.requested_at if visit.operation is not None else None
        claims.release(row, due_at=visits.soon(since), attempts=0)


def _look(visit: Visit) -> bool:
    seen, logs = visit.driver.observe(visit.spec), dict[int, str]()
    if seen.attempt and seen.phase is not JobPhase.GONE:
        tasks = {"failed": seen.failed, "running": seen.running, "succeeded": seen.succeeded}
        logs = logs_take(visit.row, visit.driver, visit.spec, tasks)
        visit.driver.tidy(visit.spec)
    with RECORD.guarded(visit) as row:
        news = preemption_write(row, seen) | _seen_write(row, seen) | logs_write(row, logs)
        news = conditions_write(row, visits.reachable(), drop=(visits.PROGRESSING,)) or news
        if seen.phase in OVER or seen.hopeless:
            return _end(visit, row, seen)
        if row.state == S.STARTING and seen.phase is JobPhase.WAITING and (why := _never(row)):
            RECORD.operation_end(visit, clock.now(), succeeded=False)
            end_begin(row, SYSTEM, S.FAILED, failure=why, cause="Resized")
            return True
        if row.state == S.RUNNING and seen.phase is JobPhase.WAITING and is_out(row):
            JOB.move(row, S.STARTING, reason=row.waiting)
            row.due_at = visit.row.due_at
        if row.state == S.STARTING and seen.phase is JobPhase.RUNNING:
            if visit.operation is not None:
                RECORD.operation_end(visit, clock.now(), succeeded=True)
            JOB.move(row, S.RUNNING, ready_at=row.ready_at or clock.now())
            row.due_at = visit.row.due_at  # the transition has read the row anew
            runs_again_write(row)
            news = True
        claims.release(row, due_at=_next_look(row), attempts=0)
        if news:
            JOB.announce(row)
    return False


def _never(row: Job) -> str:
    """Why it will not start, where its workspace was made smaller since it left the queue: nothing behind it would, either. A guest
    leaves in time."""
    if row.place_id is not None:
        return ""
    short = room_of(workspace=row.workspace, besides=row).empty.shortage(row.pool, row.takes)
    if short is None:
        return ""
    return f"the workspace was made smaller: it has {short.amount.bought:,} {short.what}, and {short.asked:,} were asked for"


def _seen_write(row: Job, seen: ObservedJob) -> bool:
    facts = {
        "attempt": seen.attempt or row.attempt,
        "exit_code": seen.exit_code if seen.exit_code is not None else row.exit_code,
        "observed": _observed(row, seen),
        "waiting": waiting_words(row, seen.detail)[:300] if seen.phase is JobPhase.WAITING else "",
    }
    changed = {name: value for name, value in facts.items() if getattr(row, name) != value}
    for name, value in changed.items():
        setattr(row, name, value)
    if changed:
        row.save(update_fields=list(changed))
    return bool(changed)


def _observed(row: Job, seen: ObservedJob) -> dict[str, Any]:
    if row.tasks == 1:
        return {"node": seen.node}
    return row.observed if seen.phase is JobPhase.GONE else observed_of(seen)


def _end(visit: Visit, row: Job, seen: ObservedJob) -> bool:
    """It has ended, or can only be ended: what is left of it is removed now. False where it is started again later."""
    if visit.operation is not None:
        RECORD.operation_end(
            visit, clock.now(), succeeded=not seen.hopeless and seen.phase is not JobPhase.GONE
        )
    if seen.phase is JobPhase.GONE:
        end_begin(row, SYSTEM, S.FAILED, failure=GONE, cause="Removed")
        return True
    ran: dict[str, Any] = {} if seen.hopeless else {"ready_at": row.ready_at or clock.now()}
    if seen.phase is JobPhase.SUCCEEDED:
        end_begin(row, SYSTEM, S.SUCCEEDED, **ran)
    elif seen.phase is JobPhase.FAILED and _has_another(row, seen):
        _start_again(row, seen)
        return False
    else:
        end_begin(row, SYSTEM, S.FAILED, failure=seen.detail, cause=seen.reason[:40], **ran)
    return True


def _has_another(row: Job, seen: ObservedJob) -> bool:
    """Another attempt, which the portal makes of tasks that run together alone."""
    if not row.together or row.attempt > row.retries or seen.reason == DEADLINE:
        return False
    since, seconds = row.ready_at, row.deadline_seconds
    return since is None or seconds is None or since + timedelta(seconds=seconds) > clock.now()


def _start_again(row: Job, seen: ObservedJob) -> None:
    """All its tasks, after a pause; its first step removes what is left of the attempt before."""
    words, pause = (
        f"attempt {row.attempt} failed: {seen.detail}"[:500],
        min(PAUSE * 2 ** (row.attempt - 1), PAUSE_MOST),
    )
    changes: dict[str, Any] = {"ready_at": row.ready_at or clock.now()}
    if row.state == S.STARTING:
        JOB.move(row, S.RUNNING, **changes)
    changes |= {"attempt": row.attempt + 1, "waiting": "all its tasks start again after a pause"}
    changes["observed"] = {key: each for key, each in row.observed.items() if key != "made"}
    JOB.begin(row, SYSTEM, Change.CREATE, summary=words, reason=words, **changes)
    claims.release(row, due_at=clock.now() + pause, attempts=0)
    JOB.announce(row)


def _next_look(row: Job) -> datetime:
    """The longer it runs, the rarer."""
    most = clock.now() + LOOK_MOST * random.uniform(0.8, 1.0)  # noqa: S311  spreads load, hides nothing
    return min(visits.soon(row.ready_at), most)


def _finish(visit: Visit, state: S) -> None:
    """Once more after a while: what a late answer has left is removed then."""
    moment = clock.now()
    with RECORD.guarded(visit) as row:
        if row.state == S.ENDING:
            state = S(row.outcome) if row.outcome else S.QUEUED  # it may be cancelled until then
        RECORD.operation_end(visit, moment, succeeded=True)
        conditions_write(row, visits.reachable(), drop=(visits.PROGRESSING,))
        changes: dict[str, Any] = {"deleted_at": moment} if state == S.DELETED else {}
        due_at: datetime | None = moment + visits.LEFTOVERS_AFTER
        if state == S.SUCCEEDED and row.unmoved:
            state, due_at, changes = S.STAGING_OUT, None, {"staging": Way.OUT}
        if state == S.QUEUED:
            due_at, changes = None, AS_NEW
        queue_poke(row.runs_in.pk)
        JOB.move(row, state, reason=row.failure, holding=False, moving=False, **changes)
        if state == S.DELETED:
            logs_delete(row)
        row.due_at = visit.row.due_at  # the transition has read the row anew
        claims.release(row, due_at=due_at, attempts=0)
        if row.state == S.QUEUED:
            queue_poke(row.workspace_id)
        JOB.announce(row)


def _log_keep(visit: Visit, step: StepRow) -> None:
    """Before anything of it is removed; and of a guest that has to leave, what it writes during its notice."""
    begins, leaves = step.state == StepState.WAITING, not visit.row.outcome
    if not (begins or leaves):
        return
    if begins and leaves:
        _ended_before(visit)
    found = logs_take(visit.row, visit.driver, visit.spec, visit.row.observed, last=True)
    if begins:
        RECORD.step_begin(visit, step, also=partial(logs_write, found=found))
        return
    with RECORD.guarded(visit) as row:
        if logs_write(row, found):
            JOB.announce(row)


def _ended_before(visit: Visit) -> None:
    """Of a guest that has to leave: it may have ended by itself before anything of it is removed."""
    seen = visit.driver.observe(visit.spec)
    if seen.phase not in {JobPhase.SUCCEEDED, JobPhase.FAILED}:
        return
    with RECORD.guarded(visit) as row:
        if row.outcome or (seen.phase is JobPhase.FAILED and _has_another(row, seen)):
            return
        row.outcome = S.SUCCEEDED if seen.phase is JobPhase.SUCCEEDED else S.FAILED
        row.failure, row.cause = seen.detail[:500], seen.reason[:40]
        row.ready_at, row.finished_at = row.ready_at or clock.now(), clock.now()
        row.preemptions -= 1
        row.preempted_at = row.preempted_at if row.preemptions else None
        _seen_write(row, seen)
        times = ("ready_at", "finished_at", "preemptions", "preempted_at")
        row.save(update_fields=["outcome", "failure", "cause", *times, "waiting"])
        conditions_write(row, drop=(KEPT,))


def _give_up(visit: Visit, step: StepRow, error: GpuaasError) -> None:
    """The site refuses to start it: it failed, once nothing of it is there."""
    words = error.message[:500]
    with RECORD.guarded(visit) as row:
        step.state, step.finished_at, step.detail = StepState.FAILED, clock.now(), words
        step.save(update_fields=["state", "finished_at", "detail"])
        RECORD.operation_end(visit, clock.now(), succeeded=False)
        end_begin(row, SYSTEM, S.FAILED, failure=words, cause="Refused")
        row.due_at = visit.row.due_at
        claims.release(row, due_at=clock.now(), attempts=0)
        JOB.wake(row)
