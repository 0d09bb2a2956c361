"""Putting a cluster to sleep and waking it: its workers go and no GPU is held, its control plane stays."""

from django.db import transaction
from django.db.models import F

from gpuaas.clusters.models import Cluster
from gpuaas.clusters.selectors import cluster_require
from gpuaas.clusters.services.changes import cluster_reserve, last_operation
from gpuaas.clusters.services.order import words_of
from gpuaas.clusters.services.rows import (
    cluster_lock,
    cluster_wake,
    driver_of,
    operation_begin,
    operation_end,
    state_require,
)
from gpuaas.clusters.spec import pools_of
from gpuaas.clusters.states import ClusterState
from gpuaas.core import clock
from gpuaas.core.errors import Conflict
from gpuaas.providers.base import ClusterChange, ClusterSuspendCapability
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.roles import Permission

S = ClusterState


@transaction.atomic
def cluster_suspend(
    *, actor: Actor, cluster: Cluster, expected_version: int | None = None, reason: str = ""
) -> Cluster:
    """Remove the workers and give their GPUs back. Asking again changes nothing. A scaling that failed is dropped: it wakes
    with what it had before."""
    cluster_require(actor=actor, cluster=cluster, permission=Permission.WORKSPACE_CREATE)
    row = cluster_lock(cluster_id=cluster.pk)
    if row.state in {S.SUSPENDING, S.SUSPENDED}:
        return row
    row = cluster_lock(cluster_id=cluster.pk, expected_version=expected_version)
    state_require(row, S.READY, S.FAILED)
    if row.ready_at is None:
        raise Conflict("this cluster was never ready: retry or delete it", detail={"state": row.state})
    if row.state == S.FAILED and last_operation(row).kind == ClusterChange.UPGRADE:
        raise Conflict("an upgrade has failed half-way: retry it first", detail={"state": row.state})
    if not isinstance(driver_of(row), ClusterSuspendCapability):
        raise Conflict("clusters of this template cannot be put to sleep")
    if row.state == S.FAILED and row.suspended_at is None:
        row.pools.update(count=F("confirmed"))
    before = {"state": row.state}
    operation_end(row, "ended by the suspension")
    operation_begin(
        row,
        actor,
        ClusterChange.SUSPEND,
        summary=reason,
        reason=reason,
        suspended_at=row.suspended_at or clock.now(),
    )
    audit_record(actor=actor, action="cluster.suspend", target=row, project=row.project, before=before)
    cluster_wake(row)
    return row


@transaction.atomic
def cluster_resume(
    *, actor: Actor, cluster: Cluster, expected_version: int | None = None, reason: str = ""
) -> Cluster:
    """Reserve its GPUs anew and bring the workers back. Refused, and asleep as before, where they are not to be had."""
    cluster_require(actor=actor, cluster=cluster, permission=Permission.WORKSPACE_CREATE)
    row = cluster_lock(cluster_id=cluster.pk)
    if row.state in {S.RESUMING, S.READY}:
        return row
    row = cluster_lock(cluster_id=cluster.pk, expected_version=expected_version)
    state_require(row, S.SUSPENDED, *([S.FAILED] if row.suspended_at else []))
    if row.lease_ends_at <= clock.now():
        raise Conflict("the lease is over: extend it first", detail={"state": row.state})
    pools = pools_of(row)
    if not all(
        site.takes_new for site in (row.site, *(pool.flavor.pool.site for pool in pools if pool.count))
    ):
        raise Conflict("the site takes no new work now", detail={"state": row.state})
    words, before = words_of(pools), {"state": row.state}
    operation_begin(
        row,
        actor,
        ClusterChange.RESUME,
        summary=reason or words,
        admission=f"reserved {words}",
        reason=reason,
    )
    audit_record(actor=actor, action="cluster.resume", target=row, project=row.project, before=before)
    cluster_wake(row)
    # the control plane was held all the time, so there is a reservation to grow
    cluster_reserve(row, pools)
    return row
