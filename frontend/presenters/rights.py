"""Which buttons the page of a workspace shows this reader now. Services decide for themselves."""

from dataclasses import dataclass

from frontend.place import ProjectPlace
from frontend.presenters.access import may_access, may_manage_members
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.selectors import resize_waits
from gpuaas.workspaces.states import MACHINE, WorkspaceState
from tenants.roles import Permission

S = WorkspaceState
OPEN_TO_ACCESS = frozenset({S.READY, S.RESIZING, S.SUSPENDING, S.SUSPENDED, S.RESUMING})


@dataclass(frozen=True)
class Rights:
    """`change`: their role may change workspaces; the rest: that, and the state allows it.

    takes_back: the resize that is under way only waits for pods to end, so `resize` replaces it.
    """

    change: bool
    retry: bool
    resize: bool
    suspend: bool
    resume: bool
    extend: bool
    delete: bool
    access: bool
    members: bool
    drift: bool
    audit: bool
    resize_reason: str = ""
    takes_back: bool = False


def rights_of(workspace: Workspace, here: ProjectPlace) -> Rights:
    state = S(workspace.state)
    members = list(workspace.members.all())
    change = here.can(Permission.WORKSPACE_CREATE)
    staying = state not in {S.DELETING, S.DELETED}
    made = workspace.ready_at is not None
    takes_back = change and resize_waits(workspace=workspace)
    still = state in {S.READY, S.FAILED} or takes_back
    return Rights(
        change=change,
        retry=change and state == S.FAILED,
        resize=change and made and still,
        suspend=change and made and S.SUSPENDING in MACHINE.edges[state],
        resume=change and state in {S.SUSPENDED, S.SUSPENDING},
        extend=change and staying,
        delete=change and staying,
        access=is_open(workspace) and may_access(members, here),
        members=may_manage_members(members, here) and staying,
        drift=change and made and staying,
        audit=here.can(Permission.AUDIT_VIEW),
        resize_reason="" if still else _why_no_resize(state),
        takes_back=takes_back,
    )


def is_open(workspace: Workspace) -> bool:
    state = S(workspace.state)
    return state in OPEN_TO_ACCESS or (state == S.FAILED and workspace.ready_at is not None)


def _why_no_resize(state: WorkspaceState) -> str:
    if state == S.SUSPENDED:
        return "resume it first"
    return f"one change at a time: it is {MACHINE.looks[state].label.lower()}"
