"""Holds: a stop on everything that would be reserved in a scope. Set from above, where the reason is known.

A reservation and the setting of a hold exclude each other by a lock of the organization that lasts until the commit:
once `hold_set` is committed nothing is reserved that had not been reserved before it.
"""

import uuid
from dataclasses import dataclass

from django.db import connection, transaction
from django.db.models import Q

from gpuaas.core.errors import OnHold
from quotas.models import Hold
from tenants.models import Project

_SHARED = "SELECT pg_advisory_xact_lock_shared(hashtextextended(%s, 0))"
_ALONE = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"


@dataclass(frozen=True)
class HoldScope:
    """`project_id` None = all of the organization; `holder_id` None = all of the project."""

    organization_id: uuid.UUID
    project_id: uuid.UUID | None = None
    holder_id: uuid.UUID | None = None


@transaction.atomic
def hold_set(*, source: str, scope: HoldScope, reason: str) -> None:
    """From the commit on, whatever asks for more in the scope is refused with `reason`. Again: the new reason holds.

    Waits for reservations of the organization that are under way; call it last in a short transaction.
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
    """False where there was none (any more)."""
    return bool(Hold.objects.filter(source=source).delete()[0])


def holds_on(*, project: Project, holder_id: uuid.UUID | None = None) -> list[Hold]:
    """What stands in the way of the project (and of the holder), the widest scope first; 1 query."""
    rows = Hold.objects.filter(organization_id=project.organization_id).filter(
        Q(project__isnull=True) | Q(project=project, holder_id__isnull=True) | Q(holder_id=holder_id)
        if holder_id is not None
        else Q(project__isnull=True) | Q(project=project, holder_id__isnull=True)
    )
    return sorted(
        rows.select_related("organization", "project"),
        key=lambda row: (row.holder_id is not None, row.project_id is not None, row.pk),
    )


def holds_refuse(*, project: Project, holder_id: uuid.UUID) -> None:
    """Raises OnHold. Inside the transaction that reserves, before it: no hold is set until that one ends.

    Two statements, as the second has to see what was committed while the first one waited.
    """
    _lock(_SHARED, project.organization_id)
    found = holds_on(project=project, holder_id=holder_id)
    if found:
        raise hold_refusal(found[0])


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
