"""The end of a workspace's lease: a warning before, then suspension for a grace period, then deletion."""

from datetime import datetime

from django.db.models import Q

from gpuaas.lifecycle.lease import REASON, EndWords, lease_round
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services import workspace_delete, workspace_suspend
from gpuaas.workspaces.services.rows import WORKSPACE
from gpuaas.workspaces.states import LIVE, WorkspaceState
from tenants.actors import SYSTEM

HELD = LIVE - {WorkspaceState.DELETING}
# what is made or resized just now is put to sleep on the next round
AWAKE = Q(state__in=[WorkspaceState.READY, WorkspaceState.RESUMING]) | Q(
    state=WorkspaceState.FAILED, ready_at__isnull=False
)


def leases_enforce(*, now: datetime) -> int:
    """Warns, marks as over, suspends, deletes; returns how many workspaces changed."""
    return lease_round(
        WORKSPACE,
        Workspace.objects.filter(state__in=HELD).select_related("project"),
        AWAKE,
        now=now,
        words=EndWords("it is suspended", "everything in it"),
        sleep=lambda row: workspace_suspend(
            actor=SYSTEM, workspace=row, expected_version=row.version, reason=REASON
        ),
        delete=lambda row: workspace_delete(
            actor=SYSTEM, workspace=row, expected_version=row.version, reason=REASON
        ),
    )
