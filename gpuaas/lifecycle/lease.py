"""The end of a lease, the same for workspaces and clusters.

A warning before it, then suspension for a grace period, then deletion.
"""

import contextlib
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import NamedTuple, TypeVar

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet

from gpuaas.core import clock
from gpuaas.core.conditions import Status
from gpuaas.core.errors import Conflict, Invalid, StaleVersion
from gpuaas.lifecycle.kind import GOING, Kind, conditions_write
from gpuaas.lifecycle.models import Provisioned
from tenants.actors import Actor

LEASE_DEFAULT = timedelta(days=28)
LEASE_MAX = timedelta(days=365)
LEASE_ENDING = "LeaseEnding"  # the condition that warns
SOON, OVER = "LeaseEndsSoon", "LeaseOver"
WARNING = timedelta(days=3)
BATCH = 500
REASON = "the lease ended"  # of what then happens, in histories
RowT = TypeVar("RowT", bound=Provisioned)


class EndWords(NamedTuple):
    """What happens at the end of the lease, and what is deleted after the grace period."""

    suspension: str
    deletion: str


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


def lease_extend(kind: Kind[RowT], row: RowT, *, actor: Actor, ends_at: datetime) -> None:
    """A later end for a locked row, at most 365 days from now; clears the warning."""
    until, old = lease_validate(ends_at, now=clock.now()), row.lease_ends_at
    if until <= old:
        raise Invalid.field("lease_ends_at", "choose a time after the present end of the lease")
    row.lease_ends_at, row.version = until, row.version + 1
    row.save(update_fields=["lease_ends_at", "version"])
    conditions_write(row, drop=(LEASE_ENDING,))
    before, after = {"lease_ends_at": old.isoformat()}, {"lease_ends_at": until.isoformat()}
    kind.audit(row, actor, "extend", before=before, after=after)
    kind.announce(row)


def resumable_require(row: Provisioned, *, takes_new: bool) -> None:
    """A suspended row can resume while its lease runs and its sites accept requests. Raises Conflict."""
    if row.lease_ends_at <= clock.now():
        raise Conflict("the lease has ended: extend it first", detail={"state": row.state})
    if not takes_new:
        raise Conflict("the site accepts no new requests now", detail={"state": row.state})


def lease_round(
    kind: Kind[RowT],
    held: QuerySet[RowT],
    awake: Q,
    *,
    now: datetime,
    words: EndWords,
    sleep: Callable[[RowT], object],
    delete: Callable[[RowT], object],
) -> int:
    """Returns how many of `held` changed, each in a transaction of its own.

    `sleep` and `delete` act on the version that was read, so that an extension at the same moment wins. A row that
    cannot be suspended now (`awake`: those that can) is tried again in the next round.
    """
    grace = timedelta(days=settings.LEASE_GRACE_DAYS)
    over = held.filter(lease_ends_at__lte=now, lease_ends_at__gt=now - grace)
    soon = held.filter(lease_ends_at__gt=now, lease_ends_at__lte=now + WARNING)
    running, gone = (
        list(over.filter(awake)[:BATCH]),
        list(held.filter(lease_ends_at__lte=now - grace)[:BATCH]),
    )
    warned = [
        *over.exclude(Q(**{f"conditions__{LEASE_ENDING}__reason": OVER}))[:BATCH],
        *soon.exclude(conditions__has_key=LEASE_ENDING)[:BATCH],
    ]
    for row in warned:
        _mark(kind, row, now, words)
    for row in running:
        with contextlib.suppress(Conflict, StaleVersion):
            sleep(row)
    for row in gone:
        with contextlib.suppress(StaleVersion):
            delete(row)
    return len({row.pk for row in (*warned, *running, *gone)})


@transaction.atomic
def _mark(kind: Kind[RowT], seen: RowT, now: datetime, words: EndWords) -> None:
    """The warning; none if it is too late for one."""
    row = kind.lock(seen.pk)
    if row.state in GOING or row.lease_ends_at > now + WARNING:
        return
    ended, gone = row.lease_ends_at <= now, row.lease_ends_at + timedelta(days=settings.LEASE_GRACE_DAYS)
    what = "ended" if ended else "ends"
    then = "" if ended else f"{words.suspension} then, and "
    warning = {
        "type": LEASE_ENDING,
        "status": Status.TRUE,
        "reason": OVER if ended else SOON,
        "message": f"the lease {what} on {row.lease_ends_at:%Y-%m-%d %H:%M} UTC; {then}{words.deletion} is deleted on {gone:%Y-%m-%d}",
        "remedy": "Extend the lease, then resume it."
        if ended
        else f"Extend the lease to keep the {kind.noun}.",
    }
    kind.tell(row, warning)
