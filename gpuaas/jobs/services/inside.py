"""What becomes of the jobs of a workspace that is suspended or deleted."""

from gpuaas.jobs.models import Job
from gpuaas.jobs.services.changes import job_cancel, job_delete, staging_fail
from gpuaas.jobs.states import LIVE, STAGING, JobState
from gpuaas.lifecycle.allowed import Verb
from gpuaas.workspaces.models import Workspace
from tenants.actors import SYSTEM, Actor


def follow(workspace: Workspace, actor: Actor, verb: Verb) -> None:
    """In the transaction that takes the workspace down, whose row is locked. One that still waits in the queue of a suspended
    workspace stays there, and starts once that is resumed. Where files are moved, that fails, and can be tried again then."""
    ends = {JobState.STARTING, JobState.RUNNING, *STAGING}
    states = LIVE if verb is Verb.DELETE else ends
    rows = Job.objects.filter(workspace=workspace, state__in=list(states)).order_by("pk")
    rows = rows.select_for_update(
        of=("self",), no_key=True
    )  # one that ends by itself meanwhile is none of them
    end, word = (job_delete, "deleted") if verb is Verb.DELETE else (job_cancel, "suspended")
    for row in rows.select_related("workspace__project__organization", "workspace__site"):
        why = f"its workspace was {word} by {actor.name}"
        if verb is Verb.DELETE or row.state not in STAGING:
            end(actor=SYSTEM, job=row, reason=why)
        elif row.moving:
            staging_fail(row, why)
