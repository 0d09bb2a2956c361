"""The end of a lease, the same for workspaces and clusters.

A warning before it, then suspension for a grace period, then deletion. Nothing is deleted before it was told, and had a whole
grace period since it slept, however long the portal stood still; what cannot be suspended has it since that was told.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, TypeVar

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet

from gpuaas.core import clock
from gpuaas.core.conditions import Status
from gpuaas.core.errors import Conflict, Invalid
from gpuaas.lifecycle.allowed import Verb
from gpuaas.lifecycle.enforce import BATCH, ENFORCED, PATIENCE, enforce, in_turn, overdue_tell
from gpuaas.lifecycle.kind import GOING, SUSPENDED, ConditionChange, Kind, conditions_write
from gpuaas.lifecycle.models import Provisioned
from tenants.actors import Actor

LEASE_DEFAULT = timedelta(days=28)
LEASE_MAX = timedelta(days=365)
LEASE_ENDING = "LeaseEnding"  # the condition that warns
SOON, OVER = "LeaseEndsSoon", "LeaseOver"
WARNING = timedelta(days=3)
REASON = "the lease ended"  # of what then happens, in histories
RowT = TypeVar("RowT", bound=Provisioned)


def lease_validate(ends_at: datetime | None, *, now: datetime) -> datetime:
    """28 days by default; between now and 365 days ahead."""
    if ends_at is None:
        return now + LEASE_DEFAULT
    if type(ends_at) is not datetime or ends_at.tzinfo is None:
        raise Invalid.field("lease_ends_at", "the end of the lease must be a date and time with a time zone")
    if not now < ends_at <= now + LEASE_MAX:
        raise Invalid.field(
            "lease_ends_at", f"a lease must end in the future and within {LEASE_MAX.days} days from now"
        )
    return ends_at


@transaction.atomic
def lease_extend(
    kind: Kind[RowT], actor: Actor, seen: RowT, *, ends_at: datetime, expected_version: int | None = None
) -> RowT:
    """A later end, at most 365 days from now; clears the warning and the date of its deletion."""
    row = kind.asked(actor, seen, Verb.EXTEND, expected_version)
    until, old = lease_validate(ends_at, now=clock.now()), row.lease_ends_at
    if until <= old:
        raise Invalid.field("lease_ends_at", "choose a time after the present end of the lease")
    row.lease_ends_at, row.version, row.deleted_after, row.enforce_at = until, row.version + 1, None, None
    row.save(update_fields=["lease_ends_at", "version", "deleted_after", "enforce_at"])
    conditions_write(row, drop=(LEASE_ENDING, ENFORCED))
    before, after = {"lease_ends_at": old.isoformat()}, {"lease_ends_at": until.isoformat()}
    kind.audit(row, actor, "extend", before=before, after=after)
    kind.announce(row)
    return row


def resumable_require(row: Provisioned, *, takes_new: bool) -> None:
    """A suspended row can resume while its sites accept requests. Raises Conflict."""
    if not takes_new:
        raise Conflict("the site accepts no new requests now", detail={"state": row.state})


def asleep(kind: Kind[RowT], row: RowT, *, at: datetime) -> dict[str, Any]:
    """Of a locked row whose site has confirmed that nothing runs: what to write with its new state, so that the grace
    period begins with the sleep. The warning gets the date."""
    over = row.lease_ends_at <= at
    row.deleted_after = at + _grace() if over else None
    conditions_write(row, *([_warning(kind, row, now=at)] if over else ()), drop=(ENFORCED,))
    return {"deleted_after": row.deleted_after, "enforce_at": None}


def lease_round(
    kind: Kind[RowT],
    held: QuerySet[RowT],
    awake: Q,
    *,
    now: datetime,
    suspend: Callable[..., object],
    delete: Callable[..., object],
) -> int:
    """Returns how many of `held` changed, each in a transaction of its own.

    What can be suspended (`awake`) is never deleted instead; what cannot has its grace period from when that was told.
    """
    over = held.filter(lease_ends_at__lte=now)
    soon = held.filter(lease_ends_at__gt=now, lease_ends_at__lte=now + WARNING)
    late = kind.overdue(now - PATIENCE)
    warned = [
        *over.filter(~Q(conditions__has_key=LEASE_ENDING) | Q(conditions__LeaseEnding__reason=SOON))[:BATCH],
        *soon.filter(~Q(conditions__has_key=LEASE_ENDING))[:BATCH],
    ]
    for row in warned:
        _mark(kind, row, now)
    turn = in_turn(over.filter(awake), now)[:BATCH]
    tried = [(row, enforce(kind, row, suspend, REASON, now=now)) for row in turn]
    refused = [(row, why) for row, why in tried if why]
    for row, why in refused:
        _grace_begin(kind, row, now, why=f"it cannot be suspended: {why}")
    for rows, why in (
        (over.filter(state=SUSPENDED), ""),
        (over.filter(ready_at__isnull=True), f"the {kind.noun} was never ready"),
        (over.filter(pk__in=late.values("pk")), "the site has not confirmed the suspension"),
    ):
        for row in rows.filter(deleted_after__isnull=True)[:BATCH]:
            _grace_begin(kind, row, now, why=why)
    ended = over.filter(deleted_after__lte=now)
    others = in_turn(ended.exclude(pk__in=over.filter(awake).values("pk")), now)[:BATCH]
    gone = [*others, *ended.filter(pk__in=[row.pk for row, _ in refused])]
    deleted = [row for row in gone if enforce(kind, row, delete, REASON, now=now) is None]
    overdue_tell(kind, now=now)
    return len({row.pk for row in (*warned, *(row for row, why in tried if why is None), *deleted)})


@transaction.atomic
def _mark(kind: Kind[RowT], seen: RowT, now: datetime) -> None:
    """The warning; none if it is too late for one."""
    row = kind.lock(seen.pk)
    if row.state not in GOING and row.lease_ends_at <= now + WARNING:
        kind.tell(row, _warning(kind, row, now=now))


@transaction.atomic
def _grace_begin(kind: Kind[RowT], seen: RowT, now: datetime, *, why: str) -> None:
    """Once: for what sleeps already, or is told now that it cannot be suspended."""
    row = kind.lock(seen.pk)
    if row.state in GOING or row.lease_ends_at > now or row.deleted_after is not None:
        return
    row.deleted_after = now + _grace()
    row.save(update_fields=["deleted_after"])
    kind.tell(row, _warning(kind, row, now=now, why=why))


def _grace() -> timedelta:
    return timedelta(days=settings.LEASE_GRACE_DAYS)


def _warning(kind: Kind[RowT], row: RowT, *, now: datetime, why: str = "") -> ConditionChange:
    ended, end = row.lease_ends_at <= now, kind.end
    if row.deleted_after is not None:
        then = f"{end.deletion} is deleted on {row.deleted_after:%Y-%m-%d %H:%M} UTC"
    else:
        days = settings.LEASE_GRACE_DAYS
        then = (
            f"{end.suspension} {'now' if ended else 'then'}, and {end.deletion} is deleted {days} days later"
        )
    return {
        "type": LEASE_ENDING,
        "status": Status.TRUE,
        "reason": OVER if ended else SOON,
        "message": f"the lease {'ended' if ended else 'ends'} on {row.lease_ends_at:%Y-%m-%d %H:%M} UTC; "
        + (f"{why}; " if why else "")
        + then,
        "remedy": "Extend the lease, then resume it."
        if ended
        else f"Extend the lease to keep the {kind.noun}.",
    }
