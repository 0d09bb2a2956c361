"""Policies of k3s clusters at OpenStack sites: pods that wait grow a pool, pods that run keep their workers, and a head that has never
reported keeps no policy by the hour from its work."""

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine

from deploy.lab.kubernetes import Lab
from gpuaas.clusters.models import Cluster, ClusterTemplate, ScalingDecision
from gpuaas.clusters.services.reports import queue_report
from gpuaas.clusters.spec import spec_of
from gpuaas.core.clock import now
from gpuaas.providers.base import queue_token
from gpuaas.providers.kubeapi.client import Api
from gpuaas.providers.openstack.clusters.driver import OpenStackClusterDriver
from gpuaas.providers.openstack.clusters.guest import Guest
from gpuaas.providers.sandbox.clusters.driver import SandboxClusterDriver
from tenants.actors import Actor
from tenants.models import Project
from tests.clusters.policy_stage import round_now, scaled_by
from tests.clusters.stage import ready, settle
from tests.lab.fixtures import LabSite, in_the_end, until
from tests.providers.openstack_clusters.stage import installed

KUBECTL = """
import json, sys
from pathlib import Path
from gpuaas.providers.kubeapi.client import Api
api, (verb, what, name, *rest) = Api(Path({kubeconfig!r}).read_text()), sys.argv[2:]
if verb == "get":
    path, _, query = name.partition("?")
    print(json.dumps(api.get(path, **dict([query.split("=", 1)] if query else []))))
elif verb == "patch":
    api.merge(f"/api/v1/nodes/{{name}}", json.loads(rest[1].partition("=")[2]))
else:
    api.delete(f"/api/v1/nodes/{{name}}")
"""
GPU = "nvidia.com/gpu"
ALWAYS = {"hours": ["Mon-Sun 00:00-00:00 3"], "time_zone": "Europe/Berlin"}


@pytest.fixture
def cluster(
    as_alice: Actor, project: Project, template: ClusterTemplate, monkeypatch: pytest.MonkeyPatch
) -> Cluster:
    """Of simulated machines, whose load the OpenStack driver knows from reports alone."""
    monkeypatch.setattr(SandboxClusterDriver, "signals", OpenStackClusterDriver.signals)
    return ready(as_alice, project)


def token_of(cluster: Cluster) -> str:
    return queue_token(spec_of(cluster).boots.seed, cluster=cluster.pk)


def lines_of(cluster: Cluster) -> list[tuple[str, str]]:
    return [(row.outcome, row.reason) for row in ScalingDecision.objects.filter(cluster=cluster)]


@pytest.mark.django_db
def test_a_head_that_never_reported_stops_no_policy_by_the_hour(as_alice: Actor, cluster: Cluster) -> None:
    round_now(scaled_by(as_alice, cluster, kind="schedule", settings=ALWAYS))
    assert cluster.pools.get(name="gpu").count == 3
    assert [outcome for outcome, _ in lines_of(cluster)] == ["scaled"]


@pytest.mark.django_db
def test_a_policy_by_demand_says_once_an_hour_that_the_demand_is_not_known(
    as_alice: Actor, cluster: Cluster
) -> None:
    policy = scaled_by(as_alice, cluster)
    for _ in range(2):
        assert round_now(policy).due_at is not None
    ((outcome, reason),) = lines_of(cluster)
    assert outcome == "broken"
    assert reason.startswith("Nothing was decided: the cluster has never reported its demand")
    queue_report(token=token_of(cluster), pools=[])
    for minutes in (4, 10, 63, 65):
        with time_machine.travel(now() + timedelta(minutes=minutes), tick=False):
            round_now(policy)
    said = [reason for _, reason in lines_of(cluster)]
    assert [reason.partition(":")[0] for reason in said] == ["Nothing was decided"] * 3
    assert "the head has not reported its queue since" in said[0]
    assert cluster.pools.get(name="gpu").count == 1


