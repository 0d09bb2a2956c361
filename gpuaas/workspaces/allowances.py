"""What each workspace of a site may hold, by the names that the site counts: what the warden measures against."""

import uuid
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from gpuaas.catalog.models import GpuPool
from gpuaas.workspaces.models import Workspace, WorkspaceFlavor
from gpuaas.workspaces.states import LIVE, WorkspaceState
from quotas.allowances import Allowance, is_over_quota

# the site enforces nothing but what the database says; in all other states it may be a step behind or ahead
SETTLED = frozenset({WorkspaceState.READY, WorkspaceState.SUSPENDED})


def allowances_at(*, site_id: uuid.UUID, ids: Iterable[uuid.UUID] | None = None) -> dict[str, Allowance]:
    """By name at the site, of all that live there (or those asked for); 3 queries, whatever their number."""
    rows = Workspace.objects.filter(site_id=site_id, state__in=LIVE).order_by()
    if ids is not None:
        rows = rows.filter(pk__in=list(ids))
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
    return is_over_quota(workspace.conditions)


def _allowance(row: Workspace, nothing: Mapping[str, int], bought: Mapping[str, int]) -> Allowance:
    if row.state == WorkspaceState.SUSPENDED:
        bought = dict.fromkeys(bought, 0)
    return Allowance(
        holder_id=row.pk,
        external_name=row.external_name,
        limits={**nothing, **bought},
        settled=row.state in SETTLED,
        older_than=(row.ready_at or datetime.max.replace(tzinfo=UTC)) if row.adopted_name else None,
        over_quota=over_quota(row),
    )
