"""What to do next about an environment, a pure function; and one visit: plan, act, write, plan again."""

import random
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from gpuaas.core import claims, clock
from gpuaas.core.claims import claimed
from gpuaas.core.conditions import Status
from gpuaas.core.errors import GpuaasError, NotFound, Permanent
from gpuaas.core.outside import outside_transaction
from gpuaas.environments.models import (
    Environment,
    EnvironmentLog,
    EnvironmentOperation,
    EnvironmentStep,
    EnvironmentUse,
)
from gpuaas.environments.services.idle import USE
from gpuaas.environments.services.rows import ENVIRONMENT
from gpuaas.environments.spec import FOR_SPEC, environments_at, spec_of
from gpuaas.environments.states import CHANGING, EnvironmentState
from gpuaas.lifecycle import visits
from gpuaas.lifecycle.actions import Begin, CleanUp, Finish, Rest
from gpuaas.lifecycle.kind import conditions_write
from gpuaas.lifecycle.operations import StepState
from gpuaas.providers.base import Change, Environments, EnvironmentSpec, ObservedEnvironment

S = EnvironmentState
LOOK_AGAIN = timedelta(seconds=60)
LINES = 200
RUNNING = "Running"  # the condition of one that was ready once
ENDS = {S.CREATING: S.READY, S.STOPPING: S.STOPPED, S.STARTING: S.READY, S.DELETING: S.DELETED}
RECORD: visits.Record[Environment] = visits.Record(ENVIRONMENT, "project", *FOR_SPEC)


@dataclass(frozen=True)
class Job:
    row: Environment
    operation: EnvironmentOperation | None
    steps: tuple[EnvironmentStep, ...]
    driver: Environments
    spec: EnvironmentSpec


@dataclass(frozen=True)
class Look:
    """See whether it runs, and start it again if nothing of it does."""


Action = Begin | EnvironmentStep | Finish | Look | CleanUp | Rest


def plan(state: S, pending: Sequence[EnvironmentStep]) -> Action:
    """`pending`: steps that are not done, in order."""
    match state:
        case S.REQUESTED:
            return Begin()
        case S.READY:
            return Look()
        case S.STOPPED | S.DELETED:
            return CleanUp()
        case S.FAILED:
            return Rest(None)
        case _:
            return pending[0] if pending else Finish(ENDS[state])


def run(environment_id: uuid.UUID) -> None:
    """Brings one environment as far as possible now. Safe to call at any time, in any number of processes."""
    visits.visit(ENVIRONMENT, environment_id, _work)


def _work(row: Environment) -> None:
    more = True
    while more:
        job = _job(row)
        pending = [step for step in job.steps if step.state != StepState.DONE]
        action = plan(S(job.row.state), pending)
        more = visits.attempt(partial(_act, job, action), partial(_refused, job, action))


def _job(claimed_row: Environment) -> Job:
    row = visits.row_again(ENVIRONMENT.rows.select_related("project", *FOR_SPEC), claimed_row)
    operation = row.operations.filter(finished_at=None).prefetch_related("steps").first()
    outside_transaction()
    found = environments_at(row.site)
    if found is None:
        raise Permanent(f"the site {row.site.slug} offers no environments")
    return Job(row, operation, tuple(operation.steps.all()) if operation else (), found, spec_of(row))


def _act(job: Job, action: Action) -> bool:
    """True = continue; False = the claim was released."""
    match action:
        case Begin():
            with RECORD.guarded(job) as row:
                ENVIRONMENT.move(row, S.CREATING)
            return True
        case Finish(state=state):
            _finish(job, state)
        case Look():
            _look(job)
        case CleanUp():
            _clean_up(job)
        case Rest(until=until):
            RECORD.rest(job, until)
        case _:
            return _step(job, action)
    return False


def _step(job: Job, step: EnvironmentStep) -> bool:
    if step.state == StepState.WAITING:
        step.state, step.started_at = StepState.RUNNING, clock.now()
        with RECORD.guarded(job) as row:
            step.save(update_fields=["state", "started_at"])
            ENVIRONMENT.announce(row)
    outcome = visits.step_perform_inside(job.driver, CHANGING[S(job.row.state)], job.spec, step.key)
    if outcome.done:
        RECORD.step_done(job, step, outcome.detail, visits.reachable())
        return True
    due_at = visits.soon(step.started_at)
    RECORD.step_wait(job, step, outcome.detail, visits.reachable(), due_at=due_at)
    return False