class Head:
    """The head of the cluster: its own program, against a real API server and the portal that runs."""

    def __init__(self, cluster: Cluster, api: Api, kubeconfig: Path, root: Path) -> None:
        spec = spec_of(cluster)
        name = f"{cluster.external_name}-control-1"
        guest = Guest(spec, name, spec.release, "", "", ("10.0.0.11",), "", "", address="10.0.0.11")
        self.name, self.api, self.root, self.etc = cluster.external_name, api, root, installed(guest, root)
        program = root / "kubectl.py"
        program.write_text(KUBECTL.format(kubeconfig=str(kubeconfig)))
        k3s = root / "tools/k3s"
        k3s.parent.mkdir()
        k3s.write_text(
            f'#!/bin/sh\nDJANGO_SETTINGS_MODULE=gpuaas.settings.test PYTHONPATH={Path.cwd()} exec {sys.executable} {program} "$@"\n'
        )
        k3s.chmod(0o755)

    def worker(self, number: int) -> None:
        meta = {"name": f"{self.name}-gpu-{number}", "labels": {"gpuaas.io/pool": "gpu"}}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": meta}
        in_the_end(lambda: self.api.create("/api/v1/nodes", node))

    def pod(self, name: str, gpus: int, worker: int = 0) -> None:
        asks = {"name": "a", "image": "a", "resources": {"limits": {GPU: str(gpus)}}}
        spec: dict[str, Any] = {"containers": [asks], "nodeSelector": {"gpuaas.io/pool": "gpu"}}
        if worker:
            spec["nodeName"] = f"{self.name}-gpu-{worker}"
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        in_the_end(lambda: self.api.create("/api/v1/namespaces/default/pods", pod))

    def over(self, name: str) -> None:
        where = f"/api/v1/namespaces/default/pods/{name}"
        in_the_end(lambda: self.api.delete(where, {"gracePeriodSeconds": 0}))

    def report(self) -> None:
        around = {
            "PATH": f"{self.root}/tools:{os.environ['PATH']}",
            "GPUAAS_ETC": str(self.etc),
            "GPUAAS_LIB": str(self.root / "usr/local/lib/gpuaas"),
        }
        program = self.root / "usr/local/sbin/gpuaas-queue"

        def sent() -> bool:
            """Its timer starts it again where the API server has not answered."""
            return subprocess.run([program], env=around, cwd=self.root, check=False).returncode == 0

        until(sent, "the head has reported")

    def cordoned(self) -> list[str]:
        rows = in_the_end(lambda: self.api.items("/api/v1/nodes"))
        return sorted(row["metadata"]["name"][-1] for row in rows if row["spec"].get("unschedulable"))


@pytest.fixture
def head(cluster: Cluster, own_lab: Lab, tmp_path: Path, live_server: Any, settings: Any) -> Head:
    settings.PUBLIC_URL = live_server.url
    return Head(cluster, LabSite(own_lab.kubeconfig).api(), own_lab.kubeconfig, tmp_path)


@pytest.mark.django_db(transaction=True)
def test_pods_that_wait_grow_a_pool_and_pods_that_run_keep_their_workers(
    as_alice: Actor, cluster: Cluster, head: Head
) -> None:
    """Workers of two GPUs, on a real API server: from one worker to three, and back as far as no pod is lost."""

    def count() -> int:
        return int(settle(cluster).pools.get(name="gpu").count)

    policy = scaled_by(as_alice, cluster)
    head.worker(1)
    head.pod("first", 2, 1)
    head.report()  # after the first answer it knows the pools
    head.pod("second", 2)
    head.pod("third", 1)
    head.report()
    round_now(policy)
    assert count() == 3
    head.over("second")
    head.over("third")
    head.worker(2)
    head.worker(3)
    head.pod("fourth", 1, 2)
    head.over("first")
    head.report()
    round_now(policy)  # one worker is enough: the order to drain goes with the next answer
    head.report()
    assert head.cordoned() == ["2", "3"]
    round_now(policy)
    assert count() == 3, "what the cluster reported was from before it was cordoned"
    head.report()
    round_now(policy)
    assert count() == 2, "a pod runs on worker 2"
    head.over("fourth")
    head.report()
    round_now(policy)
    assert count() == 1
