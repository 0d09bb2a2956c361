"""What becomes of the jobs of a workspace that is suspended or deleted."""

import uuid

import structlog
from django.db.models import Q

from gpuaas.core import claims
from gpuaas.core.errors import GpuaasError
from gpuaas.jobs.models import Job
from gpuaas.jobs.services.changes import job_cancel, job_delete, staging_fail
from gpuaas.jobs.services.guests import STAY, guest_end
from gpuaas.jobs.states import LIVE, STAGING, JobState
from gpuaas.lifecycle.allowed import Verb
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.states import WorkspaceState
from tenants.actors import SYSTEM, Actor

log = structlog.get_logger(__name__)
BATCH = 100  # jobs of workspaces that are gone which one round deletes


def follow(workspace: Workspace, actor: Actor, verb: Verb) -> None:
    """In the transaction that takes the workspace down, whose row is locked: what is at the site, which fits into the workspace. One
    that still waits in the queue of a suspended workspace stays there, and starts once that is resumed. Where files are moved,
    that fails, and can be tried again then. Its guests leave it, and wait in their own queues again. Of a workspace that is deleted the
    others are deleted by `left_delete`."""
    at_site = Q(state__in=[JobState.STARTING, JobState.RUNNING]) | Q(state__in=list(STAGING), moving=True)
    if verb is Verb.DELETE:
        at_site |= Q(state=JobState.ENDING)
    rows = Job.objects.filter(at_site & Q(workspace=workspace) | STAY & Q(place=workspace)).order_by("pk")
    rows = rows.select_for_update(
        of=("self",), no_key=True
    )  # one that ends by itself meanwhile is none of them
    word = "deleted" if verb is Verb.DELETE else "suspended"
    for row in rows.select_related("workspace__project__organization", "workspace__site", "place"):
        why = f"its workspace was {word} by {actor.name}"
        if row.workspace_id != workspace.pk:
            guest_end(row, f"{workspace.name} was {word} by {actor.name}")
        elif verb is Verb.DELETE:
            job_delete(actor=SYSTEM, job=row, reason=why)
        elif row.state in STAGING:
            staging_fail(row, why)
        else:
            job_cancel(actor=SYSTEM, job=row, reason=why)


def left_delete() -> int:
    """Deletes jobs of workspaces that are deleted or being deleted, each by itself: there may be any number of them. Of a site whose
    driver refuses one, such as after it was uninstalled, the others wait for the next round. Returns how many are being deleted."""
    gone = [WorkspaceState.DELETING, WorkspaceState.DELETED]
    left = Job.objects.filter(state__in=list(LIVE - {JobState.DELETING}), workspace__state__in=gone)
    found = left.filter(pk__in=claims.in_turn(left, by="site", first="pk", limit=BATCH))
    deleted, refused = 0, set[uuid.UUID]()
    for row in found.select_related("workspace__project__organization", "workspace__site").order_by("pk"):
        if row.site_id in refused:
            continue
        try:
            job_delete(actor=SYSTEM, job=row, reason="its workspace was deleted")
        except GpuaasError as error:
            refused.add(row.site_id)
            log.warning("job_left_undeleted", job=str(row.pk), site=str(row.site_id), error=error.code)
        else:
            deleted += 1
    return deleted
