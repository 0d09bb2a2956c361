"""A visit: one lease's worth of a reconciler's work at one row, whatever it brings about.

The reconcilers of workspaces and of clusters differ in what they plan and call. What they share is here: taking the row,
writing under its lease, coming back when the site did not answer, and the words for that.
"""

import random
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, Generic, Protocol, TypeVar

import structlog
from django.db import models, transaction
from django.db.models import F

from gpuaas.core import clock, leases
from gpuaas.core.backoff import CAP_SECONDS, delay
from gpuaas.core.conditions import Status, condition_set
from gpuaas.core.errors import Conflict, GpuaasError, Permanent, Unauthorized, Unavailable
from gpuaas.core.leases import Claimable
from gpuaas.core.operations import ADMISSION, OperationRow, StepRow, StepState
from gpuaas.core.outside import outside_transaction
from gpuaas.core.queue import poke

log = structlog.get_logger(__name__)

CLAIM_SECONDS = 30  # longer than any one call to a site may take; each write extends it
POLL_SECONDS = (1.0, 2.0)
POLL_SECONDS_MOST = 60.0
EARLY = timedelta(milliseconds=50)
REACHABLE = "Reachable"
PROGRESSING = "Progressing"  # the condition of a change that does not move
PORTAL = "portal"  # who acts, in histories
Change = Mapping[str, Any]  # of a condition: what `condition_set` takes


class LeaseLost(Conflict):
    """Another process works on the row now; what we did is found again by it, what we know is dropped."""

    code = "lease_lost"


class Overtaken(Conflict):
    """Somebody asked for something else while we acted; the result is dropped and the plan made anew."""

    code = "overtaken"


class Provisioned(Claimable):
    """What a reconciler keeps at a site for a tenant, for as long as its lease runs; the concrete model adds `state`.

    observed: what the site last said.
    """

    state: "models.CharField[Any, str]"
    lease_ends_at = models.DateTimeField()
    created_at = models.DateTimeField()
    ready_at = models.DateTimeField(null=True, blank=True)
    suspended_at = models.DateTimeField(null=True, blank=True)
    deleted_at = models.DateTimeField(null=True, blank=True)
    conditions = models.JSONField(default=dict, blank=True)
    observed = models.JSONField(default=dict, blank=True)
    version = models.PositiveBigIntegerField(default=1)

    class Meta:
        abstract = True


RowT = TypeVar("RowT", bound=Provisioned)
Row_co = TypeVar("Row_co", bound=Provisioned, covariant=True)


class Job(Protocol[Row_co]):
    """What was read of a row before it was worked on."""

    @property
    def row(self) -> Row_co: ...

    @property
    def operation(self) -> OperationRow | None: ...

    @property
    def steps(self) -> Sequence[StepRow]: ...


def visit(model: type[RowT], pk: uuid.UUID, *, work: Callable[[RowT], None], task: str) -> None:
    """`work` on the row if it is due and nobody else does, and `task` once more where it is due again by then."""
    outside_transaction()
    row = leases.claim(model, pk, now=clock.now(), seconds=CLAIM_SECONDS)
    if row is None:
        return
    if row.due_at is None or row.due_at > clock.now() + EARLY:
        leases.release(row, due_at=row.due_at)
        return
    try:
        work(row)
    except LeaseLost:
        log.info("lease_lost", kind=model.__name__, id=str(pk))
    if model._default_manager.filter(pk=pk, claim_until=None, due_at__lte=clock.now()).exists():
        poke(task, str(pk))


def attempt(call: Callable[[], bool], refused: Callable[[GpuaasError], None], **about: str) -> bool:
    """What `call` says (True = go on); False where it failed, which `refused` was told in words for people."""
    try:
        return call()
    except (LeaseLost, Overtaken):
        raise
    except GpuaasError as error:
        refused(error)
    except Exception as error:
        log.exception("reconcile_failed", **about)
        words = f"the portal met an unexpected error ({type(error).__name__}); operators find it in the log"
        refused(Permanent(words))
    return False


