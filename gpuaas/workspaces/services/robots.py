"""Service accounts of a workspace, for CI: members that are not people, with credentials like a member's."""

from datetime import timedelta

from django.db import transaction
from django.db.models import F

from gpuaas.core import clock
from gpuaas.core.errors import Conflict, Forbidden, Invalid, NotFound
from gpuaas.lifecycle.allowed import Verb
from gpuaas.lifecycle.grants import lifetime_of
from gpuaas.providers.base import Access, AccessKind, Member
from gpuaas.workspaces.models import AccessGrant, Robot, Workspace
from gpuaas.workspaces.selectors import robot_can_issue, workspace_require
from gpuaas.workspaces.services.access import access_issue, member_of, revocation_ask
from gpuaas.workspaces.services.rows import (
    WORKSPACE,
    admin_require,
    workspace_lock,
    workspace_wake,
)
from gpuaas.workspaces.services.validation import NAME
from gpuaas.workspaces.spec import robot_subject_of
from gpuaas.workspaces.states import AccessRole, WorkspaceState
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.roles import Permission

ROBOTS_MAX = 20
LIFETIME_DEFAULT = timedelta(hours=1)


@transaction.atomic
def robot_create(*, actor: Actor, workspace: Workspace, name: str, role: str) -> Robot:
    """By an admin of the workspace or the project. It exists at the site within seconds."""
    workspace_require(actor=actor, workspace=workspace, permission=Permission.WORKSPACE_CREATE)
    row = workspace_lock(workspace.pk)
    admin_require(actor, row, "create service accounts")
    WORKSPACE.require(row, Verb.MANAGE)
    if type(name) is not str or not NAME.match(name):
        message = "use 1 to 40 lower-case letters, digits and hyphens; start and end with a letter or digit"
        raise Invalid.field("name", message)
    if role not in AccessRole.values:
        raise Invalid.field("role", f"a role must be one of {', '.join(AccessRole.values)}")
    held = row.robots.filter(deleted_at__isnull=True)
    if held.filter(name=name).exists():
        message = f"the workspace already has a service account called {name}"
        raise Conflict(message, detail={"field": "name"})
    if held.count() >= ROBOTS_MAX:
        raise Conflict(f"a workspace can have at most {ROBOTS_MAX} service accounts; delete one first")
    robot = Robot.objects.create(
        workspace=row, name=name, role=role, created_by=actor.name, created_at=clock.now()
    )
    _changed(actor, row, "workspace.robot_create", robot)
    return robot


@transaction.atomic
def robot_delete(*, actor: Actor, robot: Robot) -> None:
    """Its credentials end with it. Repeating it changes nothing."""
    workspace = robot.workspace
    workspace_require(actor=actor, workspace=workspace, permission=Permission.WORKSPACE_CREATE)
    row = workspace_lock(workspace.pk)
    admin_require(actor, row, "delete service accounts")
    if not Robot.objects.filter(pk=robot.pk, deleted_at__isnull=True).update(deleted_at=clock.now()):
        return
    revocation_ask(row, robot.name, robot_id=robot.pk)
    _changed(actor, row, "workspace.robot_delete", robot)


def robot_access_issue(
    *, actor: Actor, robot: Robot, lifetime: timedelta | None = None, kind: AccessKind | None = None
) -> Access:
    """Its kubeconfig or clouds.yaml, shown once. For people and API tokens whose own role in the workspace is at
    least that of the account."""
    workspace = robot.workspace
    workspace_require(actor=actor, workspace=workspace, permission=Permission.WORKSPACE_ACCESS)
    if not Robot.objects.filter(pk=robot.pk, deleted_at__isnull=True).exists():
        raise NotFound("there is no such service account")
    own = member_of(actor, workspace)
    if not robot_can_issue(actor=actor, workspace=workspace, robot=robot):
        raise Forbidden(
            f"your role in this workspace is {own.role}, below {robot.role}, the role of {robot.name}"
        )
    grant = AccessGrant(workspace=workspace, robot=robot)
    member = Member(robot_subject_of(robot.pk), robot.name, robot.role, robot=True)
    access = access_issue(actor, grant, member, lifetime_of(lifetime, default=LIFETIME_DEFAULT), kind=kind)
    WORKSPACE.audit(
        workspace,
        actor,
        "robot_access",
        after={"of": robot.name, "role": robot.role, "expires_at": access.expires_at.isoformat()},
    )
    return access


def _changed(actor: Actor, row: Workspace, action: str, robot: Robot) -> None:
    """The spec has another member from now on: starts the reconciler."""
    changes = {"version": F("version") + 1}
    rows = Workspace.objects.filter(pk=row.pk)
    if row.state != WorkspaceState.FAILED or row.ready_at is not None:
        rows.update(due_at=clock.now())
    rows.update(**changes)
    row.refresh_from_db(fields=["version"])
    after = {"name": robot.name, "role": str(robot.role)}
    audit_record(actor=actor, action=action, target=row, project=row.project, after=after)
    workspace_wake(row)
