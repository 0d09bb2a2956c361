"""The end of a cluster's lease: a warning before, then sleep for a time of grace, then deletion."""

import contextlib
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from gpuaas.clusters.models import Cluster
from gpuaas.clusters.services.changes import LEASE_ENDING, cluster_delete
from gpuaas.clusters.services.rows import cluster_announce, cluster_lock
from gpuaas.clusters.services.suspend import cluster_suspend
from gpuaas.clusters.states import LIVE, ClusterState
from gpuaas.core.conditions import Status, condition_set
from gpuaas.core.errors import Conflict, StaleVersion
from tenants.actors import SYSTEM

WARNING = timedelta(days=3)
BATCH = 200
SOON, OVER = "LeaseEndsSoon", "LeaseOver"
HELD = LIVE - {ClusterState.DELETING}
AWAKE = Q(state=ClusterState.READY) | Q(
    state=ClusterState.FAILED, ready_at__isnull=False, suspended_at__isnull=True
)


def leases_enforce(*, now: datetime) -> int:
    """Warn, mark as over, put to sleep, delete: how many clusters were touched, each in a transaction of its own."""
    grace = timedelta(days=settings.LEASE_GRACE_DAYS)
    held = Cluster.objects.filter(state__in=HELD).select_related("project")
    over = held.filter(lease_ends_at__lte=now, lease_ends_at__gt=now - grace)
    soon = held.filter(lease_ends_at__gt=now, lease_ends_at__lte=now + WARNING)
    gone = list(held.filter(lease_ends_at__lte=now - grace)[:BATCH])
    awake = list(over.filter(AWAKE)[:BATCH])
    told = [
        *over.exclude(Q(conditions__LeaseEnding__reason=OVER))[:BATCH],
        *soon.exclude(conditions__has_key=LEASE_ENDING)[:BATCH],
    ]
    for row in told:
        _mark(row, now, grace)
    for row in awake:
        with contextlib.suppress(Conflict, StaleVersion):
            _sleep(row)
    for row in gone:
        with contextlib.suppress(StaleVersion):
            cluster_delete(actor=SYSTEM, cluster=row, expected_version=row.version, reason="the lease ended")
    return len({row.pk for row in (*told, *awake, *gone)})


def _sleep(row: Cluster) -> None:
    """Of the version that was looked at: whoever extends the lease at this very moment keeps it running."""
    cluster_suspend(actor=SYSTEM, cluster=row, expected_version=row.version, reason="the lease ended")


@transaction.atomic
def _mark(found: Cluster, now: datetime, grace: timedelta) -> None:
    row = cluster_lock(cluster_id=found.pk)
    if row.state not in HELD or row.lease_ends_at > now + WARNING:
        return
    ended = row.lease_ends_at <= now
    what, then = ("ended", "") if ended else ("ends", "its workers are removed then, and ")
    gone = row.lease_ends_at + grace
    row.conditions = condition_set(
        row.conditions,
        type=LEASE_ENDING,
        status=Status.TRUE,
        reason=OVER if ended else SOON,
        message=f"the lease {what} on {row.lease_ends_at:%Y-%m-%d %H:%M} UTC; {then}all of it is deleted on {gone:%Y-%m-%d}",
        remedy="Extend the lease, then resume it." if ended else "Extend the lease to keep the cluster.",
        now=now,
    )
    row.save(update_fields=["conditions"])
    cluster_announce(row)
