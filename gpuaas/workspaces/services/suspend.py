"""Putting a workspace to sleep and waking it: nothing runs and no GPU is held, while data and access stay."""

from django.db import transaction
from django.db.models import F

from gpuaas.core import clock
from gpuaas.core.conditions import Status, Stored, condition_set
from gpuaas.core.errors import Conflict
from gpuaas.workspaces.amounts import amounts_of, words_of
from gpuaas.workspaces.holdings import storage_held
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.selectors import workspace_require
from gpuaas.workspaces.services.rows import (
    HOLDER,
    SUSPENDED,
    operation_begin,
    operation_end,
    state_require,
    workspace_lock,
    workspace_wake,
)
from gpuaas.workspaces.states import WorkspaceState
from quotas.selectors import reservations_held
from quotas.services import reservation_grow, reservation_reserve
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.roles import Permission

S = WorkspaceState


@transaction.atomic
def workspace_suspend(
    *, actor: Actor, workspace: Workspace, expected_version: int | None = None, reason: str = ""
) -> Workspace:
    """Stop all that runs and give its GPUs back; storage, objects and access stay. Asking again changes nothing.

    Pods that nothing owns do not come back. A resize that failed is dropped: it wakes with what it had before.
    """
    workspace_require(actor=actor, workspace=workspace, permission=Permission.WORKSPACE_CREATE)
    row = workspace_lock(workspace_id=workspace.pk)
    if row.state in {S.SUSPENDING, S.SUSPENDED}:
        return row
    row = workspace_lock(workspace_id=workspace.pk, expected_version=expected_version)
    state_require(row, S.READY, S.RESUMING, S.FAILED)
    if row.ready_at is None:
        raise Conflict("this workspace was never ready: retry or delete it", detail={"state": row.state})
    before = {"state": row.state}
    if row.state == S.FAILED and row.suspended_at is None:
        row.flavors.update(count=F("confirmed"))
        row.storage_gib = storage_held(row)
    operation_end(row, "ended by the suspension")
    operation_begin(
        row,
        actor,
        S.SUSPENDING,
        summary=reason[:200],
        reason=reason,
        suspended_at=row.suspended_at or clock.now(),
        storage_gib=row.storage_gib,
        conditions=_told(row, actor, reason),
    )
    audit_record(actor=actor, action="workspace.suspend", target=row, project=row.project, before=before)
    workspace_wake(row)
    return row


def _told(row: Workspace, actor: Actor, reason: str) -> Stored:
    return condition_set(
        row.conditions,
        type=SUSPENDED,
        status=Status.TRUE,
        reason="Asked" if actor.user_id else "ByPortal",
        message=f"put to sleep by {actor.name}" + (f": {reason}" if reason else ""),
        remedy="Resume it when its GPUs are needed again.",
        now=clock.now(),
    )


@transaction.atomic
def workspace_resume(
    *, actor: Actor, workspace: Workspace, expected_version: int | None = None, reason: str = ""
) -> Workspace:
    """Reserve its GPUs anew and bring back what ran. Refused, and asleep as before, where they are not to be had.

    Also while it is falling asleep. Asking again changes nothing.
    """
    workspace_require(actor=actor, workspace=workspace, permission=Permission.WORKSPACE_CREATE)
    row = workspace_lock(workspace_id=workspace.pk)
    if row.state in {S.RESUMING, S.READY}:
        return row
    row = workspace_lock(workspace_id=workspace.pk, expected_version=expected_version)
    state_require(row, S.SUSPENDING, S.SUSPENDED, *([S.FAILED] if row.suspended_at else []))
    if row.lease_ends_at <= clock.now():
        raise Conflict("the lease is over: extend it first", detail={"state": row.state})
    if not row.site.enabled:
        raise Conflict("the site takes no new work now", detail={"state": row.state})
    rows = row.flavors.select_related("flavor__pool__gpu_type")
    items = [(item.flavor, item.count) for item in rows if item.count]
    words = words_of(items, storage_gib=row.storage_gib)
    before = {"state": row.state}
    operation_end(row, "ended by the resumption")
    operation_begin(
        row, actor, S.RESUMING, summary=reason[:200] or words, admission=f"reserved {words}", reason=reason
    )
    audit_record(actor=actor, action="workspace.resume", target=row, project=row.project, before=before)
    workspace_wake(row)
    _reserve_anew(row, amounts_of(items, storage_gib=row.storage_gib))
    return row


def _reserve_anew(row: Workspace, amounts: dict[str, int]) -> None:
    """One without storage held nothing at all while it slept."""
    if reservations_held(holder_kind=HOLDER, holder_id=row.pk):
        reservation_grow(holder_kind=HOLDER, holder_id=row.pk, amounts=amounts)
        return
    reservation_reserve(
        holder_kind=HOLDER, holder_id=row.pk, project=row.project, site=row.site, amounts=amounts
    )
