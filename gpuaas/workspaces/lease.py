"""The end of a workspace's lease: a warning before, then sleep for a time of grace, then deletion."""

from datetime import datetime

from django.db import transaction
from django.db.models import Q

from gpuaas.core.terms import lease_mark, lease_round
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services import workspace_delete, workspace_suspend
from gpuaas.workspaces.services.rows import workspace_announce, workspace_lock
from gpuaas.workspaces.states import LIVE, WorkspaceState
from tenants.actors import SYSTEM

REASON = "the lease ended"
HELD = LIVE - {WorkspaceState.DELETING}
# what is made or resized just now is put to sleep on the next round
AWAKE = Q(state__in=[WorkspaceState.READY, WorkspaceState.RESUMING]) | Q(
    state=WorkspaceState.FAILED, ready_at__isnull=False
)


def leases_enforce(*, now: datetime) -> int:
    """Warn, mark as over, put to sleep, delete: how many workspaces were touched."""
    return lease_round(
        Workspace.objects.filter(state__in=HELD).select_related("project"),
        AWAKE,
        now=now,
        mark=lambda row: _mark(row, now),
        sleep=lambda row: workspace_suspend(
            actor=SYSTEM, workspace=row, expected_version=row.version, reason=REASON
        ),
        delete=lambda row: workspace_delete(
            actor=SYSTEM, workspace=row, expected_version=row.version, reason=REASON
        ),
    )


@transaction.atomic
def _mark(found: Workspace, now: datetime) -> None:
    row = workspace_lock(workspace_id=found.pk)
    words = {"noun": "workspace", "sleeps": "it is put to sleep", "goes": "everything in it"}
    if row.state in HELD and lease_mark(row, now=now, **words):
        workspace_announce(row)
