"""What is held now and goes on costing until its lease ends: workspaces and clusters, by the names that charts give them."""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from billing.selectors import Price
from frontend.presenters.money import Coming, cluster_name
from frontend.presenters.workspaces import per_hour_of
from gpuaas.clusters.models import Cluster
from gpuaas.metering.models import Meter
from gpuaas.workspaces.models import Workspace

Prices = Mapping[tuple[Any, Meter], Price]


def coming_of(
    workspaces: Iterable[Workspace], clusters: Iterable[Cluster], prices: Prices
) -> dict[str, Coming]:
    """What each of them costs from here on; those without a price are left out. Clusters as `clusters_holding` has them."""
    known = {row.name: (per_hour_of(row, prices), row.lease_ends_at) for row in workspaces if row.ready_at}
    known |= {cluster_name(row.name): (_of_cluster(row, prices), row.lease_ends_at) for row in clusters}
    return {name: Coming(each, until) for name, (each, until) in known.items() if each}


def _of_cluster(row: Cluster, prices: Prices) -> Decimal | None:
    """By what it holds at this moment, so asleep its control plane alone; None while a price of its GPUs is missing."""
    total = Decimal(0)
    for held in row.holdings.all():
        price = prices.get((held.flavor_id, Meter(held.meter)))
        if price is None and held.flavor_id is not None:
            return None
        total += price.per_hour * held.quantity if price else 0
    return total
