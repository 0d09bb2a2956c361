"""A visit: the work of a reconciler on one row during one claim.

The reconcilers of workspaces and clusters differ in their plans and calls. They share what is here: taking the row,
writing under its claim, retrying when the site did not answer, and the messages for that.
"""

import random
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Generic, Protocol, TypeVar

from django.db import transaction
from django.db.models import Exists, F, QuerySet
from prometheus_client import Counter

from gpuaas.core import claims, clock, traces
from gpuaas.core.claims import ClaimLost, in_words, retry_at
from gpuaas.core.conditions import Status
from gpuaas.core.errors import Conflict, GpuaasError, NotFound, Unauthorized, Unavailable, Unconfirmed
from gpuaas.core.queue import poke
from gpuaas.core.rows import one_or_none
from gpuaas.lifecycle.kind import FAILED, GOING, ConditionChange, Kind, conditions_write
from gpuaas.lifecycle.models import Provisioned
from gpuaas.lifecycle.operations import ADMISSION, OperationRow, StepRow, StepState
from gpuaas.providers.base import TENACIOUS, Change, Provisioner, StepOutcome, change_unknown

CLAIM_SECONDS = 30  # longer than any one call to a site may take; each write extends it
POLL_SECONDS = (1.0, 2.0)
POLL_SECONDS_MOST = 60.0
REFUSALS_MAX = 3  # of one step; then it failed
RESTARTS_MAX = 8  # of all steps of a change
LEFTOVERS_AFTER = timedelta(minutes=5)  # then what stayed at the site is looked for again
REACHABLE = "Reachable"
PROGRESSING = "Progressing"  # the condition of a change that does not move
VISITS = Counter(
    "gpuaas_visits",
    "Visits of reconcilers by the state in which they found the row, and by what came of them.",
    ("holder", "site", "state", "outcome"),
)


class Overtaken(Conflict):
    """Another request came during the work; the result is dropped and the plan is made again."""

    code = "overtaken"


Spec = TypeVar("Spec")
RowT = TypeVar("RowT", bound=Provisioned)
Row_co = TypeVar("Row_co", bound=Provisioned, covariant=True)


class Job(Protocol[Row_co]):
    """The row as it was read before the work."""

    @property
    def row(self) -> Row_co: ...

    @property
    def operation(self) -> OperationRow | None: ...

    @property
    def steps(self) -> Sequence[StepRow]: ...


@dataclass
class _Tally:
    """What is counted of a visit. outcome: done, or what kept it from that: later, restart, failed, lost or error;
    site: known from its first write on."""

    outcome: str = "done"
    site: str = ""


_tally: ContextVar[_Tally | None] = ContextVar("tally", default=None)


def visit(kind: Kind[RowT], pk: uuid.UUID, work: Callable[[RowT], None]) -> None:
    """Runs `work` on the row if it is due and not claimed, and the kind's task once more if it is due again by then."""

    def at_site(row: RowT) -> None:
        if _is_left_behind(row):
            claims.release(row, due_at=None, attempts=0)
        else:
            _counted(row, work)

    claims.claimed(kind.rows.model, pk, at_site, seconds=CLAIM_SECONDS, only_due=True)
    if kind.rows.filter(pk=pk, claim_until=None, due_at__lte=clock.now()).exists():
        poke(kind.task, str(pk))


def _is_left_behind(row: RowT) -> bool:
    """Whether its site was removed, which has no credentials any more: it would be asked for what was left there for ever. Read only
    of what is gone or could not be done."""
    return (row.state in GOING or row.attempts > 0) and row.site.removed_at is not None


def _counted(row: RowT, work: Callable[[RowT], None]) -> None:
    tally, state, holder = _Tally(), row.state, str(row._meta.model_name)
    token = _tally.set(tally)
    with traces.span(f"visit {holder}") as data:
        try:
            work(row)
        except ClaimLost:
            tally.outcome = "lost"
            raise
        except BaseException:
            tally.outcome = "error"
            raise
        finally:
            _tally.reset(token)
            VISITS.labels(holder, tally.site, state, tally.outcome).inc()
            data.about = {
                "gpuaas.row": f"{holder}:{row.pk}",
                "gpuaas.site": tally.site,
                "gpuaas.state": state,
                "gpuaas.outcome": tally.outcome,
            }


def _ends(outcome: str) -> None:
    if (tally := _tally.get()) is not None:
        tally.outcome = outcome


