"""What a cluster holds, from when to when: rotated when the site has confirmed, ended when a sweep has proved that all is gone."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from uuid import UUID

from gpuaas.catalog.models import Flavor
from gpuaas.clusters.models import Cluster, ClusterHolding
from gpuaas.clusters.spec import Takes, burst_site
from gpuaas.core.clock import whole_second
from gpuaas.core.queue import poke
from quotas.resources import MEMORY, STORAGE, VCPU
from tenants.models import Project

METERS = {VCPU: "vcpu_held", MEMORY: "memory_held", STORAGE: "storage_held"}
GPU_HELD = "gpu_held"

Key = tuple[UUID | None, str, UUID | None]  # burst site, meter, flavor


def holdings_set(
    *, cluster: Cluster, items: Iterable[tuple[Flavor, int]], takes: Takes, at: datetime
) -> None:
    """From `at` on exactly this; what already is so stays open. `takes` is all that is held, GPUs by flavor in `items`."""
    moment = whole_second(at)
    wanted: Counter[Key] = Counter()
    for flavor, count in items:
        site = burst_site(cluster, flavor)
        wanted[site.pk if site else None, GPU_HELD, flavor.pk] += flavor.gpus * count
    placed: dict[UUID | None, dict[str, int]] = {None: takes.home}
    placed |= {site.pk: amounts for site, amounts in takes.elsewhere.items()}
    for site_id, amounts in placed.items():
        for resource, meter in METERS.items():
            wanted[site_id, meter, None] += amounts.get(resource, 0)
    ended = []
    for row in cluster.holdings.filter(ended_at__isnull=True):
        key = (row.site_id, row.meter, row.flavor_id)
        if wanted[key] == row.quantity:
            del wanted[key]
        else:
            ended.append(row)
    begun = [
        ClusterHolding(
            cluster=cluster,
            project_id=cluster.project_id,
            site_id=site_id,
            meter=meter,
            flavor_id=flavor,
            quantity=quantity,
            started_at=moment,
        )
        for (site_id, meter, flavor), quantity in wanted.items()
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
            site_id=row.site_id,
            meter=row.meter,
            flavor_id=row.flavor_id,
            quantity=row.quantity,
            started_at=max(whole_second(at), row.started_at),
        )
        for row in ended
    ]
    _write(ended, begun, whole_second(at))


def holdings_end_at(*, cluster: Cluster, site_id: UUID | None, at: datetime) -> None:
    """What is held at one of its sites."""
    rows = cluster.holdings.filter(ended_at__isnull=True, site=site_id)
    _write(list(rows), [], whole_second(at))


def _write(ended: Sequence[ClusterHolding], begun: Sequence[ClusterHolding], moment: datetime) -> None:
    """Costs follow at once; where the poke is lost the metering's own round finds the rows."""
    for row in ended:
        row.ended_at = max(moment, row.started_at)
        row.save(update_fields=["ended_at"])
    ClusterHolding.objects.bulk_create(begun)
    if ended or begun:
        poke("metering.held_sync")
