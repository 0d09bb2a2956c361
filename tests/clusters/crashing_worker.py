"""A worker on clusters that dies by SIGKILL at the n-th boundary: around each call to the site and each guarded write."""

import multiprocessing
import os
import signal
import uuid

from django.db import connections

from gpuaas.clusters.models import Cluster
from gpuaas.clusters.reconcile import run
from gpuaas.core import claims
from gpuaas.core.clock import now
from gpuaas.providers.base import ClusterDriver
from tests.clusters.stage import RESTING
from tests.workspaces.crashing_worker import SURVIVED, Boundaries, Life

VERBS = ("perform", "observe", "inventory")
WRITES = ("claim", "apply")


def work(driver: type[ClusterDriver], cluster_id: uuid.UUID, after: int, told: int) -> None:
    """Run until it rests, or until killed. In a process of its own, which never returns to the test."""
    boundaries = Boundaries(after, told)
    for name in VERBS:
        setattr(driver, name, boundaries.around(name, getattr(driver, name)))
    for name in WRITES:
        setattr(claims, name, boundaries.around(name, getattr(claims, name)))
    for _ in range(30):
        Cluster.objects.filter(pk=cluster_id).update(due_at=now())
        run(cluster_id)
        if Cluster.objects.get(pk=cluster_id).state in RESTING:
            break
    connections.close_all()
    os._exit(SURVIVED)


def life_of(driver: type[ClusterDriver], cluster: Cluster, after: int) -> Life:
    """Of a worker that is killed at its n-th boundary, or comes to rest before. Its claim is over, as time would do."""
    connections.close_all()
    heard, told = os.pipe()
    worker = multiprocessing.get_context("fork").Process(target=work, args=(driver, cluster.pk, after, told))
    worker.start()
    os.close(told)
    with os.fdopen(heard) as lines:
        crossed = tuple(lines.read().splitlines())
    worker.join(120)
    if worker.exitcode == SURVIVED:
        return Life(killed=False, crossed=crossed)
    assert worker.exitcode == -signal.SIGKILL, worker.exitcode
    Cluster.objects.filter(pk=cluster.pk, claim_until__isnull=False).update(claim_until=now(), due_at=now())
    return Life(killed=True, crossed=crossed)
