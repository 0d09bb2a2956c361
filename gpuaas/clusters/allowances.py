"""The allowance of each cluster that runs in one namespace of a site: the warden's measure."""

import uuid
from collections.abc import Iterable, Mapping

from gpuaas.clusters.models import Cluster, ClusterPool
from gpuaas.clusters.spec import is_asleep
from gpuaas.clusters.states import LIVE, ClusterState
from gpuaas.providers.base import ClusterNamespaceCapability, ClusterRef
from gpuaas.providers.registry import cluster_driver_class
from quotas.allowances import Allowance, bought_of, is_over_quota, nothing_at

# the site enforces nothing but what the database says; in all other states it may be a step behind or ahead
SETTLED = frozenset({ClusterState.READY, ClusterState.SUSPENDED})


def allowances_at(*, site_id: uuid.UUID, ids: Iterable[uuid.UUID] | None = None) -> dict[str, Allowance]:
    """By the name of the namespace, for all that exist there (or the given ones); 3 queries, whatever their number.
    Clusters with machines of their own are not included: their machines are their limit."""
    rows = Cluster.objects.filter(site_id=site_id, state__in=LIVE).order_by()
    if ids is not None:
        rows = rows.filter(pk__in=list(ids))
    clusters = {row.pk: row for row in rows.select_related("template_version__template") if _space(row)}
    if not clusters:
        return {}
    # pools at burst sites are not in the namespace
    pools = ClusterPool.objects.filter(cluster__in=list(clusters), flavor__pool__site_id=site_id)
    nothing, bought = nothing_at(site_id), bought_of(pools, "cluster")
    allowed = (_allowance(row, nothing, bought.get(key, {})) for key, row in clusters.items())
    return {each.external_name: each for each in allowed}


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
