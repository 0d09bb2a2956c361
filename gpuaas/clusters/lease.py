"""The end of a cluster's lease: a warning before, then suspension for a grace period, then deletion."""

from datetime import datetime

from django.db.models import Q

from gpuaas.clusters.models import Cluster
from gpuaas.clusters.services.changes import cluster_delete
from gpuaas.clusters.services.rows import CLUSTER
from gpuaas.clusters.services.suspend import cluster_suspend
from gpuaas.clusters.states import LIVE, ClusterState
from gpuaas.clusters.waiting import WAITING
from gpuaas.lifecycle.enforce import PATIENCE
from gpuaas.lifecycle.lease import lease_round

HELD = LIVE - {ClusterState.DELETING}


def awake(now: datetime) -> Q:
    """What can be put to sleep now: also what changes for too long."""
    return CLUSTER.awake(now - PATIENCE)


def leases_enforce(*, now: datetime) -> int:
    """Warns, marks as over, suspends, deletes; returns how many clusters changed."""
    return lease_round(
        CLUSTER,
        # what waits in a warm pool has no lease: its keeper takes it away
        Cluster.objects.filter(~WAITING, state__in=HELD).select_related("project"),
        awake(now),
        now=now,
        suspend=cluster_suspend,
        delete=cluster_delete,
    )
