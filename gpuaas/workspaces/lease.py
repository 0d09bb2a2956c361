"""The end of a workspace's lease: a warning before, seven days of grace after, then deletion."""

import contextlib
import uuid
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q

from gpuaas.core.conditions import Status, condition_set
from gpuaas.core.errors import StaleVersion
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services import workspace_delete
from gpuaas.workspaces.services.changes import LEASE_ENDING
from gpuaas.workspaces.services.rows import workspace_announce, workspace_lock
from gpuaas.workspaces.states import LIVE, WorkspaceState
from tenants.actors import SYSTEM

WARNING = timedelta(days=3)
GRACE = timedelta(days=7)
BATCH = 500
SOON = "LeaseEndsSoon"
OVER = "LeaseOver"
HELD = LIVE - {WorkspaceState.DELETING}


def leases_enforce(*, now: datetime) -> int:
    """Warn, mark as over, delete: how many workspaces were touched. Each in a transaction of its own."""
    held = Workspace.objects.filter(state__in=HELD)
    expired = held.filter(lease_ends_at__lte=now - GRACE)
    marked = Q(conditions__LeaseEnding__reason=OVER)
    over = held.filter(lease_ends_at__lte=now, lease_ends_at__gt=now - GRACE).exclude(marked)
    soon = held.filter(lease_ends_at__gt=now, lease_ends_at__lte=now + WARNING).exclude(
        conditions__has_key=LEASE_ENDING
    )
    gone = list(expired.select_related("project")[:BATCH])
    for workspace in gone:
        _end(workspace)
    warned = [*over.values_list("pk", flat=True)[:BATCH], *soon.values_list("pk", flat=True)[:BATCH]]
    for pk in warned:
        _mark(pk, now)
    return len(gone) + len(warned)


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
    end, gone = row.lease_ends_at, row.lease_ends_at + GRACE
    what = "ended" if ended else "ends"
    row.conditions = condition_set(
        row.conditions,
        type=LEASE_ENDING,
        status=Status.TRUE,
        reason=OVER if ended else SOON,
        message=f"the lease {what} on {end:%Y-%m-%d %H:%M} UTC; everything is deleted on {gone:%Y-%m-%d}",
        remedy="Extend the lease to keep the workspace.",
        now=now,
    )
    row.save(update_fields=["conditions"])
    workspace_announce(row)
