"""What the warden does to a workspace that holds more than it bought: written down before, and once it is done."""

import uuid
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db import transaction

from gpuaas.core.conditions import Status, condition_set
from gpuaas.core.errors import NotFound
from gpuaas.workspaces.models import Eviction, Workspace
from gpuaas.workspaces.services.rows import workspace_announce, workspace_lock
from quotas.allowances import WITHIN_QUOTA, Surplus, is_over_quota
from tenants.actors import SYSTEM
from tenants.audit import audit_record


def eviction_record(*, holder_id: uuid.UUID, found: Sequence[Surplus], seen_at: datetime) -> None:
    """Before anything is removed, so that usage is marked whatever happens next. Again changes nothing."""
    with transaction.atomic():
        workspace = workspace_lock(workspace_id=holder_id)
        rows = [_row(workspace, each, seen_at) for each in found]
        known = set(
            Eviction.objects.filter(
                workspace=workspace, consumer_uid__in=[row.consumer_uid for row in rows]
            ).values_list("consumer_uid", "resource_name")
        )
        for row in rows:
            if (row.consumer_uid, row.resource_name) not in known:
                row.save(force_insert=True)
                audit_record(
                    actor=SYSTEM,
                    action="workspace.evict",
                    target=workspace,
                    project=workspace.project,
                    after=_audited(row),
                )
        first = found[0]
        words = f"it holds {first.held} × {first.resource_name} and may hold {first.limit}"
        _condition(workspace, Status.FALSE, "Surplus", f"{words}; the newest consumers are removed", seen_at)


def eviction_done(*, holder_id: uuid.UUID, consumer_uid: str, removed_at: datetime) -> None:
    """The site has removed it. Not called for one that was gone already: it went by itself."""
    rows = Eviction.objects.filter(workspace_id=holder_id, consumer_uid=consumer_uid, removed_at=None)
    rows.update(removed_at=removed_at)


def within_quota_note(*, holder_id: uuid.UUID, now: datetime) -> bool:
    """It holds no more than it may; False where nothing else was said of it, or it is gone."""
    with transaction.atomic():
        try:
            workspace = workspace_lock(workspace_id=holder_id)
        except NotFound:
            return False
        if not is_over_quota(workspace.conditions):
            return False
        removed = Eviction.objects.filter(workspace=workspace, removed_at__isnull=False).count()
        message = f"it holds no more than it may; consumers removed so far: {removed}"
        _condition(workspace, Status.TRUE, "Restored", message, now)
    return True


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


def _condition(workspace: Workspace, status: Status, reason: str, message: str, now: datetime) -> None:
    workspace.conditions = condition_set(
        workspace.conditions, type=WITHIN_QUOTA, status=status, reason=reason, message=message, now=now
    )
    workspace.save(update_fields=["conditions"])
    workspace_announce(workspace)
