"""The allowance of each workspace of a site, by the resource names that the site counts: the warden's measure."""

import uuid
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from gpuaas.workspaces.models import Workspace, WorkspaceFlavor
from gpuaas.workspaces.states import LIVE, WorkspaceState
from quotas.allowances import Allowance, bought_of, is_over_quota, nothing_at

# the site enforces nothing but what the database says; in all other states it may be a step behind or ahead
SETTLED = frozenset({WorkspaceState.READY, WorkspaceState.SUSPENDED})


def allowances_at(*, site_id: uuid.UUID, ids: Iterable[uuid.UUID] | None = None) -> dict[str, Allowance]:
    """By name at the site, for all that exist there (or the given ones); 3 queries, whatever their number."""
    rows = Workspace.objects.filter(site_id=site_id, state__in=LIVE).order_by()
    if ids is not None:
        rows = rows.filter(pk__in=list(ids))
    nothing = nothing_at(site_id)
    workspaces = list(rows.only("pk", "name", "adopted_name", "state", "ready_at", "conditions"))
    bought = bought_of(WorkspaceFlavor.objects.filter(workspace__in=workspaces), "workspace")
    return {row.external_name: _allowance(row, nothing, bought.get(row.pk, {})) for row in workspaces}


def over_quota(workspace: Workspace) -> bool:
    """Whether the warden has found a surplus that is not resolved yet."""
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
