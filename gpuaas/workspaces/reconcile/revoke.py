"""Ending credentials at the site: urgent, so beside the reconciler and not behind it. Safe to run at any time."""

import uuid
from collections import defaultdict
from datetime import timedelta

import structlog
from django.db import transaction

from gpuaas.core import clock
from gpuaas.core.conditions import Status, condition_set
from gpuaas.core.errors import GpuaasError
from gpuaas.providers.base import AccessCapability, Member
from gpuaas.workspaces.grants import REVOCATION, grant_subject
from gpuaas.workspaces.models import AccessGrant, Workspace
from gpuaas.workspaces.services.rows import workspace_announce, workspace_lock
from gpuaas.workspaces.site import driver_of, outside_transaction
from gpuaas.workspaces.spec import ref_of
from gpuaas.workspaces.states import AccessRole

log = structlog.get_logger(__name__)
# when another worker tries again: this one died, or the site did not answer
AGAIN_AFTER = timedelta(seconds=15)


def revoke(workspace_id: uuid.UUID) -> None:
    """Everything that is due at one workspace; a failure is due again in 15 seconds."""
    outside_transaction()
    claimed = _claim(workspace_id)
    if not claimed:
        return
    workspace = Workspace.objects.select_related("site").get(pk=workspace_id)
    trouble = ""
    for subject, grants in claimed.items():
        try:
            driver = driver_of(workspace.site)
            if isinstance(driver, AccessCapability):
                driver.revoke_access(ref_of(workspace), Member(subject, subject, AccessRole.VIEW))
        except GpuaasError as error:
            log.warning("revocation_failed", workspace=str(workspace_id), reason=error.message)
            trouble = error.message
        else:
            rows = AccessGrant.objects.filter(pk__in=grants)
            rows.update(revoked_at=clock.now(), revoke_due_at=None)
    _tell(workspace_id, trouble)


@transaction.atomic
def _claim(workspace_id: uuid.UUID) -> dict[str, list[uuid.UUID]]:
    """What is due, by subject; claimed for a while."""
    moment = clock.now()
    due = AccessGrant.objects.filter(workspace=workspace_id, revoke_due_at__lte=moment)
    claimed: defaultdict[str, list[uuid.UUID]] = defaultdict(list)
    for grant in due.order_by("pk").select_for_update(skip_locked=True):
        claimed[grant_subject(grant)].append(grant.pk)
    taken = [pk for grants in claimed.values() for pk in grants]
    AccessGrant.objects.filter(pk__in=taken).update(revoke_due_at=moment + AGAIN_AFTER)
    return dict(claimed)


@transaction.atomic
def _tell(workspace_id: uuid.UUID, trouble: str) -> None:
    row = workspace_lock(workspace_id)
    stored = row.conditions
    if trouble and REVOCATION in stored:
        stored = condition_set(
            stored,
            type=REVOCATION,
            status=Status.FALSE,
            reason="SiteRefused",
            message=f"credentials could not be ended yet: {trouble}; the portal keeps retrying",
            now=clock.now(),
        )
    elif not row.grants.filter(revoke_due_at__isnull=False).exists():
        stored = {kind: held for kind, held in stored.items() if kind != REVOCATION}
    if stored != row.conditions:
        row.conditions = stored
        row.save(update_fields=["conditions"])
        workspace_announce(row)
