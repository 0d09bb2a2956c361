"""What every service does: lock the row, check the version, open an operation, notify."""

from gpuaas.core.errors import Conflict, Forbidden
from gpuaas.lifecycle.kind import EndWords, Kind
from gpuaas.providers.base import Change, StepSpec
from gpuaas.workspaces.models import Operation, Workspace, WorkspaceTransition
from gpuaas.workspaces.selectors import workspace_require
from gpuaas.workspaces.site import driver_of
from gpuaas.workspaces.states import ALLOWED, CHANGING, MACHINE, AccessRole, WorkspaceState
from tenants.actors import Actor
from tenants.roles import Permission

HOLDER = "workspace"
SUSPENDED = "Suspended"  # the condition that says why nothing runs


def _steps(row: Workspace, change: Change, _was: str) -> tuple[StepSpec, ...]:
    driver = driver_of(row.site)
    if change not in driver.changes:
        raise Conflict(f"the site {row.site.slug} cannot suspend a workspace")
    return driver.steps(change)


WORKSPACE: Kind[Workspace] = Kind(
    "workspace",
    Workspace.objects,
    machine=MACHINE,
    history=WorkspaceTransition,
    operations=Operation.objects,
    task="workspaces.reconcile",
    allowed=ALLOWED,
    permit=lambda actor, row: workspace_require(
        actor=actor, workspace=row, permission=Permission.WORKSPACE_CREATE
    ),
    overtaken=frozenset({WorkspaceState.RESIZING}),
    end=EndWords("it is suspended", "everything in it"),
    changing=CHANGING,
    steps=_steps,
    cured={"failure": ""},
)
workspace_lock, operation_end = WORKSPACE.lock, WORKSPACE.operation_end
operation_start, operation_begin = WORKSPACE.operation_start, WORKSPACE.begin
workspace_announce, workspace_wake = WORKSPACE.announce, WORKSPACE.wake


def admin_require(actor: Actor, workspace: Workspace, what: str) -> None:
    """Admins of the workspace, of the project and of the platform. The caller has checked the scope of its own operation; a
    token also needs `project:manage`, whoever made it."""
    place, manage = (workspace.project_id, workspace.project.organization_id), Permission.PROJECT_MANAGE
    if manage in actor.on_project(*place):
        return
    own = workspace.members.filter(user=actor.user_id, role=AccessRole.ADMIN) if actor.user_id else None
    if not (own and own.exists()):
        raise Forbidden(f"only admins of the workspace or of the project can {what}")
    if manage not in actor.on_project(*place, own=manage):
        raise Forbidden(f"this API token does not allow this; it needs the scope {manage.value}")
