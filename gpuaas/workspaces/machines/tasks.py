"""Background visits. Arguments are ids; everything else is read again."""

import uuid
from datetime import timedelta

from celery import shared_task

from gpuaas.catalog.lanes import SiteTask
from gpuaas.core import claims, clock
from gpuaas.workspaces.machines.models import MachineLook
from gpuaas.workspaces.machines.rows import TASK
from gpuaas.workspaces.machines.visit import visit
from gpuaas.workspaces.states import WorkspaceState

ENDING_EVERY = timedelta(seconds=3)


@shared_task(name=TASK, base=SiteTask, site_by="workspaces")
def machines(workspace_id: str) -> bool:
    return visit(uuid.UUID(workspace_id))


@shared_task(name="workspaces.machines_sweep")
def machines_sweep() -> int:
    """Visits whose poke was lost, that wait for the site, or that are due; more often while a workspace is being
    deleted."""
    moment = clock.now()
    ending = MachineLook.objects.filter(workspace__state=WorkspaceState.DELETING)
    ending.filter(due_at__gt=moment + ENDING_EVERY).update(due_at=moment)
    return claims.due_poke(MachineLook, TASK, by="workspace__site")
