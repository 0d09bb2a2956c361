"""What each workspace of a site may hold, by the names that the site counts: what the warden measures against."""

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from gpuaas.catalog.models import GpuPool
from gpuaas.core.conditions import Status
from gpuaas.providers.base import WorkspaceRef
from gpuaas.workspaces.models import Workspace, WorkspaceFlavor
from gpuaas.workspaces.states import LIVE, WorkspaceState

WITHIN_QUOTA = "WithinQuota"  # the condition that the warden writes
# the site enforces nothing but what the database says; in all other states it may be a step behind or ahead
SETTLED = frozenset({WorkspaceState.READY, WorkspaceState.SUSPENDED})


@dataclass(frozen=True)
class Allowance:
    """limits: devices by resource name, 0 for every name of the site that was not bought; others are not limited.

    settled=False: a change is under way, and what the site enforces counts too where it is more. `older_than`: of a
    workspace that was taken over, what was there before that moment stays, however much it is. `over_quota`: so its
    condition says.
    """

    workspace_id: uuid.UUID
    external_name: str
    limits: Mapping[str, int]
    settled: bool = True
    older_than: datetime | None = None
    over_quota: bool = False

    @property
    def ref(self) -> WorkspaceRef:
        return WorkspaceRef(self.workspace_id, self.external_name)


def allowances_at(
    *, site_id: uuid.UUID, workspace_ids: Iterable[uuid.UUID] | None = None
) -> dict[str, Allowance]:
    """By name at the site, of all that live there (or those asked for); 3 queries, whatever their number."""
    rows = Workspace.objects.filter(site_id=site_id, state__in=LIVE).order_by()
    if workspace_ids is not None:
        rows = rows.filter(pk__in=list(workspace_ids))
    names = GpuPool.objects.filter(site_id=site_id).order_by().values_list("resource_name", flat=True)
    nothing = dict.fromkeys(names, 0)
    bought: dict[uuid.UUID, dict[str, int]] = {}
    found = list(rows.only("pk", "name", "adopted_name", "state", "ready_at", "conditions"))
    sold = WorkspaceFlavor.objects.filter(workspace__in=found).order_by()
    columns = ("workspace_id", "flavor__pool__resource_name", "flavor__gpus", "count", "confirmed")
    for workspace_id, name, gpus, count, confirmed in sold.values_list(*columns):
        held = bought.setdefault(workspace_id, {})
        held[name] = held.get(name, 0) + gpus * max(count, confirmed)
    return {row.external_name: _allowance(row, nothing, bought.get(row.pk, {})) for row in found}


def over_quota(workspace: Workspace) -> bool:
    """So the warden has found, and has not taken it back yet."""
    return bool(workspace.conditions.get(WITHIN_QUOTA, {}).get("status") == Status.FALSE)


def _allowance(row: Workspace, nothing: Mapping[str, int], bought: Mapping[str, int]) -> Allowance:
    if row.state == WorkspaceState.SUSPENDED:
        bought = dict.fromkeys(bought, 0)
    return Allowance(
        workspace_id=row.pk,
        external_name=row.external_name,
        limits={**nothing, **bought},
        settled=row.state in SETTLED,
        older_than=(row.ready_at or datetime.max.replace(tzinfo=UTC)) if row.adopted_name else None,
        over_quota=over_quota(row),
    )
