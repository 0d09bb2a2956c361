"""Background tasks of workspaces. Arguments are ids; everything else is read again."""

import uuid

from celery import shared_task
from django.db.models import OuterRef, Q, QuerySet, Subquery

from gpuaas.catalog.lanes import SiteTask
from gpuaas.catalog.models import Site
from gpuaas.core import claims, clock
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
from tenants.models import Project

__all__ = ["machines", "machines_sweep"]  # found by Celery here

KEPT = (WorkspaceState.READY, WorkspaceState.SUSPENDED)
ENTERED = Q(state__in=KEPT) | Q(state=WorkspaceState.FAILED, ready_at__isnull=False)


@shared_task(name="workspaces.reconcile", base=SiteTask, site_by="workspaces")
def reconcile(workspace_id: str) -> None:
    run(uuid.UUID(workspace_id))


@shared_task(name="workspaces.sweep")
def sweep() -> int:
    """Starts what is due: requests whose poke was lost, waiting steps, retries, periodic checks."""
    watches_lost()
    due = claims.due_poke(Workspace, "workspaces.reconcile", by="site")
    for workspace_id in _revocations_due(claims.SWEEP_LIMIT):
        poke("workspaces.revoke", str(workspace_id))
    return due


def _revocations_due(limit: int) -> list[uuid.UUID]:
    """Workspaces with credentials to end."""
    asked = AccessGrant.objects.filter(workspace=OuterRef("pk"), revoke_due_at__lte=clock.now())
    since = Subquery(asked.order_by("revoke_due_at").values("revoke_due_at")[:1])
    rows = Workspace.objects.annotate(since=since).filter(since__isnull=False)
    return claims.in_turn(rows, by="site", first="since", limit=limit)


@shared_task(name="workspaces.revoke", base=SiteTask, site_by="workspaces")
def revoke_access(workspace_id: str) -> None:
    revoke(uuid.UUID(workspace_id))


@shared_task(name="workspaces.adoptions")
def adoptions() -> int:
    """Scans and plans whose poke was lost or that are retried; closes expired plans."""
    claims.due_poke(AdoptionScan, "workspaces.adoption_scan")
    claims.due_poke(Adoption, "workspaces.adoption_plan")
    return adoption.adoptions_close()


@shared_task(name="workspaces.adoption_scan", base=SiteTask)
def adoption_scan(site_id: str) -> bool:
    return adoption.scan(uuid.UUID(site_id))


@shared_task(name="workspaces.adoption_plan", base=SiteTask, site_by="adoptions")
def adoption_plan(adoption_id: str) -> bool:
    return adoption.plan(uuid.UUID(adoption_id))


@shared_task(name="workspaces.members_sync")
def members_sync(project_id: str) -> int:
    """Started when a role in the project changed: access at the site follows at once, not at the next periodic
    check."""
    return _wake(Workspace.objects.filter(ENTERED, project=uuid.UUID(project_id)))


@shared_task(name="workspaces.person_sync")
def person_sync(user_id: str) -> int:
    """The same when an account was disabled or enabled, or its role on the platform changed: in all workspaces of the person.
    Admins of a project enter those of which they are no members."""
    person = uuid.UUID(user_id)
    above = Q(memberships__user=person) | Q(organization__memberships__user=person)
    theirs = Q(members__user=person) | Q(project__in=Project.objects.filter(above))
    return _wake(Workspace.objects.filter(ENTERED, theirs).distinct())


@shared_task(name="workspaces.site_changed")
def site_changed(site_id: str) -> int:
    """Started when a site counts GPUs under a new name, or no longer has what was sold: every workspace there is
    closed to the name, or reports what is missing, at once. The periodic check repairs a lost poke."""
    ending = (WorkspaceState.DELETING, WorkspaceState.DELETED)
    rows = Workspace.objects.filter(site=uuid.UUID(site_id)).exclude(state__in=ending)
    # what was sold may not be there any more, which only a comparison tells of
    rows.filter(state__in=KEPT).update(drift_due_at=clock.now())
    return _wake(rows)


def _wake(rows: QuerySet[Workspace]) -> int:
    ids = list(rows.values_list("pk", flat=True))
    Workspace.objects.filter(pk__in=ids).update(due_at=clock.now())
    for workspace_id in ids:
        poke("workspaces.reconcile", str(workspace_id))
    return len(ids)


@shared_task(name="workspaces.leases")
def lease_ends() -> int:
    return leases_enforce(now=clock.now())


@shared_task(name="workspaces.site_repair", base=SiteTask, time_limit=90, soft_time_limit=75)
def site_set_right(site_id: str) -> int:
    """Repairs the portal's objects for the whole site; returns how many differed."""
    site = Site.objects.get(pk=uuid.UUID(site_id))
    return site_repair(site, driver_of(site))
