"""What a workspace holds, by the columns that its holdings have."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from uuid import UUID

from gpuaas.catalog.models import Flavor
from gpuaas.lifecycle import holdings
from gpuaas.workspaces.models import Workspace

# GiB by storage class; None: plain storage
Storage = Mapping[UUID | None, int]


def holdings_set(
    *, workspace: Workspace, items: Iterable[tuple[Flavor, int]], storage: Storage, at: datetime
) -> None:
    """Sets the holdings from `at` on to exactly this. What is lent is held by nobody: what runs of it is metered as allocated."""
    wanted: Counter[tuple[str, UUID | None]] = Counter()
    for flavor, count in items:
        if flavor.is_lent:
            continue
        wanted[holdings.GPU_HELD, flavor.pk] += flavor.gpus * count
        wanted[holdings.VCPU_HELD, None] += flavor.vcpus * count
        wanted[holdings.MEMORY_HELD, None] += flavor.memory_gib * count
    wanted[holdings.STORAGE_HELD, None] += storage.get(None, 0)
    holdings.holdings_rotate(
        workspace.holdings.all(), ("meter", "flavor_id"), wanted, at=at, workspace=workspace
    )
    classes = Counter({(holdings.STORAGE_HELD, key): gib for key, gib in storage.items() if key is not None})
    columns = ("meter", "storage_class_id")
    holdings.holdings_rotate(workspace.storage_holdings.all(), columns, classes, at=at, workspace=workspace)


def holdings_end(*, workspace: Workspace, at: datetime) -> None:
    holdings.holdings_close(workspace.holdings.all(), at=at)
    holdings.holdings_close(workspace.storage_holdings.all(), at=at)


def storage_held(workspace: Workspace) -> int:
    """The plain storage that the site last confirmed."""
    rows = workspace.holdings.filter(ended_at__isnull=True, meter=holdings.STORAGE_HELD)
    return rows.values_list("quantity", flat=True).first() or 0


def storage_wanted(workspace: Workspace) -> dict[UUID | None, int]:
    found: dict[UUID | None, int] = {row.storage_class_id: row.gib for row in workspace.storage.all()}
    return {None: workspace.storage_gib, **found}


def storage_confirmed(workspace: Workspace) -> dict[UUID | None, int]:
    found: dict[UUID | None, int] = {row.storage_class_id: row.confirmed for row in workspace.storage.all()}
    return {None: storage_held(workspace), **found}
