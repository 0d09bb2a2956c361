"""The workspace that an order names."""

from typing import Any
from uuid import UUID

from gpuaas.core.errors import Invalid, NotFound
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.selectors import workspace_get_for
from tenants.actors import Actor
from tenants.models import Project


def workspace_in(actor: Actor, project: Project, workspace_id: Any) -> Workspace:
    """Raises Invalid at `workspace` unless the project has one of that id which the actor may see."""
    unknown = "there is no such workspace"
    try:
        found = workspace_get_for(actor=actor, workspace_id=UUID(str(workspace_id)))
    except (ValueError, NotFound) as error:
        words = unknown if workspace_id else "enter the id of a workspace of the project"
        raise Invalid.field("workspace", words) from error
    if found.project_id != project.pk:
        raise Invalid.field("workspace", unknown)
    return found
