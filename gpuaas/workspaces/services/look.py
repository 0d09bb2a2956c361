"""A hint from the watch of a site that something started or ended in a workspace."""

import uuid

from gpuaas.core import clock
from gpuaas.core.queue import poke
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.states import LOOKED_AT


def workspace_look(*, workspace_id: uuid.UUID) -> bool:
    """Makes the next periodic check due now, so that its page and the end of a resize follow; False if none is due."""
    moment = clock.now()
    rows = Workspace.objects.filter(pk=workspace_id, state__in=LOOKED_AT, due_at__gt=moment)
    if not rows.update(due_at=moment):
        return False
    poke("workspaces.reconcile", str(workspace_id))
    return True
