"""Service accounts of a workspace, for CI: members without a person behind them, with credentials like a member's."""

from datetime import timedelta

from django.db import transaction
from django.db.models import F

from gpuaas.core import clock
from gpuaas.core.errors import Conflict, Forbidden, Invalid, NotFound
from gpuaas.providers.base import Access, AccessKind, Member
from gpuaas.workspaces.models import AccessGrant, Robot, Workspace
from gpuaas.workspaces.selectors import workspace_require
from gpuaas.workspaces.services.access import access_issue, lifetime_max, member_of, revocation_ask
from gpuaas.workspaces.services.rows import admin_require, state_require, workspace_lock, workspace_wake
from gpuaas.workspaces.services.validation import NAME
from gpuaas.workspaces.spec import robot_subject_of
from gpuaas.workspaces.states import LIVE, AccessRole, WorkspaceState
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.roles import Permission

ROBOTS_MAX = 20
LIFETIME_DEFAULT = timedelta(hours=1)
RANK = {AccessRole.VIEW: 0, AccessRole.EDIT: 1, AccessRole.ADMIN: 2}


@transaction.atomic
def robot_create(*, actor: Actor, workspace: Workspace, name: str, role: str) -> Robot:
    """By an admin of the workspace or the project. The site knows it within seconds."""
    workspace_require(actor=actor, workspace=workspace, permission=Permission.WORKSPACE_CREATE)
    row = workspace_lock(workspace_id=workspace.pk)
    admin_require(actor, row, "make service accounts")
    state_require(row, *(LIVE - {WorkspaceState.DELETING}))
    if type(name) is not str or not NAME.match(name):
        message = "use 1 to 40 lower-case letters, digits and hyphens; begin and end with a letter or digit"
        raise Invalid.field("name", message)
    if role not in AccessRole.values:
        raise Invalid.field("role", f"a role is one of {', '.join(AccessRole.values)}")
    held = row.robots.filter(deleted_at__isnull=True)
    if held.filter(name=name).exists():
        message = f"the workspace already has a service account called {name}"
        raise Conflict(message, detail={"field": "name"})
    if held.count() >= ROBOTS_MAX:
        raise Conflict(f"a workspace has at most {ROBOTS_MAX} service accounts; delete one first")
    robot = Robot.objects.create(
        workspace=row, name=name, role=role, created_by=actor.name, created_at=clock.now()
    )
    _changed(actor, row, "workspace.robot_create", robot)
    return robot


@transaction.atomic
def robot_delete(*, actor: Actor, robot: Robot) -> None:
    """Its credentials end with it. Deleting it again changes nothing."""
    workspace = robot.workspace
    workspace_require(actor=actor, workspace=workspace, permission=Permission.WORKSPACE_CREATE)
    row = workspace_lock(workspace_id=workspace.pk)
    admin_require(actor, row, "delete service accounts")
    if not Robot.objects.filter(pk=robot.pk, deleted_at__isnull=True).update(deleted_at=clock.now()):
        return
    revocation_ask(row, robot.name, robot_id=robot.pk)
    _changed(actor, row, "workspace.robot_delete", robot)


def robot_access_issue(
    *, actor: Actor, robot: Robot, lifetime: timedelta | None = None, kind: AccessKind | None = None
) -> Access:
    """Its kubeconfig or clouds.yaml, shown once. By anybody, also an API token, whose own role in the workspace is not below its own."""
    workspace = robot.workspace
    workspace_require(actor=actor, workspace=workspace, permission=Permission.WORKSPACE_ACCESS)
    if not Robot.objects.filter(pk=robot.pk, deleted_at__isnull=True).exists():
        raise NotFound("there is no such service account")
    own = member_of(actor, workspace)
    if RANK[AccessRole(own.role)] < RANK[AccessRole(robot.role)]:
        raise Forbidden(f"your role in this workspace is {own.role}, that of {robot.name} is {robot.role}")
    grant = AccessGrant(workspace=workspace, robot=robot)
    member = Member(robot_subject_of(robot.pk), robot.name, robot.role, robot=True)
    access = access_issue(actor, grant, member, lifetime or min(LIFETIME_DEFAULT, lifetime_max()), kind=kind)
    audit_record(
        actor=actor,
        action="workspace.robot_access",
        target=workspace,
        project=workspace.project,
        after={"of": robot.name, "role": robot.role, "expires_at": access.expires_at.isoformat()},
    )
    return access


def _changed(actor: Actor, row: Workspace, action: str, robot: Robot) -> None:
    """The spec has another member from now on: the reconciler has to look."""
    changes = {"version": F("version") + 1}
    rows = Workspace.objects.filter(pk=row.pk)
    if row.state != WorkspaceState.FAILED or row.ready_at is not None:
        rows.update(due_at=clock.now())
    rows.update(**changes)
    row.refresh_from_db(fields=["version"])
    after = {"name": robot.name, "role": str(robot.role)}
    audit_record(actor=actor, action=action, target=row, project=row.project, after=after)
    workspace_wake(row)
