"""The end of a cluster's lease: a warning before, then sleep for a time of grace, then deletion."""

from datetime import datetime

from django.db import transaction
from django.db.models import Q

from gpuaas.clusters.models import Cluster
from gpuaas.clusters.services.changes import cluster_delete
from gpuaas.clusters.services.rows import cluster_announce, cluster_lock
from gpuaas.clusters.services.suspend import cluster_suspend
from gpuaas.clusters.states import LIVE, ClusterState
from gpuaas.clusters.waiting import WAITING
from gpuaas.core.terms import lease_mark, lease_round
from tenants.actors import SYSTEM

REASON = "the lease ended"
HELD = LIVE - {ClusterState.DELETING}
AWAKE = Q(state=ClusterState.READY) | Q(
    state=ClusterState.FAILED, ready_at__isnull=False, suspended_at__isnull=True
)


def leases_enforce(*, now: datetime) -> int:
    """Warn, mark as over, put to sleep, delete: how many clusters were touched."""
    return lease_round(
        # what waits in a warm pool has no lease: its keeper takes it away
        Cluster.objects.filter(~WAITING, state__in=HELD).select_related("project"),
        AWAKE,
        now=now,
        mark=lambda row: _mark(row, now),
        sleep=lambda row: cluster_suspend(
            actor=SYSTEM, cluster=row, expected_version=row.version, reason=REASON
        ),
        delete=lambda row: cluster_delete(
            actor=SYSTEM, cluster=row, expected_version=row.version, reason=REASON
        ),
    )


@transaction.atomic
def _mark(found: Cluster, now: datetime) -> None:
    row = cluster_lock(cluster_id=found.pk)
    words = {"noun": "cluster", "sleeps": "its workers are removed", "goes": "all of it"}
    if row.state in HELD and lease_mark(row, now=now, **words):
        cluster_announce(row)
