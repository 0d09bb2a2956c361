"""Background work on clusters. Arguments are ids; everything else is read anew."""

import uuid

from celery import shared_task

from gpuaas.clusters.lease import leases_enforce
from gpuaas.clusters.models import Cluster
from gpuaas.clusters.reconcile import run
from gpuaas.core import clock, leases
from gpuaas.core.queue import poke

SWEEP_LIMIT = 200


@shared_task(name="clusters.reconcile")
def reconcile(cluster_id: str) -> None:
    run(uuid.UUID(cluster_id))


@shared_task(name="clusters.sweep")
def sweep() -> int:
    """Pokes what is due: new wishes whose poke was lost, waiting steps, retries, periodic looks."""
    due = leases.due_ids(Cluster, now=clock.now(), limit=SWEEP_LIMIT)
    for cluster_id in due:
        poke("clusters.reconcile", str(cluster_id))
    return len(due)


@shared_task(name="clusters.leases")
def lease_ends() -> int:
    return leases_enforce(now=clock.now())
