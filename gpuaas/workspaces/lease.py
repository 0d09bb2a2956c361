"""The end of a workspace's lease: a warning before, then sleep for a time of grace, then deletion."""

import contextlib
import uuid
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet

from gpuaas.core.conditions import Status, condition_set
from gpuaas.core.errors import Conflict, StaleVersion
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services import workspace_delete, workspace_suspend
from gpuaas.workspaces.services.changes import LEASE_ENDING
from gpuaas.workspaces.services.rows import workspace_announce, workspace_lock
from gpuaas.workspaces.states import LIVE, WorkspaceState
from tenants.actors import SYSTEM

WARNING = timedelta(days=3)
BATCH = 500
SOON = "LeaseEndsSoon"
OVER = "LeaseOver"
HELD = LIVE - {WorkspaceState.DELETING}
# what is made or resized just now is put to sleep on the next round
AWAKE = Q(state__in=[WorkspaceState.READY, WorkspaceState.RESUMING]) | Q(
    state=WorkspaceState.FAILED, ready_at__isnull=False
)


def grace() -> timedelta:
    return timedelta(days=settings.LEASE_GRACE_DAYS)


def leases_enforce(*, now: datetime) -> int:
    """Warn, mark as over, put to sleep, delete: how many workspaces were touched, each in a transaction of its own."""
    held = Workspace.objects.filter(state__in=HELD)
    expired = held.filter(lease_ends_at__lte=now - grace())
    over = held.filter(lease_ends_at__lte=now, lease_ends_at__gt=now - grace())
    marked = Q(conditions__LeaseEnding__reason=OVER)
    soon = held.filter(lease_ends_at__gt=now, lease_ends_at__lte=now + WARNING).exclude(
        conditions__has_key=LEASE_ENDING
    )
    awake = _rows(over.filter(AWAKE))
    gone = _rows(expired)
    told = [
        *over.exclude(marked).values_list("pk", flat=True)[:BATCH],
        *soon.values_list("pk", flat=True)[:BATCH],
    ]
    for pk in told:
        _mark(pk, now)
    for workspace in awake:
        _put_to_sleep(workspace)
    for workspace in gone:
        _end(workspace)
    return len({*told, *(row.pk for row in awake), *(row.pk for row in gone)})


def _rows(found: QuerySet[Workspace]) -> list[Workspace]:
    return list(found.select_related("project")[:BATCH])


def _put_to_sleep(workspace: Workspace) -> None:
    """Where the site cannot, or somebody changes it at this moment, the next round looks again."""
    with contextlib.suppress(Conflict, StaleVersion):
        workspace_suspend(
            actor=SYSTEM, workspace=workspace, expected_version=workspace.version, reason="the lease ended"
        )


def _end(workspace: Workspace) -> None:
    """Of the version that was looked at: whoever extends the lease at this very moment keeps the workspace."""
    with contextlib.suppress(StaleVersion):
        workspace_delete(
            actor=SYSTEM,
            workspace=workspace,
            expected_version=workspace.version,
            reason="the lease ended",
        )


@transaction.atomic
def _mark(workspace_id: uuid.UUID, now: datetime) -> None:
    row = workspace_lock(workspace_id=workspace_id)
    if row.state not in HELD or row.lease_ends_at > now + WARNING:
        return
    ended = row.lease_ends_at <= now
    end, gone = row.lease_ends_at, row.lease_ends_at + grace()
    what = "ended" if ended else "ends"
    then = "" if ended else "it is put to sleep then, and "
    row.conditions = condition_set(
        row.conditions,
        type=LEASE_ENDING,
        status=Status.TRUE,
        reason=OVER if ended else SOON,
        message=f"the lease {what} on {end:%Y-%m-%d %H:%M} UTC; {then}everything in it is deleted on {gone:%Y-%m-%d}",
        remedy="Extend the lease, then resume it." if ended else "Extend the lease to keep the workspace.",
        now=now,
    )
    row.save(update_fields=["conditions"])
    workspace_announce(row)
