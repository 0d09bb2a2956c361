"""Holdings of a cluster: rotated when the site has confirmed, ended when a sweep has proved that everything is gone."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from gpuaas.catalog.models import Flavor
from gpuaas.clusters.models import Cluster, ClusterHolding
from gpuaas.clusters.spec import Takes, burst_site
from gpuaas.core.clock import whole_second
from gpuaas.lifecycle import holdings
from quotas.resources import MEMORY, STORAGE, VCPU
from tenants.models import Project

METERS = {VCPU: holdings.VCPU_HELD, MEMORY: holdings.MEMORY_HELD, STORAGE: holdings.STORAGE_HELD}

Key = tuple[UUID | None, str, UUID | None]  # burst site, meter, flavor


def holdings_set(
    *, cluster: Cluster, items: Iterable[tuple[Flavor, int]], takes: Takes, at: datetime
) -> None:
    """Sets the holdings from `at` on to exactly this. `takes` is the total, with GPUs by flavor in `items`."""
    wanted: Counter[Key] = Counter()
    for flavor, count in items:
        site = burst_site(cluster, flavor)
        wanted[site.pk if site else None, holdings.GPU_HELD, flavor.pk] += flavor.gpus * count
    placed: dict[UUID | None, dict[str, int]] = {None: takes.home}
    placed |= {site.pk: amounts for site, amounts in takes.elsewhere.items()}
    for site_id, amounts in placed.items():
        for resource, meter in METERS.items():
            wanted[site_id, meter, None] += amounts.get(resource, 0)
    columns = ("site_id", "meter", "flavor_id")
    owner = {"cluster": cluster, "project_id": cluster.project_id}
    holdings.holdings_rotate(cluster.holdings.all(), columns, wanted, at=at, **owner)


def holdings_end(*, cluster: Cluster, at: datetime) -> None:
    holdings.holdings_close(cluster.holdings.all(), at=at)


def holdings_move(*, cluster: Cluster, project: Project, at: datetime) -> None:
    """From `at` on another project holds the same: each row ends in the second in which its successor starts."""
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
    holdings.holdings_write(ended, begun, whole_second(at))


def holdings_end_at(*, cluster: Cluster, site_id: UUID | None, at: datetime) -> None:
    """What is held at one of its sites."""
    holdings.holdings_close(cluster.holdings.filter(site=site_id), at=at)
