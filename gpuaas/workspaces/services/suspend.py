"""Suspending and resuming a workspace: nothing runs and no GPU is held, while data and access stay."""

from dataclasses import replace
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import F

from gpuaas.core import clock
from gpuaas.core.conditions import Status, Stored, condition_set
from gpuaas.lifecycle.allowed import Verb
from gpuaas.lifecycle.lease import resumable_require
from gpuaas.providers.base import Change
from gpuaas.workspaces.amounts import amounts_of, storage_items, storage_sum, words_of
from gpuaas.workspaces.holdings import storage_held
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services.rows import (
    HOLDER,
    SUSPENDED,
    WORKSPACE,
    operation_begin,
)
from gpuaas.workspaces.states import WorkspaceState
from quotas.holds import hold_on, holds_refuse
from quotas.selectors import Preview, admission_preview, reservations_held
from quotas.services import reservation_grow, reservation_reserve
from tenants.actors import Actor


def workspace_suspend(
    *, actor: Actor, workspace: Workspace, expected_version: int | None = None, reason: str = ""
) -> Workspace:
    """Stops everything that runs and releases its GPUs; storage, objects and access stay. Repeating it changes
    nothing.

    Pods without an owner do not come back. A failed resize is dropped, and one under way by the portal: it resumes with the GPUs that
    it had before. Shared storage that the site has given already stays.
    """
    first = partial(_put_down, actor=actor, reason=reason)
    return WORKSPACE.take_down(actor, workspace, Verb.SUSPEND, expected_version, reason, first)


def _put_down(row: Workspace, actor: Actor, reason: str) -> dict[str, Any]:
    if row.state in {WorkspaceState.FAILED, WorkspaceState.RESIZING} and row.suspended_at is None:
        row.flavors.update(count=F("confirmed"))
        row.storage.update(gib=F("confirmed"))
        row.storage_gib = storage_held(row)
    return {"storage_gib": row.storage_gib, "conditions": _told(row, actor, reason)}


def _told(row: Workspace, actor: Actor, reason: str) -> Stored:
    return condition_set(
        row.conditions,
        type=SUSPENDED,
        status=Status.TRUE,
        reason="Asked" if actor.user_id else "ByPortal",
        message=f"suspended by {actor.name}" + (f": {reason}" if reason else ""),
        remedy="Resume it when its GPUs are needed again.",
        now=clock.now(),
    )


@transaction.atomic
def workspace_resume(
    *, actor: Actor, workspace: Workspace, expected_version: int | None = None, reason: str = ""
) -> Workspace:
    """Reserves its GPUs again and restores what ran. If that is refused, it stays suspended.

    Also while it is being suspended. Repeating it changes nothing.
    """
    row = WORKSPACE.asked(actor, workspace, Verb.RESUME, expected_version)
    if WORKSPACE.is_already(row, Verb.RESUME):
        return row
    resumable_require(row, takes_new=row.site.enabled)
    rows = row.flavors.select_related("flavor__pool__gpu_type")
    items = [(item.flavor, item.count) for item in rows if item.count]
    classes = storage_items(row)
    words = words_of(items, storage_gib=row.storage_gib, storage=classes)
    with WORKSPACE.changing(row, actor, "resume", ended="ended by the resumption"):
        summary, admission = reason or words, f"reserved {words}"
        operation_begin(row, actor, Change.RESUME, summary=summary, admission=admission, reason=reason)
    _reserve_anew(row, amounts_of(items, storage_gib=storage_sum(row.storage_gib, classes)))
    return row


def resume_preview(*, workspace: Workspace) -> Preview:
    """What admission would answer now to waking it, beyond what it holds; reserves nothing."""
    rows = workspace.flavors.select_related("flavor__pool__gpu_type")
    items = [(item.flavor, item.count) for item in rows if item.count]
    storage_gib = storage_sum(workspace.storage_gib, storage_items(workspace))
    wanted = amounts_of(items, storage_gib=storage_gib)
    held = reservations_held(holder_kind=HOLDER, holder_id=workspace.pk)
    found = admission_preview(
        project=workspace.project,
        site=workspace.site,
        amounts={name: amount - held.get(name, 0) for name, amount in wanted.items()},
        holder_id=workspace.pk,
    )
    hold = None if found.checks else hold_on(project=workspace.project, holder_id=workspace.pk)
    return replace(found, hold=hold.reason) if hold else found


def _reserve_anew(row: Workspace, amounts: dict[str, int]) -> None:
    """One without storage held nothing while it was suspended; one that is still falling asleep holds all of it, and a hold refuses
    that as well."""
    holds_refuse(project=row.project, holder_id=row.pk)
    if reservations_held(holder_kind=HOLDER, holder_id=row.pk):
        reservation_grow(holder_kind=HOLDER, holder_id=row.pk, amounts=amounts)
        return
    reservation_reserve(
        holder_kind=HOLDER, holder_id=row.pk, project=row.project, site=row.site, amounts=amounts
    )
