"""Whether a workspace lends what is free in it to jobs of its project's other workspaces."""

from django.db import transaction

from gpuaas.core.errors import Invalid
from gpuaas.lifecycle.allowed import Verb
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services.rows import WORKSPACE
from tenants.actors import Actor

NOT_LENT_ON = "this workspace borrows its GPUs, so it has none to lend"


@transaction.atomic
def workspace_lend(
    *, actor: Actor, workspace: Workspace, open_to_project: bool, expected_version: int | None = None
) -> Workspace:
    """Once it is closed, those that run in it leave within seconds, with their notice. Repeating it changes nothing."""
    row = WORKSPACE.asked(actor, workspace, Verb.MANAGE, expected_version)
    if open_to_project and row.is_spot:
        raise Invalid.field("open_to_project", NOT_LENT_ON)
    if row.open_to_project != open_to_project:
        before, row.open_to_project = {"open_to_project": row.open_to_project}, open_to_project
        row.version += 1
        row.save(update_fields=["open_to_project", "version"])
        WORKSPACE.audit(row, actor, "lend", before=before, after={"open_to_project": open_to_project})
        WORKSPACE.announce(row)
    return row
