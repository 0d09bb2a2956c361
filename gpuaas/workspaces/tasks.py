"""Background work on workspaces. Arguments are ids; everything else is read anew."""

import uuid

from celery import shared_task
from django.db.models import QuerySet

from gpuaas.catalog.models import Site
from gpuaas.core import clock, leases
from gpuaas.core.queue import poke
from gpuaas.workspaces.lease import leases_enforce
from gpuaas.workspaces.machines.tasks import machines, machines_sweep
from gpuaas.workspaces.models import AccessGrant, Adoption, AdoptionScan, Workspace
from gpuaas.workspaces.reconcile import adoption, run
from gpuaas.workspaces.reconcile.revoke import revoke
from gpuaas.workspaces.services.drift import watches_lost
from gpuaas.workspaces.site import driver_of
from gpuaas.workspaces.states import WorkspaceState
from gpuaas.workspaces.watch import site_repair

__all__ = ["machines", "machines_sweep"]  # found by Celery here

SWEEP_LIMIT = 200
KEPT = (WorkspaceState.READY, WorkspaceState.SUSPENDED)


@shared_task(name="workspaces.reconcile")
def reconcile(workspace_id: str) -> None:
    run(uuid.UUID(workspace_id))


@shared_task(name="workspaces.sweep")
def sweep() -> int:
    """Pokes what is due: new wishes whose poke was lost, waiting steps, retries, periodic looks."""
    watches_lost()
    due = leases.due_ids(Workspace, now=clock.now(), limit=SWEEP_LIMIT)
    for workspace_id in due:
        poke("workspaces.reconcile", str(workspace_id))
    revocations = AccessGrant.objects.filter(revoke_due_at__lte=clock.now()).order_by()
    for (workspace_id,) in revocations.values_list("workspace").distinct()[:SWEEP_LIMIT]:
        poke("workspaces.revoke", str(workspace_id))
    return len(due)


@shared_task(name="workspaces.revoke")
def revoke_access(workspace_id: str) -> None:
    revoke(uuid.UUID(workspace_id))


@shared_task(name="workspaces.adoptions")
def adoptions() -> int:
    """Looks and plans whose poke was lost or that are tried again; plans that are over are closed."""
    for model, task in ((AdoptionScan, "workspaces.adoption_scan"), (Adoption, "workspaces.adoption_plan")):
        for pk in leases.due_ids(model, now=clock.now(), limit=SWEEP_LIMIT):
            poke(task, str(pk))
    return adoption.adoptions_close()


@shared_task(name="workspaces.adoption_scan")
def adoption_scan(site_id: str) -> bool:
    return adoption.scan(uuid.UUID(site_id))


@shared_task(name="workspaces.adoption_plan")
def adoption_plan(adoption_id: str) -> bool:
    return adoption.plan(uuid.UUID(adoption_id))


@shared_task(name="workspaces.members_sync")
def members_sync(project_id: str) -> int:
    """Poked when a role in the project changed: access at the site follows at once, not at the next periodic look."""
    return _wake(Workspace.objects.filter(project=uuid.UUID(project_id), state__in=KEPT))


@shared_task(name="workspaces.site_changed")
def site_changed(site_id: str) -> int:
    """Poked when a site counts GPUs by a new name or has labeled its nodes anew: every workspace there is closed to
    the one and pinned by the other at once. What a lost poke missed the periodic look finds."""
    ending = (WorkspaceState.DELETING, WorkspaceState.DELETED)
    return _wake(Workspace.objects.filter(site=uuid.UUID(site_id)).exclude(state__in=ending))


def _wake(rows: QuerySet[Workspace]) -> int:
    found = list(rows.values_list("pk", flat=True))
    Workspace.objects.filter(pk__in=found).update(due_at=clock.now())
    for workspace_id in found:
        poke("workspaces.reconcile", str(workspace_id))
    return len(found)


@shared_task(name="workspaces.leases")
def lease_ends() -> int:
    return leases_enforce(now=clock.now())


@shared_task(name="workspaces.site_repair", time_limit=90, soft_time_limit=75)
def site_set_right(site_id: str) -> int:
    """What we keep for the whole site; how much of it was not as it should be."""
    site = Site.objects.get(pk=uuid.UUID(site_id))
    return site_repair(site, driver_of(site))
