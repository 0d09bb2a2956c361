"""What to do next about an environment, a pure function; and one visit: plan, act, write, plan again."""

import random
import uuid
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from gpuaas.core import claims, clock
from gpuaas.core.claims import claimed
from gpuaas.core.conditions import Status
from gpuaas.core.errors import GpuaasError, NotFound, QuotaRefused, Unauthorized, Unavailable
from gpuaas.core.texts import storable
from gpuaas.environments.models import (
    Environment,
    EnvironmentLog,
    EnvironmentUse,
)
from gpuaas.environments.services.changes import environment_sleep_on
from gpuaas.environments.services.idle import USE
from gpuaas.environments.services.rows import END_ONE, ENVIRONMENT, HOLDER
from gpuaas.environments.spec import ENVIRONMENTS, FOR_SPEC, spec_of
from gpuaas.environments.states import CHANGING, EnvironmentState
from gpuaas.environments.tokens import counts_begin, counts_last
from gpuaas.lifecycle import inside, visits
from gpuaas.lifecycle.actions import Begin, CleanUp, Finish, Rest
from gpuaas.lifecycle.inside import Look, Record
from gpuaas.lifecycle.kind import conditions_write
from gpuaas.lifecycle.operations import StepRow
from gpuaas.providers.base import Change, Environments, EnvironmentSpec, ObservedEnvironment
from gpuaas.workspaces import lending
from tenants.actors import SYSTEM

S = EnvironmentState
LOOK_AGAIN = timedelta(seconds=60)
LINES = 200
RUNNING = "Running"  # the condition of one that was ready once
REFUSED = f"{END_ONE} Otherwise an operator has to check the site."
ENDS = {S.CREATING: S.READY, S.STOPPING: S.STOPPED, S.STARTING: S.READY, S.DELETING: S.DELETED}
RECORD: Record[Environment, Environments, EnvironmentSpec] = Record(ENVIRONMENT, ENVIRONMENTS, CHANGING)
Visit = inside.Visit[Environment, Environments, EnvironmentSpec]
Action = Begin | StepRow | Finish | Look | CleanUp | Rest


def plan(state: S, pending: Sequence[StepRow]) -> Action:
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
    RECORD.run(environment_id, _plan, _act, _give_up)


def _plan(visit: Visit) -> Action:
    return plan(S(visit.row.state), visit.pending)


def _act(visit: Visit, action: Action) -> bool:
    match action:
        case Begin():
            with RECORD.guarded(visit) as row:
                ENVIRONMENT.move(row, S.CREATING)
            return True
        case Finish(state=state):
            _finish(visit, state)
        case Look():
            return _look(visit)
        case CleanUp():
            RECORD.clean_up(visit, Change.SUSPEND if visit.row.state == S.STOPPED else Change.DELETE)
        case _:
            counts_last(visit.row.pk)
            return RECORD.act(visit, action)
    return False


def _finish(visit: Visit, state: S) -> None:
    """Once more after a while: what a late answer has left goes then."""
    moment = clock.now()
    changes: dict[str, Any] = {"deleted_at": moment}
    if state == S.READY:
        changes = {"ready_at": visit.row.ready_at or moment, "suspended_at": None}
    with RECORD.guarded(visit) as row:
        RECORD.operation_end(visit, moment, succeeded=True)
        conditions_write(row, visits.reachable(), drop=(visits.PROGRESSING, RUNNING, USE))
        ENVIRONMENT.move(row, state, observed={}, **({} if state == S.STOPPED else changes))
        if state == S.READY:
            conditions_write(row, drop=(lending.KEPT,))
            begun = {"used_at": moment, "since": moment, "due_at": moment, "unknown": ""}
            begun |= {"stop_at": None, "stopped_at": None}
            EnvironmentUse.objects.update_or_create(environment=row, defaults=begun)
            counts_begin(row)
        row.due_at = visit.row.due_at  # the transition has read the row anew
        claims.release(
            row, due_at=moment if state == S.READY else moment + visits.LEFTOVERS_AFTER, attempts=0
        )
        ENVIRONMENT.announce(row)


def _look(visit: Visit) -> bool:
    seen = visit.driver.observe(visit.spec)
    detail = seen.detail
    if not seen.exists and visit.row.workspace.is_spot:
        _give_back(visit, seen)
        return True
    remedy, refused = "Read its log, or restart it.", ""
    if not (seen.exists and seen.whole):
        gone = "a worker of it was gone" if seen.exists else "nothing of it ran"
        detail, refused = _started(visit, f"{gone}, so it is started again")
        seen = visit.driver.observe(visit.spec)
        if seen.ready and not refused:
            detail = seen.detail
    with RECORD.guarded(visit) as row:
        facts = {
            key: value
            for key, value in asdict(seen).items()
            if key not in {"exists", "ready", "whole", "preempted_at"}
        }
        news = row.observed != facts
        row.observed = facts
        row.save(update_fields=["observed"])
        running = _running(seen, detail, refused or remedy)
        news = conditions_write(row, visits.reachable(), running, drop=(visits.PROGRESSING,)) or news
        claims.release(row, due_at=_next_look(row, seen, refused=bool(refused)), attempts=0)
        if news:
            ENVIRONMENT.announce(row)
    return False