def attempt(call: Callable[[], bool], refused: Callable[[GpuaasError], None], **about: str) -> bool:
    """What `call` returned (True = continue); False if it failed, which was passed to `refused` as a message for
    people."""
    try:
        return call()
    except (ClaimLost, Overtaken):
        raise
    except Exception as error:  # noqa: BLE001  whatever it is, it is written where people look
        refused(in_words(error, **about))
    return False


def row_again(rows: QuerySet[RowT], claimed: RowT) -> RowT:
    """Of `rows`, the row as it is now. Raises ClaimLost unless it is still claimed by us."""
    row = one_or_none(rows.filter(pk=claimed.pk, claim_token=claimed.claim_token))
    if row is None:
        raise ClaimLost("another process is working on it")
    return row


def step_perform(driver: Provisioner[Spec], change: Change, spec: Spec, key: str) -> StepOutcome:
    """Raises Permanent if the site's driver no longer supports such a change."""
    if change not in driver.changes:
        raise change_unknown(change)
    return driver.perform(change, spec, key)


def step_perform_inside(driver: Provisioner[Spec], change: Change, spec: Spec, key: str) -> StepOutcome:
    """The same for what runs inside a workspace, whose part of a driver is called past `gpuaas/providers/measured.py`: raises
    Unconfirmed too, where nothing may be changed at the site now."""
    driver.connection.change_require()
    return step_perform(driver, change, spec, key)


class Record(Generic[RowT]):
    """Writes of a visit: each is one transaction, guarded by the claim and by what was acted on."""

    def __init__(self, kind: Kind[RowT], *reads: str) -> None:
        """reads: related rows that the writers need."""
        self._kind, self._rows = kind, kind.rows.select_related(*reads)
        self._announce = kind.announce

    @contextmanager
    def guarded(self, job: Job[RowT]) -> Iterator[RowT]:
        """The row, locked, still claimed by us and in the state and operation we acted on. Extends the claim."""
        if (tally := _tally.get()) is not None:
            tally.site = job.row.site.slug
        with transaction.atomic():
            claims.extend(job.row, seconds=CLAIM_SECONDS)
            rows = (
                self._rows if job.operation is None else self._rows.annotate(is_open=_is_open(job.operation))
            )
            row = rows.get(pk=job.row.pk)
            if row.state != job.row.state or not getattr(row, "is_open", True):
                raise Overtaken(f"the {self._kind.noun} was changed at the same time")
            row.due_at = job.row.due_at  # what `release` compares with: a request made since then stays
            yield row

    def later(
        self,
        job: Job[RowT],
        condition: ConditionChange,
        *,
        due_at: datetime,
        step: StepRow | None = None,
        refused: bool = False,
    ) -> None:
        """Records a failure and when to retry."""
        with self.guarded(job) as row:
            _ends("later")
            if step is not None:
                step.detail = str(condition["message"])[:500]
                step.refusals += refused
                step.save(update_fields=["detail", "refusals"])
            news = conditions_write(row, condition)
            claims.release(row, due_at=due_at, attempts=F("attempts") + 1)
            if news or step is not None:
                self._announce(row)

    def refused(
        self,
        job: Job[RowT],
        error: GpuaasError,
        *,
        step: StepRow | None,
        change: Change | None,
        fail: Callable[[StepRow], None],
        hopeless: bool = False,
        **restarted: Any,
    ) -> None:
        """After a failed call: retry later, start the steps again, or `fail`; always with a message. `restarted`: of
        the operation, if its steps start again."""
        due_at, tried = retry_at(job.row, error), step.refusals + 1 if step is not None else 0
        if isinstance(error, Unavailable | Unauthorized):
            self.later(job, unreachable(error), due_at=due_at, step=step)
        elif step is not None and change not in TENACIOUS and (hopeless or tried >= REFUSALS_MAX):
            fail(step)
        elif step is not None and isinstance(error, NotFound):
            self.steps_restart(job, error.message, due_at=due_at, refused=step, **restarted)
        else:
            self.later(job, refused_by_site(error), due_at=due_at, step=step, refused=True)

    def step_done(self, job: Job[RowT], step: StepRow, detail: str, answers: ConditionChange) -> None:
        with self.guarded(job) as row:
            step.state, step.finished_at, step.detail = StepState.DONE, clock.now(), detail[:500]
            step.save(update_fields=["state", "finished_at", "detail"])
            conditions_write(row, answers, drop=(PROGRESSING,))
            self._rows.filter(pk=row.pk).update(attempts=0)
            self._announce(row)

    def step_wait(
        self,
        job: Job[RowT],
        step: StepRow,
        detail: str,
        answers: ConditionChange,
        *,
        due_at: datetime,
        **changes: Any,
    ) -> None:
        """The site is working on it: the claim is released until then. `changes`: of the step, where `detail` is new."""
        with self.guarded(job) as row:
            news = step.detail != detail[:500]
            if news:
                changes["detail"] = detail[:500]
                for name, value in changes.items():
                    setattr(step, name, value)
                step.save(update_fields=list(changes))
            news = conditions_write(row, answers, drop=(PROGRESSING,)) or news
            claims.release(row, due_at=due_at, attempts=0)
            if news:
                self._announce(row)

    def rest(self, job: Job[RowT], due_at: datetime | None) -> None:
        """Nothing is left to do now."""
        with self.guarded(job) as row:
            if conditions_write(row, drop=(PROGRESSING,)):
                self._announce(row)
            claims.release(row, due_at=due_at, attempts=0)

    def steps_restart(
        self,
        job: Job[RowT],
        reason: str,
        *,
        due_at: datetime,
        refused: StepRow,
        counts: bool = True,
        **changes: Any,
    ) -> None:
        """Starts all steps of the driver again: their results are gone or not visible. counts: towards giving up. `changes`: of
        the operation."""
        with self.guarded(job) as row:
            _ends("restart")
            operation = self.operation(job)
            driver_steps = [step.pk for step in job.steps if step.key != ADMISSION]
            again = type(refused)._default_manager.filter(pk__in=driver_steps)
            again.update(state=StepState.WAITING, finished_at=None, detail=reason[:500])
            again.filter(pk=refused.pk).update(refusals=F("refusals") + int(counts))
            if changes:
                type(operation)._default_manager.filter(pk=operation.pk).update(**changes)
            claims.release(row, due_at=due_at, attempts=F("attempts") + 1)
            self._announce(row)

    def give_up(
        self, job: Job[RowT], step: StepRow, message: str, *, due_at: datetime | None = None, **changes: Any
    ) -> None:
        """Failed, with a reason for people. What is reserved stays held for the retry."""
        moment = clock.now()
        with self.guarded(job) as row:
            _ends("failed")
            step.state, step.finished_at, step.detail = StepState.FAILED, moment, message[:500]
            step.refusals += 1
            step.save(update_fields=["state", "finished_at", "detail", "refusals"])
            self.operation_end(job, moment, succeeded=False)
            conditions_write(row, reachable(), drop=(PROGRESSING,))
            self._kind.move(row, FAILED, reason=message, **changes)
            claims.release(row, due_at=due_at, attempts=0)
            self._announce(row)

    def operation(self, job: Job[RowT]) -> OperationRow:
        if job.operation is None:
            raise Overtaken(f"the {self._kind.noun} has no open operation")
        return job.operation

    def operation_end(self, job: Job[RowT], moment: datetime, *, succeeded: bool) -> None:
        operation = self.operation(job)
        rows = type(operation)._default_manager.filter(pk=operation.pk)
        rows.update(finished_at=moment, succeeded=succeeded)


