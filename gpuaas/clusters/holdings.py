"""What a cluster holds, from when to when: rotated when the site has confirmed, ended when a sweep has proved that all is gone."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from uuid import UUID

from gpuaas.catalog.models import Flavor
from gpuaas.clusters.models import Cluster, ClusterHolding
from gpuaas.core.clock import whole_second
from gpuaas.core.queue import poke
from quotas.resources import MEMORY, STORAGE, VCPU
from tenants.models import Project

METERS = {VCPU: "vcpu_held", MEMORY: "memory_held", STORAGE: "storage_held"}
GPU_HELD = "gpu_held"

Key = tuple[str, UUID | None]


def holdings_set(
    *, cluster: Cluster, items: Iterable[tuple[Flavor, int]], amounts: dict[str, int], at: datetime
) -> None:
    """From `at` on exactly this; what already is so stays open. `amounts` are all that is held, GPUs by flavor in `items`."""
    moment = whole_second(at)
    wanted: Counter[Key] = Counter()
    for flavor, count in items:
        wanted[GPU_HELD, flavor.pk] += flavor.gpus * count
    for resource, meter in METERS.items():
        wanted[meter, None] += amounts.get(resource, 0)
    ended = []
    for row in cluster.holdings.filter(ended_at__isnull=True):
        if wanted[row.meter, row.flavor_id] == row.quantity:
            del wanted[row.meter, row.flavor_id]
        else:
            ended.append(row)
    begun = [
        ClusterHolding(
            cluster=cluster,
            project_id=cluster.project_id,
            meter=meter,
            flavor_id=flavor,
            quantity=quantity,
            started_at=moment,
        )
        for (meter, flavor), quantity in wanted.items()
        if quantity
    ]
    _write(ended, begun, moment)


def holdings_end(*, cluster: Cluster, at: datetime) -> None:
    _write(list(cluster.holdings.filter(ended_at__isnull=True)), [], whole_second(at))


def holdings_move(*, cluster: Cluster, project: Project, at: datetime) -> None:
    """From `at` on another project holds the same: each row ends in the second in which its successor begins."""
    ended = list(cluster.holdings.filter(ended_at__isnull=True))
    begun = [
        ClusterHolding(
            cluster=cluster,
            project=project,
            meter=row.meter,
            flavor_id=row.flavor_id,
            quantity=row.quantity,
            started_at=max(whole_second(at), row.started_at),
        )
        for row in ended
    ]
    _write(ended, begun, whole_second(at))


def _write(ended: Sequence[ClusterHolding], begun: Sequence[ClusterHolding], moment: datetime) -> None:
    """Costs follow at once; where the poke is lost the metering's own round finds the rows."""
    for row in ended:
        row.ended_at = max(moment, row.started_at)
        row.save(update_fields=["ended_at"])
    ClusterHolding.objects.bulk_create(begun)
    if ended or begun:
        poke("metering.held_sync")