def _finish(job: Job, state: S) -> None:
    """Once more after a while: what a late answer has left goes then."""
    moment = clock.now()
    changes: dict[str, Any] = {"deleted_at": moment}
    if state == S.READY:
        changes = {"ready_at": job.row.ready_at or moment, "suspended_at": None}
    with RECORD.guarded(job) as row:
        RECORD.operation_end(job, moment, succeeded=True)
        conditions_write(row, visits.reachable(), drop=(visits.PROGRESSING, RUNNING, USE))
        ENVIRONMENT.move(row, state, observed={}, **({} if state == S.STOPPED else changes))
        if state == S.READY:
            begun = {"used_at": moment, "since": moment, "due_at": moment, "unknown": ""}
            begun |= {"stop_at": None, "stopped_at": None}
            EnvironmentUse.objects.update_or_create(environment=row, defaults=begun)
        row.due_at = job.row.due_at  # the transition has read the row anew
        claims.release(
            row, due_at=moment if state == S.READY else moment + visits.LEFTOVERS_AFTER, attempts=0
        )
        ENVIRONMENT.announce(row)


def _look(job: Job) -> None:
    seen = job.driver.observe(job.spec)
    detail = seen.detail
    if not seen.exists:
        detail = "nothing of it ran, so it is started again"
        for step in job.driver.steps(Change.CREATE, job.spec):
            outcome = visits.step_perform_inside(job.driver, Change.CREATE, job.spec, step.key)
            if not outcome.done:
                detail = f"{detail}: {outcome.detail}" if outcome.detail else detail
                break
        else:
            seen = job.driver.observe(job.spec)
    with RECORD.guarded(job) as row:
        facts = {key: value for key, value in asdict(seen).items() if key not in {"exists", "ready"}}
        news = row.observed != facts
        row.observed = facts
        row.save(update_fields=["observed"])
        running = _running(seen, detail)
        news = conditions_write(row, visits.reachable(), running, drop=(visits.PROGRESSING,)) or news
        claims.release(row, due_at=_next_look(row, ready=seen.ready), attempts=0)
        if news:
            ENVIRONMENT.announce(row)


def _next_look(row: Environment, *, ready: bool) -> datetime:
    """The longer it does not answer, the rarer."""
    if ready:
        return clock.now() + LOOK_AGAIN * random.uniform(0.8, 1.2)  # noqa: S311  spreads load, hides nothing
    return visits.soon(datetime.fromisoformat(row.conditions[RUNNING]["since"]))


def _running(seen: ObservedEnvironment, detail: str) -> dict[str, Any]:
    if seen.ready:
        return {"type": RUNNING, "status": Status.TRUE, "reason": "Answers", "message": "it answers"}
    return {
        "type": RUNNING,
        "status": Status.FALSE,
        "reason": "NoAnswer",
        "message": detail or "it does not answer",
        "remedy": "Read its log, or restart it.",
    }


def _clean_up(job: Job) -> None:
    change = Change.SUSPEND if job.row.state == S.STOPPED else Change.DELETE
    for step in job.driver.steps(change, job.spec):
        if not visits.step_perform_inside(job.driver, change, job.spec, step.key).done:
            RECORD.rest(job, visits.soon())
            return
    RECORD.rest(job, None)


def _refused(job: Job, action: Action, error: GpuaasError) -> None:
    step = action if isinstance(action, EnvironmentStep) else None
    words = error.message[:500]
    fail = partial(RECORD.give_up, job, message=words, failure=words)
    RECORD.refused(job, error, step=step, change=CHANGING.get(S(job.row.state)), fail=fail)


# -- its log -------------------------------------------------------------------------------------------------------


def log_fetch(environment_id: uuid.UUID) -> bool:
    """Asks the site for the last lines; a log that cannot be had says why."""
    return claimed(EnvironmentLog, environment_id, _log_take, failed=_log_failed, only_due=True)


def _log_take(log: EnvironmentLog) -> bool:
    row = ENVIRONMENT.rows.select_related("project", *FOR_SPEC).get(pk=log.pk)
    found = environments_at(row.site)
    if found is None:
        raise NotFound("the site offers no environments")
    text = found.log(spec_of(row), lines=LINES).replace("\x00", "")
    _log_write(log, text=text, failure="")
    return True


def _log_failed(log: EnvironmentLog, error: GpuaasError) -> None:
    _log_write(log, text="", failure=error.message[:500])


def _log_write(log: EnvironmentLog, **changes: Any) -> None:
    claims.release(log, due_at=None, attempts=0, taken_at=clock.now(), **changes)
    ENVIRONMENT.announce(log.environment)
