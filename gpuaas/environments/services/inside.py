"""What becomes of the environments of a workspace that is suspended or deleted."""

from gpuaas.environments.models import Environment
from gpuaas.environments.services.changes import environment_delete, environment_stop
from gpuaas.environments.services.rows import ENVIRONMENT
from gpuaas.environments.states import LIVE
from gpuaas.lifecycle.allowed import Verb
from gpuaas.workspaces.models import Workspace
from tenants.actors import SYSTEM, Actor


def follow(workspace: Workspace, actor: Actor, verb: Verb) -> None:
    """In the transaction that takes the workspace down, whose row is locked: they go first. All are locked in the order of their
    ids before one is judged, so that each is what it is now."""
    rows = Environment.objects.filter(workspace=workspace, state__in=list(LIVE)).order_by("pk")
    rows = rows.select_for_update(of=("self",), no_key=True)
    for row in rows.select_related("workspace__project__organization", "workspace__site"):
        if verb is Verb.DELETE:
            environment_delete(
                actor=SYSTEM, environment=row, reason=f"its workspace was deleted by {actor.name}"
            )
        elif ENVIRONMENT.may(row, Verb.SUSPEND):
            environment_stop(
                actor=SYSTEM, environment=row, reason=f"its workspace was suspended by {actor.name}"
            )
