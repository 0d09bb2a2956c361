"""A template of the class `lab`, at a site that is the management cluster; and a worker that dies at a boundary of that name."""

import multiprocessing
import os
import signal
import time
import uuid
from dataclasses import dataclass
from typing import Any

from django.db import connections

from gpuaas.catalog.models import Flavor, GpuPool, Site
from gpuaas.clusters.models import Cluster, ClusterTemplate
from gpuaas.clusters.reconcile import run
from gpuaas.clusters.services import template_create, template_update, template_version_add
from gpuaas.core import leases
from gpuaas.core.clock import now
from gpuaas.core.crypto import encrypt_json
from gpuaas.providers.clusterapi.driver import ClusterApiDriver
from tenants.actors import Actor
from tests.clusters.crashing_worker import VERBS, WRITES
from tests.clusters.stage import RESTING
from tests.contracts.clusters.clusterapi_rig import SETTINGS
from tests.workspaces.crashing_worker import Boundaries

DOCUMENT: dict[str, Any] = {
    "releases": ["1.35.6", "1.36.3"],
    "control_plane": {"vcpus": 4, "memory_gib": 8, "disk_gib": 40, "counts": [1]},
    "pools": [{"name": "gpu", "flavors": ["h100.2"], "min": 1, "max": 8, "default": 1}],
    "addons": [{"name": "gpu-operator", "required": True}],
    "parameters": {
        "type": "object",
        "properties": {"boot_seconds": {"type": "integer", "minimum": 1, "maximum": 60}},
    },
    "settings": {**SETTINGS, "parameters": {"boot_seconds": "bootSeconds"}},
}
PATIENCE_S = 600
SURVIVED = 0


def offered(as_olga: Actor, site: Site, kubeconfig: str) -> ClusterTemplate:
    Site.objects.filter(pk=site.pk).update(
        driver="kubernetes", credentials=encrypt_json({"kubeconfig": kubeconfig})
    )
    pool = GpuPool.objects.get(site=site, gpu_type__slug="h100-sxm-80gb")
    size = {"gpus": 2, "vcpus": 32, "memory_gib": 360, "state": "active"}
    Flavor.objects.get_or_create(slug="h100.2", defaults={"pool": pool, "name": "2 × H100", **size})
    template = template_create(
        actor=as_olga, slug="k8s", name="Kubernetes", kind="kubernetes", site=site, driver="cluster-api"
    )
    template_version_add(actor=as_olga, template=template, document=DOCUMENT)
    return template_update(actor=as_olga, template=template, state="active", public=True)


def settle(*clusters: Cluster) -> list[Cluster]:
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
        time.sleep(0.2)


class Named(Boundaries):
    """Dies where it first crosses the boundary of that name."""

    def __init__(self, at: str, told: int) -> None:
        super().__init__(0, told)
        self.at = at

    def cross(self, name: str) -> None:
        os.write(self.told, f"{name}\n".encode())
        if name == self.at:
            os.kill(os.getpid(), signal.SIGKILL)


def _work(cluster_id: uuid.UUID, at: str, told: int) -> None:
    """In a process of its own, which never returns to the test."""
    boundaries = Named(at, told)
    for name in VERBS:
        setattr(ClusterApiDriver, name, boundaries.around(name, getattr(ClusterApiDriver, name)))
    for name in WRITES:
        setattr(leases, name, boundaries.around(name, getattr(leases, name)))
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
    at: str
    process: Any
    heard: int

    def end(self) -> tuple[str, ...]:
        """What it crossed; its lease is over, as time would do."""
        with os.fdopen(self.heard) as lines:
            crossed = tuple(lines.read().splitlines())
        self.process.join(PATIENCE_S)
        wanted = -signal.SIGKILL if self.at else SURVIVED
        assert self.process.exitcode == wanted, (self.at, self.process.exitcode)
        claims = Cluster.objects.filter(pk=self.cluster.pk, claim_until__isnull=False)
        claims.update(claim_until=now(), due_at=now())
        return crossed


def worker(cluster: Cluster, at: str) -> Worker:
    """Begins; at "" = it is not killed."""
    connections.close_all()
    heard, told = os.pipe()
    process = multiprocessing.get_context("fork").Process(target=_work, args=(cluster.pk, at, told))
    process.start()
    os.close(told)
    return Worker(cluster, at, process, heard)
