"""The warden's writes for a workspace that holds more than it bought: before a removal, and after it."""

import uuid
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db import transaction

from gpuaas.lifecycle.kind import conditions_write
from gpuaas.workspaces.models import Eviction, Workspace
from gpuaas.workspaces.services.rows import WORKSPACE, workspace_lock
from quotas.allowances import Surplus, over_quota, quota_restored_note
from tenants.actors import SYSTEM


def eviction_record(*, holder_id: uuid.UUID, found: Sequence[Surplus], seen_at: datetime) -> None:
    """Before anything is removed, so that usage is marked whatever happens next. Repeating it changes nothing."""
    with transaction.atomic():
        workspace = workspace_lock(holder_id)
        rows = [_row(workspace, each, seen_at) for each in found]
        known = set(
            Eviction.objects.filter(
                workspace=workspace, consumer_uid__in=[row.consumer_uid for row in rows]
            ).values_list("consumer_uid", "resource_name")
        )
        new = [row for row in rows if (row.consumer_uid, row.resource_name) not in known]
        for row in new:
            row.save(force_insert=True)
            WORKSPACE.audit(workspace, SYSTEM, "evict", after=_audited(row))
        first = found[0]
        words = f"it holds {first.held} × {first.resource_name}; its limit is {first.limit}"
        if conditions_write(workspace, over_quota(f"{words}; the newest consumers are removed")) or new:
            WORKSPACE.announce(workspace)


def eviction_done(*, holder_id: uuid.UUID, consumer_uid: str, removed_at: datetime) -> None:
    """The site has removed it. Not called for one that was already gone: it ended on its own."""
    rows = Eviction.objects.filter(workspace_id=holder_id, consumer_uid=consumer_uid, removed_at=None)
    rows.update(removed_at=removed_at)


def within_quota_note(*, holder_id: uuid.UUID) -> bool:
    """It is within its allowance; False if the condition already said so, or if the workspace is gone."""
    return quota_restored_note(WORKSPACE, holder_id, _removed)


def _removed(workspace: Workspace) -> str:
    count = Eviction.objects.filter(workspace=workspace, removed_at__isnull=False).count()
    return f"consumers removed so far: {count}"


def _row(workspace: Workspace, found: Surplus, seen_at: datetime) -> Eviction:
    return Eviction(
        workspace=workspace,
        consumer_uid=found.consumer.uid,
        consumer_name=found.consumer.name,
        resource_name=found.resource_name,
        quantity=found.quantity,
        limit=found.limit,
        held=found.held,
        started_at=found.consumer.started_at or seen_at,
        seen_at=seen_at,
    )


def _audited(row: Eviction) -> dict[str, Any]:
    keys = ("consumer_name", "resource_name", "quantity", "limit", "held")
    return {key: getattr(row, key) for key in keys}
