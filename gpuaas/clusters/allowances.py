"""What each cluster that lives in one namespace of a site may hold there: what the warden measures against."""

import uuid
from collections.abc import Iterable, Mapping

from gpuaas.catalog.models import GpuPool
from gpuaas.clusters.models import Cluster, ClusterPool
from gpuaas.clusters.spec import is_asleep
from gpuaas.clusters.states import LIVE, ClusterState
from gpuaas.providers.base import ClusterNamespaceCapability, ClusterRef
from gpuaas.providers.registry import cluster_driver_class
from quotas.allowances import Allowance, is_over_quota

# the site enforces nothing but what the database says; in all other states it may be a step behind or ahead
SETTLED = frozenset({ClusterState.READY, ClusterState.SUSPENDED})
Amounts = dict[str, int]


def allowances_at(*, site_id: uuid.UUID, ids: Iterable[uuid.UUID] | None = None) -> dict[str, Allowance]:
    """By the name of the namespace, of all that live there (or those asked for); 3 queries, whatever their number. Clusters with
    machines of their own are not among them: their machines are their bound."""
    rows = Cluster.objects.filter(site_id=site_id, state__in=LIVE).order_by()
    if ids is not None:
        rows = rows.filter(pk__in=list(ids))
    found = {row.pk: row for row in rows.select_related("template_version__template") if _space(row)}
    if not found:
        return {}
    names = GpuPool.objects.filter(site_id=site_id).order_by().values_list("resource_name", flat=True)
    nothing, bought = dict.fromkeys(names, 0), _bought(site_id, found)
    allowed = (_allowance(row, nothing, bought.get(key, {})) for key, row in found.items())
    return {each.external_name: each for each in allowed}


def _bought(site_id: uuid.UUID, clusters: Iterable[uuid.UUID]) -> dict[uuid.UUID, Amounts]:
    """By their pools there; those at burst sites are not in the namespace."""
    pools = ClusterPool.objects.filter(cluster__in=list(clusters), flavor__pool__site_id=site_id).order_by()
    columns = ("cluster_id", "flavor__pool__resource_name", "flavor__gpus", "count", "confirmed")
    found: dict[uuid.UUID, Amounts] = {}
    for cluster_id, name, gpus, count, confirmed in pools.values_list(*columns):
        held = found.setdefault(cluster_id, {})
        held[name] = held.get(name, 0) + gpus * max(count, confirmed)
    return found


def _space(row: Cluster) -> str:
    driver = cluster_driver_class(row.template_version.template.driver)
    if not issubclass(driver, ClusterNamespaceCapability):
        return ""
    return driver.namespace(ClusterRef(row.pk, row.external_name))


def _allowance(row: Cluster, nothing: Mapping[str, int], bought: Mapping[str, int]) -> Allowance:
    if is_asleep(row) and row.state != ClusterState.SUSPENDING:
        bought = dict.fromkeys(bought, 0)
    return Allowance(
        holder_id=row.pk,
        external_name=_space(row),
        limits={**nothing, **bought},
        settled=row.state in SETTLED,
        over_quota=is_over_quota(row.conditions),
    )
