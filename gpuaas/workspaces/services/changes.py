"""Changes of existing workspaces: resize, retry, extend, delete. One open operation at a time; only deletion replaces
it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import F

from gpuaas.core.errors import Conflict, Invalid
from gpuaas.lifecycle.allowed import Verb
from gpuaas.lifecycle.lease import lease_extend
from gpuaas.providers.base import Change
from gpuaas.workspaces.amounts import StorageItem, amounts_of, storage_items, storage_sum, words_of
from gpuaas.workspaces.holdings import storage_confirmed, storage_wanted
from gpuaas.workspaces.models import Workspace, WorkspaceFlavor, WorkspaceStorage
from gpuaas.workspaces.selectors import resize_waits
from gpuaas.workspaces.services.rows import (
    HOLDER,
    WORKSPACE,
    operation_begin,
    operation_end,
    workspace_wake,
)
from gpuaas.workspaces.services.validation import (
    FlavorItem,
    held_by,
    items_resolve,
    storage_resolve,
    storage_validate,
)
from gpuaas.workspaces.states import WorkspaceState
from quotas.holds import holds_refuse
from quotas.services import reservation_grow
from tenants.actors import Actor
from tenants.audit import audit_record


@transaction.atomic
def workspace_resize(
    *,
    actor: Actor,
    workspace: Workspace,
    items: Sequence[tuple[str, int]] | None = None,
    storage_gib: int | None = None,
    storage_classes: Sequence[tuple[str, int]] | None = None,
    expected_version: int | None = None,
) -> Workspace:
    """Requests exactly what is given from now on; None: as it is. An increase is reserved now, a decrease is released once confirmed.

    Also after a failed resize, as the way back, and while a decrease only waits for pods to end: it is taken back.
    Any other running resize has to finish first: of several requests at once, one wins.
    """
    row = WORKSPACE.asked(actor, workspace, Verb.RESIZE, expected_version)
    _other_resize_refuse(row)
    old = {item.flavor: item.count for item in row.flavors.select_related("flavor__pool") if item.count}
    plain = row.storage_gib if storage_gib is None else storage_validate(storage_gib)
    held, classes = held_by(row), storage_items(row)
    asked = [(flavor.slug, count) for flavor, count in old.items()] if items is None else items
    wanted = items_resolve(asked, held=held, storage_gib=plain)
    new = classes if storage_classes is None else storage_resolve(storage_classes, site=row.site, held=held)
    if old == dict(wanted) and plain == row.storage_gib and dict(new) == dict(classes):
        raise Invalid.field("items", "the workspace already has exactly this")
    before = _sizes(list(old.items()), row.storage_gib, classes)
    _counts_write(row, wanted)
    _storage_write(row, new)
    operation_end(row, "replaced by another resize")
    words = words_of(wanted, storage_gib=plain, storage=new)
    admission = f"reserved for {words}"
    operation_begin(row, actor, Change.RESIZE, summary=words, admission=admission, storage_gib=plain)
    _audit_resize(actor, row, before, _sizes(wanted, plain, new))
    workspace_wake(row)
    amounts = amounts_of(wanted, storage_gib=storage_sum(plain, new))
    reservation_grow(holder_kind=HOLDER, holder_id=row.pk, amounts=amounts)
    return row


def _other_resize_refuse(row: Workspace) -> None:
    if row.state == WorkspaceState.RESIZING and not resize_waits(workspace=row):
        raise Conflict(
            "another resize is running: try again when it is done, or when it only waits for pods to end",
            detail={"state": row.state},
        )


def _audit_resize(actor: Actor, row: Workspace, before: dict[str, Any], after: dict[str, Any]) -> None:
    action = "workspace.resize"
    audit_record(actor=actor, action=action, target=row, project=row.project, before=before, after=after)


def _sizes(items: Sequence[FlavorItem], storage_gib: int, storage: Sequence[StorageItem]) -> dict[str, Any]:
    return {
        "items": {flavor.slug: count for flavor, count in items},
        "storage_gib": storage_gib,
        "storage_classes": {storage_class.slug: gib for storage_class, gib in storage},
    }


def _storage_write(row: Workspace, wanted: list[StorageItem]) -> None:
    """As with flavors: a class that is no longer wanted stays with 0."""
    row.storage.exclude(storage_class__in=[storage_class.pk for storage_class, _ in wanted]).update(gib=0)
    WorkspaceStorage.objects.bulk_create(
        [
            WorkspaceStorage(workspace=row, storage_class=storage_class, gib=gib)
            for storage_class, gib in wanted
        ],
        update_conflicts=True,
        unique_fields=["workspace", "storage_class"],
        update_fields=["gib"],
    )


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
    """Retries a failed creation, resize or resumption; what was reserved is still held. Raises OnHold where it would bring back or
    add what a hold refuses."""
    row = WORKSPACE.asked(actor, workspace, Verb.RETRY, expected_version)
    if _adds(row):
        holds_refuse(project=row.project, holder_id=row.pk)
    before = {"failure": row.failure}
    items = [(item.flavor, item.count) for item in row.flavors.select_related("flavor") if item.count]
    words = words_of(items, storage_gib=row.storage_gib, storage=storage_items(row))
    operation_begin(
        row,
        actor,
        _tried(row),
        reason="retried",
        summary=words,
        admission="still reserved from the first attempt",
    )
    WORKSPACE.audit(row, actor, "retry", before=before)
    workspace_wake(row)
    return row


def _adds(failed: Workspace) -> bool:
    """Whether it would have more than the site has confirmed."""
    if _tried(failed) is not Change.RESIZE:
        return True
    wanted, had = storage_wanted(failed), storage_confirmed(failed)
    more = any(gib > had.get(key, 0) for key, gib in wanted.items())
    return more or failed.flavors.filter(count__gt=F("confirmed")).exists()


def _tried(failed: Workspace) -> Change:
    """What it was doing when it failed."""
    if failed.suspended_at is not None:
        return Change.RESUME
    return Change.CREATE if failed.ready_at is None else Change.RESIZE


def workspace_extend(
    *, actor: Actor, workspace: Workspace, lease_ends_at: datetime, expected_version: int | None = None
) -> Workspace:
    """A later end of the lease, at most 365 days from now."""
    return lease_extend(WORKSPACE, actor, workspace, ends_at=lease_ends_at, expected_version=expected_version)


def workspace_delete(
    *, actor: Actor, workspace: Workspace, expected_version: int | None = None, reason: str = ""
) -> Workspace:
    """Starts the deletion, from any live state; a running operation ends. Repeating it changes nothing."""
    return WORKSPACE.take_down(actor, workspace, Verb.DELETE, expected_version, reason)
