"""What becomes of the jobs of a workspace that is suspended or deleted."""

from gpuaas.jobs.models import Job
from gpuaas.jobs.services.changes import job_cancel, job_delete
from gpuaas.jobs.states import LIVE, JobState
from gpuaas.lifecycle.allowed import Verb
from gpuaas.workspaces.models import Workspace
from tenants.actors import SYSTEM, Actor


def follow(workspace: Workspace, actor: Actor, verb: Verb) -> None:
    """In the transaction that takes the workspace down, whose row is locked. One that still waits in the queue of a suspended
    workspace stays there, and starts once that is resumed."""
    states = LIVE if verb is Verb.DELETE else {JobState.STARTING, JobState.RUNNING}
    rows = Job.objects.filter(workspace=workspace, state__in=list(states)).order_by("pk")
    rows = rows.select_for_update(
        of=("self",), no_key=True
    )  # one that ends by itself meanwhile is none of them
    end, word = (job_delete, "deleted") if verb is Verb.DELETE else (job_cancel, "suspended")
    for row in rows.select_related("workspace__project__organization", "workspace__site"):
        end(actor=SYSTEM, job=row, reason=f"its workspace was {word} by {actor.name}")
