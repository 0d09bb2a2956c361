"""Suspending and resuming a cluster: its workers are removed and no GPU is held, its control plane stays."""

from typing import Any

from django.db import transaction
from django.db.models import F

from gpuaas.clusters.models import Cluster
from gpuaas.clusters.services.changes import cluster_reserve
from gpuaas.clusters.services.order import words_of
from gpuaas.clusters.services.rows import (
    CLUSTER,
    driver_of,
    operation_begin,
)
from gpuaas.clusters.spec import pools_of
from gpuaas.clusters.states import ClusterState
from gpuaas.core.errors import Conflict
from gpuaas.lifecycle.allowed import Verb
from gpuaas.lifecycle.lease import resumable_require
from gpuaas.providers.base import Change
from tenants.actors import Actor


def cluster_suspend(
    *, actor: Actor, cluster: Cluster, expected_version: int | None = None, reason: str = ""
) -> Cluster:
    """Removes the workers and releases their GPUs. Repeating it changes nothing. A failed scaling is dropped, and one
    under way by the portal: it resumes with what it had before, and goes on with an upgrade."""
    return CLUSTER.take_down(actor, cluster, Verb.SUSPEND, expected_version, reason, _put_down)


def _put_down(row: Cluster) -> dict[str, Any]:
    if Change.SUSPEND not in driver_of(row).changes:
        raise Conflict("clusters of this template cannot be suspended")
    if row.state in {ClusterState.FAILED, ClusterState.SCALING} and row.suspended_at is None:
        row.pools.update(count=F("confirmed"))
    return {}


@transaction.atomic
def cluster_resume(
    *, actor: Actor, cluster: Cluster, expected_version: int | None = None, reason: str = ""
) -> Cluster:
    """Reserves its GPUs again and brings the workers back. If that is refused, it stays suspended."""
    row = CLUSTER.asked(actor, cluster, Verb.RESUME, expected_version)
    if CLUSTER.is_already(row, Verb.RESUME):
        return row
    pools = pools_of(row)
    sites = (row.site, *(pool.flavor.pool.site for pool in pools if pool.count))
    resumable_require(row, takes_new=all(site.takes_new for site in sites))
    words = words_of(pools)
    with CLUSTER.changing(row, actor, "resume"):
        summary, admission = reason or words, f"reserved {words}"
        operation_begin(row, actor, Change.RESUME, summary=summary, admission=admission, reason=reason)
    # the control plane was held all the time, so there is a reservation to grow
    cluster_reserve(row, pools)
    return row