class Record(Generic[RowT]):
    """Writing down what a visit did: each is one transaction, guarded by the lease and by what was acted on."""

    def __init__(
        self, noun: str, rows: Callable[[], models.QuerySet[RowT]], announce: Callable[[RowT], None]
    ) -> None:
        """noun: for people, as in "the cluster was changed meanwhile". rows: with all that the writers look at."""
        self._noun, self._rows, self._announce = noun, rows, announce

    @contextmanager
    def guarded(self, job: Job[RowT]) -> Iterator[RowT]:
        """The row, locked, still leased to us and in the state and operation we acted on. Extends the lease."""
        until = clock.now() + timedelta(seconds=CLAIM_SECONDS)
        with transaction.atomic():
            if not leases.apply(job.row, claim_until=until):
                raise LeaseLost(f"another process works on this {self._noun}")
            row = self._rows().get(pk=job.row.pk)
            if row.state != job.row.state or (job.operation is not None and not _is_open(job.operation)):
                raise Overtaken(f"the {self._noun} was changed meanwhile")
            row.due_at = job.row.due_at  # what `release` compares with: a wish that came since is kept
            yield row

    def later(
        self,
        job: Job[RowT],
        condition: Change,
        *,
        due_at: datetime,
        step: StepRow | None = None,
        refused: bool = False,
    ) -> None:
        """It did not work this time: say so and come back."""
        with self.guarded(job) as row:
            if step is not None:
                step.detail = str(condition["message"])[:500]
                step.refusals += refused
                step.save(update_fields=["detail", "refusals"])
            news = conditions_write(row, condition)
            leases.release(row, due_at=due_at, attempts=F("attempts") + 1)
            if news or step is not None:
                self._announce(row)

    def rest(self, job: Job[RowT], due_at: datetime | None) -> None:
        """Nothing is left to do now."""
        with self.guarded(job) as row:
            if conditions_write(row, drop=(PROGRESSING,)):
                self._announce(row)
            leases.release(row, due_at=due_at, attempts=0)

    def steps_restart(
        self, job: Job[RowT], reason: str, *, due_at: datetime, refused: StepRow, **changes: Any
    ) -> None:
        """All steps of the driver begin anew: what they made has gone or does not show. `changes`: of the operation."""
        with self.guarded(job) as row:
            operation = self.operation(job)
            theirs = [step.pk for step in job.steps if step.key != ADMISSION]
            again = type(refused)._default_manager.filter(pk__in=theirs)
            again.update(state=StepState.WAITING, finished_at=None, detail=reason[:500])
            again.filter(pk=refused.pk).update(refusals=F("refusals") + 1)
            if changes:
                type(operation)._default_manager.filter(pk=operation.pk).update(**changes)
            leases.release(row, due_at=due_at, attempts=F("attempts") + 1)
            self._announce(row)

    def operation(self, job: Job[RowT]) -> OperationRow:
        if job.operation is None:
            raise Overtaken(f"the {self._noun} has no open operation")
        return job.operation

    def operation_end(self, job: Job[RowT], moment: datetime, *, succeeded: bool) -> None:
        operation = self.operation(job)
        rows = type(operation)._default_manager.filter(pk=operation.pk)
        rows.update(finished_at=moment, succeeded=succeeded)


def conditions_write(row: Provisioned, *changes: Change, drop: tuple[str, ...] = ()) -> bool:
    """Set conditions on a row that is locked; True where one of them says something new."""
    stored = {kind: held for kind, held in row.conditions.items() if kind not in drop}
    for change in changes:
        stored = condition_set(stored, now=clock.now(), **change)
    if stored == row.conditions:
        return False
    row.conditions = stored
    row.save(update_fields=["conditions"])
    return True


def step_fail(step: StepRow, moment: datetime, message: str) -> None:
    step.state, step.finished_at, step.detail = StepState.FAILED, moment, message[:500]
    step.refusals += 1
    step.save(update_fields=["state", "finished_at", "detail", "refusals"])


def soon(since: datetime | None = None) -> datetime:
    """The longer it has been waited for, the longer until the next look; a watch may call earlier."""
    waited = (clock.now() - since).total_seconds() if since is not None else 0.0
    seconds = min(max(random.uniform(*POLL_SECONDS), waited / 10), POLL_SECONDS_MOST)  # noqa: S311  spreads load, hides nothing
    return clock.now() + timedelta(seconds=seconds)


def retry_at(row: Claimable, error: GpuaasError) -> datetime:
    """After one more failure of this row; not before the site wants to be asked again."""
    wait = delay(row.attempts + 1)
    if isinstance(error, Unavailable):
        wait = max(wait, min(error.retry_after, CAP_SECONDS))
    return clock.now() + timedelta(seconds=wait)


def reachable() -> dict[str, Any]:
    return {"type": REACHABLE, "status": Status.TRUE, "reason": "Answers", "message": "the site answers"}


def unreachable(error: Unavailable | Unauthorized) -> dict[str, Any]:
    refused = isinstance(error, Unauthorized)
    return {
        "type": REACHABLE,
        "status": Status.FALSE,
        "reason": "CredentialsRefused" if refused else "NoAnswer",
        "message": f"{error.message}; the portal keeps trying",
        "remedy": "An operator has to renew the credentials of the site." if refused else "",
    }


def refused_by_site(error: GpuaasError) -> dict[str, Any]:
    """The remedy is the error's own, where it has one in its detail as `next`."""
    return {
        "type": PROGRESSING,
        "status": Status.FALSE,
        "reason": "SiteRefused",
        "message": f"{error.message}; the portal tries again",
        "remedy": str(error.detail.get("next", "If this lasts, an operator has to look at the site.")),
    }


def _is_open(operation: OperationRow) -> bool:
    return type(operation)._default_manager.filter(pk=operation.pk, finished_at__isnull=True).exists()
