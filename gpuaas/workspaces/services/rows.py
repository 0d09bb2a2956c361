"""What every service does: lock the row, check the version, open an operation, tell the world."""

import uuid
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from gpuaas.core import clock, events
from gpuaas.core.errors import Conflict, Forbidden, NotFound, StaleVersion
from gpuaas.core.operations import ADMISSION
from gpuaas.core.queue import poke
from gpuaas.providers.base import Driver, StepSpec, SuspendCapability
from gpuaas.workspaces.models import Operation, Step, Workspace, WorkspaceTransition
from gpuaas.workspaces.site import driver_of
from gpuaas.workspaces.states import MACHINE, AccessRole, OperationKind, StepState, WorkspaceState
from tenants.actors import Actor
from tenants.roles import Permission

HOLDER = "workspace"
SUSPENDED = "Suspended"  # the condition that says why nothing runs
KINDS = {
    WorkspaceState.PROVISIONING: OperationKind.CREATE,
    WorkspaceState.RESIZING: OperationKind.RESIZE,
    WorkspaceState.SUSPENDING: OperationKind.SUSPEND,
    WorkspaceState.RESUMING: OperationKind.RESUME,
    WorkspaceState.DELETING: OperationKind.DELETE,
}
ADMISSION_STEP = StepSpec(ADMISSION, "Check the limits and reserve")


def workspace_lock(*, workspace_id: uuid.UUID, expected_version: int | None = None) -> Workspace:
    """The row as it is now, ours until the transaction ends. The row comes before everything else that is locked."""
    rows = Workspace.objects.select_for_update(of=("self",), no_key=True)
    workspace = rows.select_related("project__organization", "site").filter(pk=workspace_id).first()
    if workspace is None:
        raise NotFound("there is no such workspace")
    if expected_version is not None and expected_version != workspace.version:
        raise StaleVersion(
            "the workspace was changed meanwhile; look at it again", detail={"version": workspace.version}
        )
    return workspace


def state_require(workspace: Workspace, *states: WorkspaceState) -> None:
    if workspace.state not in states:
        label = MACHINE.looks[WorkspaceState(workspace.state)].label.lower()
        then = "; resume it first" if workspace.state == WorkspaceState.SUSPENDED else ""
        raise Conflict(
            f"this cannot be done while the workspace is {label}{then}", detail={"state": workspace.state}
        )


def admin_require(actor: Actor, workspace: Workspace, what: str) -> None:
    """Admins of the workspace, of the project and of the platform."""
    held = actor.on_project(workspace.project_id, workspace.project.organization_id)
    own = workspace.members.filter(user=actor.user_id, role=AccessRole.ADMIN) if actor.user_id else None
    if Permission.PROJECT_MANAGE not in held and not (own and own.exists()):
        raise Forbidden(f"only admins of the workspace or of the project {what}")


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
    """`admission` says what was reserved; then the operation begins with that step already done."""
    operation = Operation.objects.create(
        workspace=workspace, kind=kind, requested_by=actor_name, requested_at=now, summary=summary
    )
    rows = [Step(operation=operation, key=step.key, label=step.label) for step in steps]
    if admission:
        done = Step(
            operation=operation,
            key=ADMISSION_STEP.key,
            label=ADMISSION_STEP.label,
            state=StepState.DONE,
            started_at=now,
            finished_at=now,
            attempts=1,
            detail=admission,
        )
        rows.insert(0, done)
    for position, row in enumerate(rows):
        row.position = position
    Step.objects.bulk_create(rows)
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
    """Move the row to `state`, due at once, with the operation whose steps lead out of it."""
    moment = clock.now()
    MACHINE.transition(
        row,
        to=state,
        history=WorkspaceTransition,
        actor=actor.name,
        reason=reason,
        due_at=moment,
        attempts=0,
        failure="",
        **changes,
    )
    operation_start(
        workspace=row,
        kind=KINDS[state],
        actor_name=actor.name,
        now=moment,
        steps=_steps(driver_of(row.site), state),
        summary=summary,
        admission=admission,
    )


def _steps(driver: Driver, state: WorkspaceState) -> tuple[StepSpec, ...]:
    match state:
        case WorkspaceState.DELETING:
            return driver.release_steps()
        case WorkspaceState.SUSPENDING | WorkspaceState.RESUMING:
            sleeper = sleeper_require(driver, site=driver.connection.site_slug)
            return sleeper.suspend_steps() if state == WorkspaceState.SUSPENDING else sleeper.resume_steps()
    return driver.ensure_steps()


def sleeper_require(driver: Driver, *, site: str) -> SuspendCapability:
    if not isinstance(driver, SuspendCapability):
        raise Conflict(f"the site {site} cannot put a workspace to sleep")
    return driver


def operation_end(workspace: Workspace, summary: str) -> None:
    """Whatever is under way ends here; the worker on it finds that it was overtaken."""
    rows = workspace.operations.filter(finished_at__isnull=True)
    rows.update(finished_at=clock.now(), succeeded=False, summary=summary)


def workspace_announce(workspace: Workspace) -> None:
    """Tell the pages of the project and the operators, on commit."""
    events.publish(
        kind="workspace",
        id=workspace.pk,
        groups=(events.project_group(workspace.project_id), events.OPERATORS_GROUP),
    )


def workspace_wake(workspace: Workspace) -> None:
    """Tell the world and let the reconciler look at once. The caller has set `due_at` in the same transaction."""
    workspace_announce(workspace)
    poke("workspaces.reconcile", str(workspace.pk))
