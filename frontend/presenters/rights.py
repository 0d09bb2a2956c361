"""Which buttons the page of a workspace shows this reader now. Services decide for themselves."""

from dataclasses import dataclass

from frontend.place import ProjectPlace
from frontend.presenters import held
from frontend.presenters.access import may_manage_members
from gpuaas.lifecycle.allowed import Verb
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.selectors import resize_waits, workspace_role
from gpuaas.workspaces.services.rows import WORKSPACE
from gpuaas.workspaces.states import WorkspaceState
from tenants.roles import Permission

S = WorkspaceState


@dataclass(frozen=True, kw_only=True)
class Rights(held.Rights):
    """replaces_resize: the running resize only waits for pods to end, so another one may replace it."""

    resize: bool
    access: bool
    members: bool
    drift: bool
    audit: bool
    resize_reason: str = ""
    replaces_resize: bool = False


def rights_of(workspace: Workspace, here: ProjectPlace) -> Rights:
    allowed = held.allowed_now(workspace)
    members = list(workspace.members.all())
    change = here.can(Permission.WORKSPACE_CREATE)
    staying = Verb.MANAGE in allowed
    replaces_resize = change and resize_waits(workspace=workspace)
    reason = why_no_resize(workspace)
    return Rights(
        **held.rights_facts(allowed, here),
        resize=change and not reason,
        access=Verb.ENTER in allowed and workspace_role(actor=here.actor, workspace=workspace) is not None,
        members=may_manage_members(members, here) and staying,
        drift=change and staying and workspace.ready_at is not None,
        audit=here.can(Permission.AUDIT_VIEW),
        resize_reason=reason,
        replaces_resize=replaces_resize,
    )


def is_open(workspace: Workspace) -> bool:
    return WORKSPACE.may(workspace, Verb.ENTER)


def why_no_resize(workspace: Workspace) -> str:
    """A sentence that stands beside what would be refused; "" where it can be resized."""
    if workspace.state in {S.SUSPENDED, S.FAILED} and workspace.suspended_at is not None:
        return "Resume the workspace first."
    if workspace.state == S.RESIZING and not resize_waits(workspace=workspace):
        return "Another resize is running. Try again when it is done."
    return held.why_not(workspace, Verb.RESIZE)
