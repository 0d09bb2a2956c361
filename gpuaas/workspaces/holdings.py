"""What a workspace holds, from when to when: opened and rotated when the site has confirmed, ended when it is over."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from uuid import UUID

from gpuaas.catalog.models import Flavor
from gpuaas.core.clock import whole_second
from gpuaas.core.queue import poke
from gpuaas.workspaces.models import Holding, Workspace

GPU_HELD = "gpu_held"
VCPU_HELD = "vcpu_held"
MEMORY_HELD = "memory_held"
STORAGE_HELD = "storage_held"

Key = tuple[str, UUID | None]


def holdings_set(
    *, workspace: Workspace, items: Iterable[tuple[Flavor, int]], storage_gib: int, at: datetime
) -> None:
    """From `at` on exactly this; what already is so stays open, so an unchanged flavor is one long interval."""
    moment = whole_second(at)
    wanted: Counter[Key] = Counter()
    for flavor, count in items:
        wanted[GPU_HELD, flavor.pk] += flavor.gpus * count
        wanted[VCPU_HELD, None] += flavor.vcpus * count
        wanted[MEMORY_HELD, None] += flavor.memory_gib * count
    wanted[STORAGE_HELD, None] += storage_gib
    ended = []
    for row in workspace.holdings.filter(ended_at__isnull=True):
        key = (row.meter, row.flavor_id)
        if wanted[key] == row.quantity:
            del wanted[key]
        else:
            ended.append(row)
    begun = [
        Holding(workspace=workspace, meter=meter, flavor_id=flavor, quantity=quantity, started_at=moment)
        for (meter, flavor), quantity in wanted.items()
        if quantity
    ]
    _write(ended, begun, moment)


def holdings_end(*, workspace: Workspace, at: datetime) -> None:
    _write(list(workspace.holdings.filter(ended_at__isnull=True)), [], whole_second(at))


def storage_held(workspace: Workspace) -> int:
    """The storage that the site last confirmed."""
    rows = workspace.holdings.filter(ended_at__isnull=True, meter=STORAGE_HELD)
    return rows.values_list("quantity", flat=True).first() or 0


def _write(ended: Sequence[Holding], begun: Sequence[Holding], moment: datetime) -> None:
    """Costs follow at once; where the poke is lost the metering's own round finds the rows."""
    for row in ended:
        row.ended_at = max(moment, row.started_at)
        row.save(update_fields=["ended_at"])
    Holding.objects.bulk_create(begun)
    if ended or begun:
        poke("metering.held_sync")
