"""A worker on one cluster, in a process of its own, that dies by SIGKILL where it first crosses the boundary of a
name: before or after a call
to the site or a guarded write. Each may be begun beside others, and ended later."""

import multiprocessing
import os
import signal
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db import connections

from gpuaas.clusters.models import Cluster
from gpuaas.clusters.reconcile import run
from gpuaas.core import claims
from gpuaas.core.clock import now
from gpuaas.providers.base import ClusterDriver
from tests.clusters.crashing_worker import VERBS, WRITES
from tests.clusters.stage import RESTING
from tests.workspaces.crashing_worker import Boundaries, Life

PATIENCE_S = 1800
SURVIVED = 0
BOUNDARIES_MAX = 200


class Named(Boundaries):
    def __init__(self, at: str, told: int) -> None:
        super().__init__(0, told)
        self.at = at

    def cross(self, name: str) -> None:
        os.write(self.told, f"{name}\n".encode())
        if name == self.at:
            os.kill(os.getpid(), signal.SIGKILL)


class Unseen(Boundaries):
    """Dies at the first boundary that none before it has died at."""

    def __init__(self, seen: frozenset[str], told: int) -> None:
        super().__init__(0, told)
        self.seen = seen

    def cross(self, name: str) -> None:
        os.write(self.told, f"{name}\n".encode())
        if name not in self.seen:
            os.kill(os.getpid(), signal.SIGKILL)


def _work(driver: type[ClusterDriver], cluster_id: uuid.UUID, boundaries: Boundaries) -> None:
    """Never returns to the test."""
    for name in VERBS:
        setattr(driver, name, boundaries.around(name, getattr(driver, name)))
    for name in WRITES:
        setattr(claims, name, boundaries.around(name, getattr(claims, name)))
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        Cluster.objects.filter(pk=cluster_id).update(due_at=now())
        run(cluster_id)
        if Cluster.objects.get(pk=cluster_id).state in RESTING:
            break
        time.sleep(0.2)
    connections.close_all()
    os._exit(SURVIVED)


@dataclass
class Worker:
    cluster: Cluster
    process: Any
    heard: int

    def end(self, *, meanwhile: Callable[[], object] | None = None) -> Life:
        """Its claim is over, as time would do. `meanwhile` is done again and again until it has ended."""
        while meanwhile and self.process.is_alive():
            meanwhile()
        with os.fdopen(self.heard) as lines:
            crossed = tuple(lines.read().splitlines())
        self.process.join(PATIENCE_S)
        assert self.process.exitcode in {SURVIVED, -signal.SIGKILL}, self.process.exitcode
        claims = Cluster.objects.filter(pk=self.cluster.pk, claim_until__isnull=False)
        claims.update(claim_until=now(), due_at=now())
        return Life(killed=self.process.exitcode != SURVIVED, crossed=crossed)


def _begin(driver: type[ClusterDriver], cluster: Cluster, limits: Callable[[int], Boundaries]) -> Worker:
    connections.close_all()
    heard, told = os.pipe()
    target = multiprocessing.get_context("fork").Process(
        target=_work, args=(driver, cluster.pk, limits(told))
    )
    target.start()
    os.close(told)
    return Worker(cluster, target, heard)


def worker(driver: type[ClusterDriver], cluster: Cluster, at: str) -> Worker:
    """Begins; at "" = it is not killed."""
    return _begin(driver, cluster, lambda told: Named(at, told))


def killed_at_each(
    driver: type[ClusterDriver], cluster: Cluster, *, meanwhile: Callable[[], object] | None = None
) -> list[str]:
    """One change of one cluster, whose worker is killed at every boundary that there is, each by the next worker, until one comes to rest.
    The boundaries, in the order of the kills."""
    seen: list[str] = []
    while True:
        assert len(seen) < BOUNDARIES_MAX, seen
        begun = frozenset(seen)
        life = _begin(driver, cluster, lambda told, begun=begun: Unseen(begun, told)).end(meanwhile=meanwhile)  # type: ignore[misc]
        if not life.killed:
            return seen
        assert life.crossed[-1] not in seen
        seen.append(life.crossed[-1])


def settle(*clusters: Cluster, meanwhile: Callable[[], object] | None = None) -> list[Cluster]:
    """All of them side by side, until each rests."""
    deadline = time.monotonic() + PATIENCE_S
    keys = [row.pk for row in clusters]
    while True:
        moving = Cluster.objects.filter(pk__in=keys).exclude(state__in=RESTING)
        waiting = list(moving.values_list("pk", flat=True))
        if not waiting:
            return list(Cluster.objects.filter(pk__in=keys).order_by("created_at"))
        assert time.monotonic() < deadline, [(row.name, row.state, row.conditions) for row in moving]
        for key in waiting:
            Cluster.objects.filter(pk=key).update(due_at=now())
            run(key)
        if meanwhile:
            meanwhile()
        time.sleep(0.2)
