"""Holds: a stop on all new reservations in a scope. Set from rooms above, which know the reason.

Reserving and setting a hold exclude each other by a lock of the organization that lasts until the commit: after
`hold_set` is committed, nothing new is reserved.
"""

import uuid
from dataclasses import dataclass

from django.db import connection, transaction

from gpuaas.core.errors import OnHold
from quotas.models import Hold
from tenants.models import Project

_SHARED = "SELECT pg_advisory_xact_lock_shared(hashtextextended(%s, 0))"
_ALONE = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"


@dataclass(frozen=True)
class HoldScope:
    """`project_id` None = the whole organization; `holder_id` None = the whole project."""

    organization_id: uuid.UUID
    project_id: uuid.UUID | None = None
    holder_id: uuid.UUID | None = None


@transaction.atomic
def hold_set(*, source: str, scope: HoldScope, reason: str) -> None:
    """From the commit on, further requests in the scope are refused with `reason`. Setting it again replaces the
    reason.

    Waits for running reservations of the organization; call it last in a short transaction.
    """
    _lock(_ALONE, scope.organization_id)
    found = {
        "organization_id": scope.organization_id,
        "project_id": scope.project_id,
        "holder_id": scope.holder_id,
        "reason": reason[:500],
    }
    Hold.objects.update_or_create(source=source, defaults=found)


def hold_lift(*, source: str) -> bool:
    """Returns False if there was none."""
    return bool(Hold.objects.filter(source=source).delete()[0])


def hold_on(*, project: Project, holder_id: uuid.UUID | None = None) -> Hold | None:
    """The hold that blocks the project (or the holder), the widest scope first; 1 query."""
    asked = [project.organization_id, project.pk, holder_id]
    return next(iter(Hold.objects.raw("SELECT * FROM quotas_hold_on(%s, %s, %s)", asked)), None)


def holds_refuse(*, project: Project, holder_id: uuid.UUID) -> None:
    """Raises OnHold. Call it in the transaction that reserves, before reserving: no hold can be set until that
    transaction ends.

    Two statements, because the second has to see what was committed while the first one waited.
    """
    _lock(_SHARED, project.organization_id)
    hold = hold_on(project=project, holder_id=holder_id)
    if hold:
        raise hold_refusal(hold)


def hold_refusal(row: Hold) -> OnHold:
    scope, name = "organization", row.organization.slug
    if row.project is not None:
        scope, name = "project", row.project.slug
    if row.holder_id is not None:
        scope, name = "workspace", str(row.holder_id)
    return OnHold(row.reason, detail={"scope": scope, "scope_name": name, "reason": row.reason})


def _lock(statement: str, organization_id: uuid.UUID) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, [f"quotas.hold/{organization_id}"])
