"""The end of a workspace's lease: a warning before, then suspension for a grace period, then deletion."""

from datetime import datetime

from django.db.models import Q

from gpuaas.lifecycle.enforce import PATIENCE
from gpuaas.lifecycle.lease import lease_round
from gpuaas.lifecycle.visits import PROGRESSING
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.selectors import IN_USE
from gpuaas.workspaces.services import workspace_delete, workspace_suspend
from gpuaas.workspaces.services.rows import WORKSPACE
from gpuaas.workspaces.states import LIVE, WorkspaceState

HELD = LIVE - {WorkspaceState.DELETING}


def awake(now: datetime) -> Q:
    """What can be put to sleep now. What is made or resized just now is, as soon as it only waits for the tenant's own
    pods, or takes too long."""
    waits = Q(state=WorkspaceState.RESIZING, **{f"conditions__{PROGRESSING}__reason": IN_USE})
    return WORKSPACE.awake(now - PATIENCE) | Q(state=WorkspaceState.RESUMING) | waits


def leases_enforce(*, now: datetime) -> int:
    """Warns, marks as over, suspends, deletes; returns how many workspaces changed."""
    return lease_round(
        WORKSPACE,
        Workspace.objects.filter(state__in=HELD).select_related("project"),
        awake(now),
        now=now,
        suspend=workspace_suspend,
        delete=workspace_delete,
    )
