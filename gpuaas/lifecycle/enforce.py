"""What the portal enforces, at the end of a lease or of a budget: each row by itself, and what cannot be done is told."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TypeVar

from celery.exceptions import SoftTimeLimitExceeded
from django.db import transaction
from django.db.models import F, Q, QuerySet

from gpuaas.core.claims import in_words
from gpuaas.core.conditions import Status
from gpuaas.core.errors import NotFound, StaleVersion
from gpuaas.core.statemachine import TransitionLost
from gpuaas.lifecycle.kind import ConditionChange, Kind, conditions_write
from gpuaas.lifecycle.models import Provisioned
from tenants.actors import SYSTEM

ENFORCED = "Enforced"  # the condition: False while something that was to be ended is not
REFUSED, OVERDUE = "Refused", "Overdue"
PATIENCE = timedelta(minutes=15)  # with what is under way, before it counts as not to be ended
TRY_AGAIN = timedelta(minutes=10)
BATCH = 500
REMEDY = "An operator has to look at the site; the portal keeps trying."
RowT = TypeVar("RowT", bound=Provisioned)


def in_turn(rows: QuerySet[RowT], now: datetime) -> QuerySet[RowT]:
    """Whose turn it is, those never refused first: rows that are refused each time do not keep others waiting."""
    turn = rows.filter(Q(enforce_at__isnull=True) | Q(enforce_at__lte=now))
    return turn.order_by(F("enforce_at").asc(nulls_first=True), "pk")


def enforce(
    kind: Kind[RowT], row: RowT, service: Callable[..., object], reason: str, *, now: datetime
) -> str | None:
    """None if it was done; otherwise why not, in words that are told on the row, or "" if it has changed meanwhile.

    `service`: the kind's own, on the version that was read, so that a change at the same moment wins. Whatever it raises
    concerns this row alone.
    """
    try:
        service(actor=SYSTEM, **{kind.noun: row}, expected_version=row.version, reason=reason)
    except SoftTimeLimitExceeded:  # of the whole round, which this row does not end again at once
        kind.rows.filter(pk=row.pk).update(enforce_at=now + TRY_AGAIN)
        raise
    except (StaleVersion, TransitionLost, NotFound):
        return ""
    except Exception as error:  # noqa: BLE001  whatever it is, the others have their turn
        why = in_words(error, row=str(row.pk), kind=kind.noun).message
        _refused(kind, row, why, now)
        return why
    return None


@transaction.atomic
def _refused(kind: Kind[RowT], seen: RowT, why: str, now: datetime) -> None:
    row = kind.lock(seen.pk)
    kind.rows.filter(pk=row.pk).update(enforce_at=now + TRY_AGAIN)
    told = f"the {kind.noun} was to be suspended or deleted, and this was refused: {why}"
    kind.tell(row, _not_enforced(REFUSED, told))


def overdue_tell(kind: Kind[RowT], *, now: datetime) -> None:
    """Tells of suspensions and deletions by the portal that no site confirms, and no longer of what is settled."""
    overdue = kind.overdue(now - PATIENCE)
    for row in overdue.filter(~Q(conditions__has_key=ENFORCED))[:BATCH]:
        _tell(kind, row)
    told = kind.rows.filter(conditions__has_key=ENFORCED)
    tried = Q(enforce_at__gt=now - TRY_AGAIN)  # and will be, as long as somebody wants it
    for row in told.exclude(pk__in=overdue.values("pk")).exclude(pk__in=told.filter(tried).values("pk"))[
        :BATCH
    ]:
        _settled(kind, row)


@transaction.atomic
def _tell(kind: Kind[RowT], seen: RowT) -> None:
    row = kind.lock(seen.pk)
    if row.state == seen.state:
        minutes = PATIENCE // timedelta(minutes=1)
        told = f"the portal has been {row.state} it for more than {minutes} minutes, and the site has not confirmed it"
        kind.tell(row, _not_enforced(OVERDUE, told))


@transaction.atomic
def _settled(kind: Kind[RowT], seen: RowT) -> None:
    row = kind.lock(seen.pk)
    if row.state == seen.state and conditions_write(row, drop=(ENFORCED,)):
        kind.announce(row)


def _not_enforced(reason: str, message: str) -> ConditionChange:
    return {"type": ENFORCED, "status": Status.FALSE, "reason": reason, "message": message, "remedy": REMEDY}
