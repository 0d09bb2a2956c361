"""Claims on rows: one worker at a time, and another one takes over when it dies.

Columns of the row: claim_token, claim_until (who works on it, until when) and due_at (when it needs attention; null =
at rest). `claimed` takes the row and works on it with no transaction open. The result is written with `apply` and
`release`, which filter on the token: if no row is updated, the claim was lost and the result is dropped.

In a process with a heartbeat (pulse.py) a claim is short and renewed while the work goes on, so that the work of a
killed process is taken over within seconds.
"""

import uuid
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, TypeVar

import structlog
from django.db import models, transaction
from django.db.models import Case, F, Q, Value, When, Window
from django.db.models.functions import Random, RowNumber

from gpuaas.core import clock, pulse
from gpuaas.core.backoff import CAP_SECONDS, delay
from gpuaas.core.errors import Conflict, GpuaasError, Permanent, Unavailable
from gpuaas.core.outside import outside_transaction
from gpuaas.core.queue import poke
from gpuaas.core.rows import one_or_none

log = structlog.get_logger(__name__)

CLAIM_SECONDS = 120  # longer than any one call to a site may take
SWEEP_LIMIT = 200
EARLY = timedelta(milliseconds=50)


class ClaimLost(Conflict):
    """Another process has the row now. It will find what we did at the site; our result is dropped."""

    code = "claim_lost"


class Claimable(models.Model):
    due_at = models.DateTimeField(null=True, blank=True, db_index=True)
    claim_token = models.UUIDField(null=True, blank=True, editable=False)
    claim_until = models.DateTimeField(null=True, blank=True, editable=False)
    attempts = models.PositiveIntegerField(default=0, editable=False)

    class Meta:
        abstract = True


RowT = TypeVar("RowT", bound=Claimable)


def claim(model: type[RowT], pk: Any, *, now: datetime, seconds: int) -> RowT | None:
    """Takes the row for `seconds`; None if the row does not exist or has another live claim."""
    token, limit = uuid.uuid4(), now + timedelta(seconds=seconds)
    free = Q(claim_until__isnull=True) | Q(claim_until__lte=now)
    rows: models.QuerySet[RowT] = model._default_manager.filter(free, pk=pk)
    if rows.update(claim_token=token, claim_until=pulse.claim_end(now=now, limit=limit)) != 1:
        return None
    return one_or_none(model._default_manager.filter(pk=pk, claim_token=token))


def claimed(
    model: type[RowT],
    pk: Any,
    work: Callable[[RowT], bool | None],
    *,
    failed: Callable[[RowT, GpuaasError], object] | None = None,
    seconds: int = CLAIM_SECONDS,
    only_due: bool = False,
) -> bool:
    """What `work` returned, after it released the row; False if another worker has the row, or the work failed.

    An error is written by `failed`, in one transaction and by default as `retry`; an unexpected one is logged and
    passed on as Permanent. Nothing is written after the claim was lost. `only_due`: makes a task that was sent twice
    do nothing.
    """
    outside_transaction()
    now = clock.now()
    row = claim(model, pk, now=now, seconds=seconds)
    if row is None or row.claim_token is None:
        return False
    token = row.claim_token
    pulse.hold(token, model, pk, now=now, limit=now + timedelta(seconds=seconds))
    logged = structlog.contextvars.bind_contextvars(row=f"{model._meta.model_name}:{pk}")
    try:
        if only_due and (row.due_at is None or row.due_at > clock.now() + EARLY):
            return rest(row, due_at=row.due_at)
        return bool(work(row))
    except ClaimLost:
        log.info("claim_lost", kind=model.__name__, id=str(pk))
    except Exception as error:  # noqa: BLE001  whatever it is, it is written where people look
        words = in_words(error, kind=model.__name__, id=str(pk))
        with transaction.atomic():
            (failed or retry)(row, words)
    finally:
        pulse.let_go(token)
        structlog.contextvars.reset_contextvars(**logged)
    return False


def in_words(error: Exception, **about: str) -> GpuaasError:
    """Logs an unexpected error with `about` and returns a sentence for people."""
    if isinstance(error, GpuaasError):
        return error
    log.error("unexpected_error", exc_info=error, **about)
    name = type(error).__name__
    return Permanent(f"the portal met an unexpected error ({name}); operators find it in the log")


