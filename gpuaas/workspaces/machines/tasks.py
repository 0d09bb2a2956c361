"""Background visits. Arguments are ids; everything else is read anew."""

import uuid
from datetime import timedelta

from celery import shared_task

from gpuaas.core import clock, leases
from gpuaas.core.queue import poke
from gpuaas.workspaces.machines.models import MachineLook
from gpuaas.workspaces.machines.rows import TASK
from gpuaas.workspaces.machines.visit import visit
from gpuaas.workspaces.states import WorkspaceState

SWEEP_LIMIT = 200
ENDING_EVERY = timedelta(seconds=3)


@shared_task(name=TASK)
def machines(workspace_id: str) -> bool:
    return visit(uuid.UUID(workspace_id))


@shared_task(name="workspaces.machines_sweep")
def machines_sweep() -> int:
    """Visits whose poke was lost, that wait for the site, or that are due; those of a workspace that ends more often."""
    moment = clock.now()
    ending = MachineLook.objects.filter(workspace__state=WorkspaceState.DELETING)
    ending.filter(due_at__gt=moment + ENDING_EVERY).update(due_at=moment)
    due = leases.due_ids(MachineLook, now=moment, limit=SWEEP_LIMIT)
    for workspace_id in due:
        poke(TASK, str(workspace_id))
    return len(due)
