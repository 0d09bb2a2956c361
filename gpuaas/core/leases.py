"""Leases on rows: one reconciler at a time, and a dead one is succeeded.

Columns of the row: claim_token, claim_until (who works on it, until when) and due_at (when it wants attention;
null = at rest). Load: `claim`. Call the site with no transaction open. Apply: filter on the token; zero rows updated
means the lease was lost and the result is dropped. Releasing is part of applying.
"""

import uuid
from datetime import datetime, timedelta
from typing import Any, TypeVar

from django.db import models, transaction
from django.db.models import Case, F, Q, Value, When


class Claimable(models.Model):
    due_at = models.DateTimeField(null=True, blank=True, db_index=True)
    claim_token = models.UUIDField(null=True, blank=True, editable=False)
    claim_until = models.DateTimeField(null=True, blank=True, editable=False)
    attempts = models.PositiveIntegerField(default=0, editable=False)

    class Meta:
        abstract = True


RowT = TypeVar("RowT", bound=Claimable)


def claim(model: type[RowT], pk: Any, *, now: datetime, seconds: int) -> RowT | None:
    """Take the row for `seconds`; None where it is gone or another lease on it is alive."""
    token = uuid.uuid4()
    free = Q(claim_until__isnull=True) | Q(claim_until__lte=now)
    rows: models.QuerySet[RowT] = model._default_manager.filter(free, pk=pk)
    if rows.update(claim_token=token, claim_until=now + timedelta(seconds=seconds)) != 1:
        return None
    return model._default_manager.filter(pk=pk, claim_token=token).first()


def claim_wanted(model: type[RowT], pk: Any, *, now: datetime, seconds: int) -> RowT | None:
    """`claim`, and None also where the row is at rest: a task that was sent twice finds nothing to do."""
    row = claim(model, pk, now=now, seconds=seconds)
    if row is not None and row.due_at is None:
        release(row, due_at=None)
        return None
    return row


def due_ids(model: type[Claimable], *, now: datetime, limit: int) -> list[Any]:
    """Rows that want attention and that nobody holds, oldest first; SKIP LOCKED lets many sweeps run at once."""
    with transaction.atomic():
        rows = (
            model._default_manager.select_for_update(skip_locked=True, no_key=True)
            .filter(Q(claim_until__isnull=True) | Q(claim_until__lte=now), due_at__lte=now)
            .order_by("due_at")[:limit]
        )
        return list(rows.values_list("pk", flat=True))


def apply(row: Claimable, **changes: Any) -> bool:
    """Write `changes` if the lease is still ours; False = somebody else has it, the result must be dropped."""
    model = type(row)
    written: int = model._default_manager.filter(pk=row.pk, claim_token=row.claim_token).update(**changes)
    return written == 1


def release(row: Claimable, *, due_at: datetime | None, **changes: Any) -> bool:
    """Give the lease back and say when the row wants attention again (None = at rest).

    Where somebody has moved `due_at` since `row` was loaded, theirs stays: a wish made while we worked is not slept over.
    """
    unmoved = Q(due_at__isnull=True) if row.due_at is None else Q(due_at=row.due_at)
    kept = Case(When(unmoved, then=Value(due_at)), default=F("due_at"), output_field=models.DateTimeField())
    return apply(row, claim_token=None, claim_until=None, due_at=kept, **changes)
