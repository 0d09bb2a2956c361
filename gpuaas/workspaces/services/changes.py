"""Changing what is there: resize, retry, extend, delete. One open operation at a time; only deletion takes over."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db import transaction

from gpuaas.core.errors import Conflict, Invalid
from gpuaas.core.terms import lease_extend
from gpuaas.workspaces.amounts import amounts_of, words_of
from gpuaas.workspaces.models import Workspace, WorkspaceFlavor
from gpuaas.workspaces.selectors import resize_waits, workspace_require
from gpuaas.workspaces.services.rows import (
    HOLDER,
    operation_begin,
    operation_end,
    state_require,
    workspace_announce,
    workspace_lock,
    workspace_wake,
)
from gpuaas.workspaces.services.validation import (
    FlavorItem,
    held_by,
    items_resolve,
    storage_validate,
)
from gpuaas.workspaces.states import LIVE, WorkspaceState
from quotas.services import reservation_grow
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.roles import Permission


@transaction.atomic
def workspace_resize(
    *,
    actor: Actor,
    workspace: Workspace,
    items: Sequence[tuple[str, int]],
    storage_gib: int | None = None,
    expected_version: int | None = None,
) -> Workspace:
    """Ask for exactly `items` from now on. What grows is reserved now, what shrinks is given back once confirmed.

    Also from a failed resize, where it is the way back, and while a shrink only waits for what has to go: it is taken
    back. Any other resize under way runs to its end first: of many wishes at once, one wins.
    """
    workspace_require(actor=actor, workspace=workspace, permission=Permission.WORKSPACE_CREATE)
    row = workspace_lock(workspace_id=workspace.pk, expected_version=expected_version)
    _resizable_require(row)
    old = {item.flavor: item.count for item in row.flavors.select_related("flavor__pool") if item.count}
    storage = row.storage_gib if storage_gib is None else storage_validate(storage_gib)
    wanted = items_resolve(items, held=held_by(row), storage_gib=storage)
    if old == dict(wanted) and storage == row.storage_gib:
        raise Invalid.field("items", "this is what the workspace already has")
    before = _sizes(list(old.items()), row.storage_gib)
    _counts_write(row, wanted)
    operation_end(row, "another size was asked for")
    words = words_of(wanted, storage_gib=storage)
    operation_begin(
        row,
        actor,
        WorkspaceState.RESIZING,
        summary=words,
        admission=f"reserved for {words}",
        storage_gib=storage,
    )
    _audit_resize(actor, row, before, _sizes(wanted, storage))
    workspace_wake(row)
    reservation_grow(holder_kind=HOLDER, holder_id=row.pk, amounts=amounts_of(wanted, storage_gib=storage))
    return row


def _resizable_require(row: Workspace) -> None:
    if row.state == WorkspaceState.RESIZING and not resize_waits(workspace=row):
        raise Conflict(
            "another resize is under way: ask again when it is done, or when it only waits for what runs to end",
            detail={"state": row.state},
        )
    state_require(row, WorkspaceState.READY, WorkspaceState.RESIZING, WorkspaceState.FAILED)
    if row.ready_at is None:
        raise Conflict("this workspace was never ready: retry or delete it", detail={"state": row.state})
    if row.suspended_at is not None:
        raise Conflict("this workspace is asleep: resume it first", detail={"state": row.state})


def _audit_resize(actor: Actor, row: Workspace, before: dict[str, Any], after: dict[str, Any]) -> None:
    action = "workspace.resize"
    audit_record(actor=actor, action=action, target=row, project=row.project, before=before, after=after)


def _sizes(items: Sequence[FlavorItem], storage_gib: int) -> dict[str, Any]:
    return {"items": {flavor.slug: count for flavor, count in items}, "storage_gib": storage_gib}


def _counts_write(row: Workspace, wanted: list[FlavorItem]) -> None:
    """A flavor that is no longer wanted stays with count 0 until the site has confirmed."""
    keep = [flavor.pk for flavor, _ in wanted]
    row.flavors.exclude(flavor__in=keep).update(count=0)
    WorkspaceFlavor.objects.bulk_create(
        [WorkspaceFlavor(workspace=row, flavor=flavor, count=count) for flavor, count in wanted],
        update_conflicts=True,
        unique_fields=["workspace", "flavor"],
        update_fields=["count"],
    )


@transaction.atomic
def workspace_retry(*, actor: Actor, workspace: Workspace, expected_version: int | None = None) -> Workspace:
    """Try a failed creation, resize or resumption again; what was reserved is still held."""
    workspace_require(actor=actor, workspace=workspace, permission=Permission.WORKSPACE_CREATE)
    row = workspace_lock(workspace_id=workspace.pk, expected_version=expected_version)
    state_require(row, WorkspaceState.FAILED)
    state = _tried(row)
    before = {"failure": row.failure}
    items = [(item.flavor, item.count) for item in row.flavors.select_related("flavor") if item.count]
    words = words_of(items, storage_gib=row.storage_gib)
    operation_begin(
        row, actor, state, reason="retried", summary=words, admission="still reserved since the first try"
    )
    audit_record(actor=actor, action="workspace.retry", target=row, project=row.project, before=before)
    workspace_wake(row)
    return row


def _tried(failed: Workspace) -> WorkspaceState:
    """What it was doing when it failed."""
    if failed.suspended_at is not None:
        return WorkspaceState.RESUMING
    return WorkspaceState.PROVISIONING if failed.ready_at is None else WorkspaceState.RESIZING


@transaction.atomic
def workspace_extend(
    *,
    actor: Actor,
    workspace: Workspace,
    lease_ends_at: datetime,
    expected_version: int | None = None,
) -> Workspace:
    """A later end of the lease, at most 365 days from now."""
    workspace_require(actor=actor, workspace=workspace, permission=Permission.WORKSPACE_CREATE)
    row = workspace_lock(workspace_id=workspace.pk, expected_version=expected_version)
    state_require(row, *(LIVE - {WorkspaceState.DELETING}))
    before, after = lease_extend(row, lease_ends_at)
    audit_record(
        actor=actor,
        action="workspace.extend",
        target=row,
        project=row.project,
        before=before,
        after=after,
    )
    workspace_announce(row)
    return row


@transaction.atomic
def workspace_delete(
    *, actor: Actor, workspace: Workspace, expected_version: int | None = None, reason: str = ""
) -> Workspace:
    """Begin the deletion, from any live state; whatever was under way ends. Asking again changes nothing."""
    workspace_require(actor=actor, workspace=workspace, permission=Permission.WORKSPACE_CREATE)
    row = workspace_lock(workspace_id=workspace.pk)
    if row.state in {WorkspaceState.DELETING, WorkspaceState.DELETED}:
        return row
    row = workspace_lock(workspace_id=workspace.pk, expected_version=expected_version)
    operation_end(row, "ended by the deletion")
    before = {"state": row.state}
    operation_begin(row, actor, WorkspaceState.DELETING, summary=reason[:200], reason=reason)
    audit_record(actor=actor, action="workspace.delete", target=row, project=row.project, before=before)
    workspace_wake(row)
    return row
