"""How long something is lent: the end of a lease, the same for workspaces and clusters.

A warning before it, then sleep for a time of grace, then deletion.
"""

import contextlib
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TypeVar

from django.conf import settings
from django.db.models import Q, QuerySet

from gpuaas.core import clock
from gpuaas.core.conditions import Status
from gpuaas.core.errors import Conflict, Invalid, StaleVersion
from gpuaas.core.visits import Provisioned, conditions_write

LEASE_DEFAULT = timedelta(days=28)
LEASE_MAX = timedelta(days=365)
LEASE_ENDING = "LeaseEnding"  # the condition that warns
SOON, OVER = "LeaseEndsSoon", "LeaseOver"
WARNING = timedelta(days=3)
BATCH = 500
RowT = TypeVar("RowT", bound=Provisioned)


def lease_validate(ends_at: datetime | None, *, now: datetime) -> datetime:
    """28 days where nothing is said; between now and 365 days ahead."""
    if ends_at is None:
        return now + LEASE_DEFAULT
    if type(ends_at) is not datetime or ends_at.tzinfo is None:
        raise Invalid.field("lease_ends_at", "the end of the lease is a date and time with a time zone")
    if not now < ends_at <= now + LEASE_MAX:
        raise Invalid.field(
            "lease_ends_at", f"a lease ends in the future and within {LEASE_MAX.days} days from now"
        )
    return ends_at


def lease_extend(row: Provisioned, ends_at: datetime) -> tuple[dict[str, str], dict[str, str]]:
    """A later end for a row that is locked, and no warning any more. What an audit says of it: before, and after."""
    until, old = lease_validate(ends_at, now=clock.now()), row.lease_ends_at
    if until <= old:
        raise Invalid.field("lease_ends_at", "choose a time after the present end of the lease")
    row.lease_ends_at, row.version = until, row.version + 1
    row.save(update_fields=["lease_ends_at", "version"])
    conditions_write(row, drop=(LEASE_ENDING,))
    return {"lease_ends_at": old.isoformat()}, {"lease_ends_at": until.isoformat()}


def lease_round(
    held: QuerySet[RowT],
    awake: Q,
    *,
    now: datetime,
    mark: Callable[[RowT], None],
    sleep: Callable[[RowT], object],
    delete: Callable[[RowT], object],
) -> int:
    """How many of `held` were touched, each in a transaction of its own.

    `sleep` and `delete` act on the version that was looked at: whoever extends the lease at this very moment keeps it. What
    cannot be put to sleep now (`awake`: what there is to put to sleep), the next round looks at again.
    """
    grace = timedelta(days=settings.LEASE_GRACE_DAYS)
    over = held.filter(lease_ends_at__lte=now, lease_ends_at__gt=now - grace)
    soon = held.filter(lease_ends_at__gt=now, lease_ends_at__lte=now + WARNING)
    running, gone = (
        list(over.filter(awake)[:BATCH]),
        list(held.filter(lease_ends_at__lte=now - grace)[:BATCH]),
    )
    told = [
        *over.exclude(Q(**{f"conditions__{LEASE_ENDING}__reason": OVER}))[:BATCH],
        *soon.exclude(conditions__has_key=LEASE_ENDING)[:BATCH],
    ]
    for row in told:
        mark(row)
    for row in running:
        with contextlib.suppress(Conflict, StaleVersion):
            sleep(row)
    for row in gone:
        with contextlib.suppress(StaleVersion):
            delete(row)
    return len({row.pk for row in (*told, *running, *gone)})


def lease_mark(row: Provisioned, *, now: datetime, noun: str, sleeps: str, goes: str) -> bool:
    """The warning on a row that is locked; False where it has come too late. `sleeps`, `goes`: what then happens, in words."""
    if row.lease_ends_at > now + WARNING:
        return False
    ended, gone = row.lease_ends_at <= now, row.lease_ends_at + timedelta(days=settings.LEASE_GRACE_DAYS)
    what = "ended" if ended else "ends"
    then = "" if ended else f"{sleeps} then, and "
    warning = {
        "type": LEASE_ENDING,
        "status": Status.TRUE,
        "reason": OVER if ended else SOON,
        "message": f"the lease {what} on {row.lease_ends_at:%Y-%m-%d %H:%M} UTC; {then}{goes} is deleted on {gone:%Y-%m-%d}",
        "remedy": "Extend the lease, then resume it." if ended else f"Extend the lease to keep the {noun}.",
    }
    return conditions_write(row, warning)