def due_ids(model: type[Claimable], *, now: datetime, limit: int) -> list[Any]:
    """Rows that are due and not claimed, oldest first; SKIP LOCKED lets several sweeps run at once."""
    with transaction.atomic():
        rows = (
            model._default_manager.select_for_update(skip_locked=True, no_key=True)
            .filter(Q(claim_until__isnull=True) | Q(claim_until__lte=now), due_at__lte=now)
            .order_by("due_at")[:limit]
        )
        return list(rows.values_list("pk", flat=True))


def due_in_turn(model: type[Claimable], *, by: str, now: datetime, limit: int) -> list[Any]:
    """The same without a lock, the oldest of each site before the second of any: else one site that does not answer, with more due
    rows than a sweep takes, would keep all others from it. by: the field that leads to the site."""
    rows = model._default_manager.filter(
        Q(claim_until__isnull=True) | Q(claim_until__lte=now), due_at__lte=now
    )
    return in_turn(rows, by=by, first="due_at", limit=limit)


def in_turn(rows: models.QuerySet[Any], *, by: str, first: str | Random, limit: int) -> list[Any]:
    """Keys of the first row of each site, then of the second of each. first: what orders the rows of a site."""
    turn = Window(RowNumber(), partition_by=[F(by)], order_by=first)
    return list(rows.annotate(turn=turn).order_by("turn", first).values_list("pk", flat=True)[:limit])


def due_poke(model: type[Claimable], task: str, *, by: str = "", limit: int = SWEEP_LIMIT) -> int:
    """Sends `task` for each row that is due, whose own poke may have been lost; returns how many. by: as of `due_in_turn`."""
    now = clock.now()
    due = due_in_turn(model, by=by, now=now, limit=limit) if by else due_ids(model, now=now, limit=limit)
    for pk in due:
        poke(task, str(pk))
    return len(due)


def apply(row: Claimable, **changes: Any) -> bool:
    """Writes `changes` if the claim still holds; False = another worker has the row, and the result must be dropped."""
    model = type(row)
    written: int = model._default_manager.filter(pk=row.pk, claim_token=row.claim_token).update(**changes)
    return written == 1


def extend(row: Claimable, *, seconds: int = CLAIM_SECONDS) -> None:
    """Extends the claim to `seconds` from now. Raises ClaimLost."""
    now = clock.now()
    limit = now + timedelta(seconds=seconds)
    if not apply(row, claim_until=pulse.claim_end(now=now, limit=limit)):
        raise ClaimLost("another process is working on it now")
    if row.claim_token is not None:
        pulse.hold(row.claim_token, type(row), row.pk, now=now, limit=limit)


def release(row: Claimable, *, due_at: datetime | None, **changes: Any) -> bool:
    """Gives the claim back and sets when the row needs attention again (None = at rest).

    If somebody has changed `due_at` since `row` was loaded, that value stays, so that a request made during the work
    is not delayed.
    """
    unmoved = Q(due_at__isnull=True) if row.due_at is None else Q(due_at=row.due_at)
    next_due = Case(
        When(unmoved, then=Value(due_at)), default=F("due_at"), output_field=models.DateTimeField()
    )
    return apply(row, claim_token=None, claim_until=None, due_at=next_due, **changes)


def rest(row: Claimable, *, due_at: datetime | None = None) -> bool:
    """Returns False, for the caller to return: nothing was done."""
    release(row, due_at=due_at)
    return False


def retry(row: Claimable, error: GpuaasError, *, most: float = CAP_SECONDS, **changes: Any) -> bool:
    """Releases after another failure; due again as `retry_at` says."""
    return release(row, due_at=retry_at(row, error, most=most), attempts=row.attempts + 1, **changes)


def retry_at(row: Claimable, error: GpuaasError, *, most: float = CAP_SECONDS) -> datetime:
    """Time of the next try after another failure: later each time, not before the site's retry_after, within `most`
    seconds."""
    wait = delay(row.attempts + 1)
    if isinstance(error, Unavailable):
        wait = max(wait, error.retry_after)
    return clock.now() + timedelta(seconds=min(wait, most))
