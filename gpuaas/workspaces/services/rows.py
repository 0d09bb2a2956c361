"""What every service does: lock the row, check the version, open an operation, notify."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from gpuaas.core import clock
from gpuaas.core.errors import Conflict, Forbidden
from gpuaas.lifecycle.kind import EndWords, Kind
from gpuaas.lifecycle.operations import ADMISSION, steps_write
from gpuaas.providers.base import Change, StepSpec
from gpuaas.workspaces.models import Operation, Step, Workspace, WorkspaceTransition
from gpuaas.workspaces.selectors import workspace_require
from gpuaas.workspaces.site import driver_of
from gpuaas.workspaces.states import ALLOWED, CHANGING, MACHINE, AccessRole, OperationKind, WorkspaceState
from tenants.actors import Actor
from tenants.roles import Permission

HOLDER = "workspace"
SUSPENDED = "Suspended"  # the condition that says why nothing runs
ADMISSION_STEP = StepSpec(ADMISSION, "Check the limits and reserve")

WORKSPACE: Kind[Workspace] = Kind(
    "workspace",
    Workspace.objects,
    machine=MACHINE,
    history=WorkspaceTransition,
    operations=Operation.objects,
    reads=("project__organization", "site"),
    task="workspaces.reconcile",
    allowed=ALLOWED,
    permit=lambda actor, row: workspace_require(
        actor=actor, workspace=row, permission=Permission.WORKSPACE_CREATE
    ),
    overtaken=frozenset({WorkspaceState.RESIZING}),
    end=EndWords("it is suspended", "everything in it"),
)
workspace_lock, state_require, operation_end = (
    WORKSPACE.lock,
    WORKSPACE.state_require,
    WORKSPACE.operation_end,
)
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


def operation_start(
    *,
    workspace: Workspace,
    kind: OperationKind,
    actor_name: str,
    now: datetime,
    steps: Iterable[StepSpec],
    summary: str = "",
    admission: str = "",
) -> Operation:
    """`admission`: what was reserved; then the operation starts with that step already done."""
    operation = Operation.objects.create(
        workspace=workspace, kind=kind, requested_by=actor_name, requested_at=now, summary=summary
    )
    listed = (ADMISSION_STEP, *steps) if admission else tuple(steps)
    rows = [Step(operation=operation, key=step.key, label=step.label) for step in listed]
    steps_write(rows, admission=admission, now=now)
    return operation


def operation_begin(
    row: Workspace,
    actor: Actor,
    state: WorkspaceState,
    *,
    summary: str = "",
    admission: str = "",
    reason: str = "",
    **changes: Any,
) -> None:
    """Moves the row to `state`, due at once, with the operation whose steps lead out of it."""
    moment, change = clock.now(), CHANGING[state]
    WORKSPACE.move(
        row,
        state,
        actor=actor.name,
        reason=reason,
        due_at=moment,
        attempts=0,
        failure="",
        **changes,
    )
    operation_start(
        workspace=row,
        kind=OperationKind(change),
        actor_name=actor.name,
        now=moment,
        steps=_steps(row, change),
        summary=summary,
        admission=admission,
    )


def _steps(row: Workspace, change: Change) -> tuple[StepSpec, ...]:
    driver = driver_of(row.site)
    if change not in driver.changes:
        raise Conflict(f"the site {row.site.slug} cannot suspend a workspace")
    return driver.steps(change)