def soon(since: datetime | None = None) -> datetime:
    """The longer it waits, the longer until the next look; a watch may call earlier."""
    waited = (clock.now() - since).total_seconds() if since is not None else 0.0
    seconds = min(max(random.uniform(*POLL_SECONDS), waited / 10), POLL_SECONDS_MOST)  # noqa: S311  spreads load, hides nothing
    return clock.now() + timedelta(seconds=seconds)


def reachable() -> dict[str, Any]:
    return {"type": REACHABLE, "status": Status.TRUE, "reason": "Answers", "message": "the site answers"}


def unreachable(error: Unavailable | Unauthorized) -> dict[str, Any]:
    if isinstance(error, Unconfirmed):
        return {**refused_by_site(error), "reason": "Unconfirmed"}
    refused = isinstance(error, Unauthorized)
    return {
        "type": REACHABLE,
        "status": Status.FALSE,
        "reason": "CredentialsRefused" if refused else "NoAnswer",
        "message": f"{error.message}; the portal keeps retrying",
        "remedy": "An operator has to renew the credentials of the site." if refused else "",
    }


def refused_by_site(error: GpuaasError) -> dict[str, Any]:
    """The remedy is the error's own, if its detail has one as `next`."""
    return {
        "type": PROGRESSING,
        "status": Status.FALSE,
        "reason": "SiteRefused",
        "message": f"{error.message}; the portal will try again",
        "remedy": str(error.detail.get("next", "If this lasts, an operator has to check the site.")),
    }


def _is_open(operation: OperationRow) -> Exists:
    return Exists(type(operation)._default_manager.filter(pk=operation.pk, finished_at__isnull=True))