def _started(visit: Visit, detail: str) -> tuple[str, str]:
    """Again, for what `detail` says: in words, and what helps where the site refused any of it."""
    refused = ""
    try:
        for step in visit.driver.steps(Change.CREATE, visit.spec):
            outcome = visit.perform(Change.CREATE, step.key)
            refused = refused or outcome.refused
            if not outcome.done:
                words = refused or outcome.detail
                return f"{detail}: {words}" if words else detail, REFUSED if refused else ""
    except (Unavailable, Unauthorized):
        raise
    except GpuaasError as error:
        return f"{detail}: {error.message}", str(error.detail.get("next", REFUSED))
    return (f"{detail}: {refused}", REFUSED) if refused else (detail, "")


def _give_back(visit: Visit, seen: ObservedEnvironment) -> None:
    """Of one that borrows its GPUs nothing runs any more: it stays stopped, and its owner starts it again."""
    with RECORD.guarded(visit) as row:
        began = (
            row.operations.exclude(finished_at=None)
            .order_by("-finished_at")
            .values_list("finished_at", flat=True)
            .first()
        )
        at = seen.preempted_at
        reason = "nothing of it ran any more, and its GPUs are borrowed"
        if at is not None and (began is None or at > began):
            reason = lending.preempted_words(at)
            conditions_write(row, lending.preempted(at, "start it again when you like"))
        ENVIRONMENT.begin(
            row, SYSTEM, Change.SUSPEND, summary=reason, reason=reason, suspended_at=clock.now()
        )
        ENVIRONMENT.audit(row, SYSTEM, "stop", after={"reason": reason})
        ENVIRONMENT.announce(row)


def _next_look(row: Environment, seen: ObservedEnvironment, *, refused: bool) -> datetime:
    """The longer it does not answer, the rarer. refused: what is missing of it, which the site does not take sooner."""
    if not seen.ready:
        return visits.soon(datetime.fromisoformat(row.conditions[RUNNING]["since"]))
    if not (seen.whole or refused):
        return visits.soon()
    return clock.now() + LOOK_AGAIN * random.uniform(0.8, 1.2)  # noqa: S311  spreads load, hides nothing


def _running(seen: ObservedEnvironment, detail: str, remedy: str) -> dict[str, Any]:
    if seen.ready:
        words = f"it answers; {detail}" if detail else "it answers"
        return {"type": RUNNING, "status": Status.TRUE, "reason": "Answers", "message": words}
    return {
        "type": RUNNING,
        "status": Status.FALSE,
        "reason": "NoAnswer",
        "message": detail or "it does not answer",
        "remedy": remedy,
    }


@transaction.atomic
def _give_up(visit: Visit, step: StepRow, error: GpuaasError) -> None:
    """What a key has started, and members' own pods leave no room for, sleeps on until it is asked for again."""
    words = error.message[:500]
    RECORD.give_up(visit, step, words, failure=words)
    by = visit.operation.requested_by if visit.operation else ""
    if isinstance(error, QuotaRefused) and visit.row.state == S.STARTING and by == HOLDER:
        environment_sleep_on(environment=visit.row, why=words)


# -- its log -------------------------------------------------------------------------------------------------------


def log_fetch(environment_id: uuid.UUID) -> bool:
    """Asks the site for the last lines; a log that cannot be had says why."""
    return claimed(EnvironmentLog, environment_id, _log_take, failed=_log_failed, only_due=True)


def _log_take(log: EnvironmentLog) -> bool:
    row = ENVIRONMENT.rows.select_related("project", *FOR_SPEC).get(pk=log.pk)
    found = ENVIRONMENTS.at(row.site)
    if found is None:
        raise NotFound("the site offers no environments")
    text = storable(found.log(spec_of(row), lines=LINES, worker=log.asked))
    _log_write(log, text=text, failure="")
    return True


def _log_failed(log: EnvironmentLog, error: GpuaasError) -> None:
    _log_write(log, text="", failure=error.message[:500])


def _log_write(log: EnvironmentLog, **changes: Any) -> None:
    claims.release(log, due_at=None, attempts=0, taken_at=clock.now(), worker=log.asked, **changes)
    ENVIRONMENT.announce(log.environment)
