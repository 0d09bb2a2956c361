"""Heads of Slurm clusters tell what jobs wait for: by the token of their cluster, the last word counts, and policies follow it."""

import json
import os
import subprocess
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine
from django.core.cache import cache
from django.test import Client

from gpuaas.clusters.models import Cluster, ClusterQueue, ClusterTemplate
from gpuaas.clusters.spec import spec_of, spec_whole
from gpuaas.core.clock import now
from gpuaas.core.errors import NotFound
from gpuaas.core.ids import uuid7
from gpuaas.providers.base import ClusterKind, Connection, PoolSignals, boot_token, queue_token
from gpuaas.providers.openstack.clusters.driver import OpenStackClusterDriver
from tenants.actors import Actor
from tenants.models import Project
from tests.clusters.stage import order, ready
from tests.factories.quotas import limits_give
from tests.providers.openstack_clusters.stage import guest, installed, spec

ADDRESS = "/api/v1/queue-reports"
QUIET = PoolSignals("small", 0, 0, 0)
BUSY = {"pool": "gpu", "used_gpus": 4, "pending_gpus": 3, "queued": 2}


@pytest.fixture(autouse=True)
def _no_one_was_refused() -> None:
    cache.clear()


@pytest.fixture
def cluster(as_alice: Actor, project: Project, template: ClusterTemplate) -> Cluster:
    limits_give(project, {"gpu:h100-sxm-80gb": None})
    return order(as_alice, project)


@pytest.fixture
def driver() -> OpenStackClusterDriver:
    return OpenStackClusterDriver(Connection(uuid.uuid4(), "cloud-1", "", {}))


def token_of(cluster: Cluster, seed: str = "") -> str:
    return queue_token(seed or spec_of(cluster).boots.seed, cluster=cluster.pk)


def post(token: str, *pools: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    headers = {"Authorization": f"Bearer {token}"}
    body = json.dumps({"pools": pools})
    answer = Client().post(ADDRESS, body, content_type="application/json", headers=headers)
    return answer.status_code, answer.json()


@pytest.mark.django_db
def test_what_was_told_last_is_what_the_driver_answers(
    cluster: Cluster, driver: OpenStackClusterDriver
) -> None:
    with pytest.raises(NotFound, match="has not reported its job queue yet"):
        driver.signals(spec_whole(cluster))
    assert post(token_of(cluster), {**BUSY, "queued": 9})[0] == 201
    assert post(token_of(cluster), BUSY, {**BUSY, "pool": "nobodys"})[0] == 201
    assert ClusterQueue.objects.get().pools == [BUSY], "of pools that it does not have nothing is kept"
    assert driver.signals(spec_whole(cluster)) == (PoolSignals("gpu", 4, 3, 2), QUIET)
    assert post(token_of(cluster))[0] == 201
    assert driver.signals(spec_whole(cluster)) == (PoolSignals("gpu", 0, 0, 0), QUIET), "no jobs, no words"


@pytest.mark.django_db
def test_a_head_that_has_gone_silent_is_not_believed(
    cluster: Cluster, driver: OpenStackClusterDriver
) -> None:
    assert post(token_of(cluster), BUSY)[0] == 201
    with (
        time_machine.travel(now() + timedelta(minutes=4), tick=False),
        pytest.raises(NotFound, match="since"),
    ):
        driver.signals(spec_whole(cluster))


@pytest.mark.django_db
def test_only_slurm_tells_at_openstack(driver: OpenStackClusterDriver) -> None:
    assert driver.has_signals(ClusterKind.SLURM)
    assert not driver.has_signals(ClusterKind.KUBERNETES)


@pytest.mark.django_db
def test_no_other_token_is_good(cluster: Cluster, as_alice: Actor, project: Project) -> None:
    other = ready(as_alice, project, name="other")
    seed = spec_of(cluster).boots.seed
    boot = boot_token(seed, cluster=cluster.pk, node="c-1-gpu-1", boot=uuid7())
    for token in (
        "",
        "gpq1.x",
        boot,
        token_of(cluster, "another"),
        token_of(cluster, spec_of(other).boots.seed),
    ):
        status, body = post(token, BUSY)
        assert (status, body["error"]["code"]) == (401, "unauthorized")
    assert not ClusterQueue.objects.exists()
    headers = {"Authorization": f"Bearer {token_of(cluster)}"}
    stage = json.dumps({"stage": "ready"})
    wrong = Client().post("/api/v1/node-reports", stage, content_type="application/json", headers=headers)
    assert wrong.status_code == 401, "nor is this one for anything else"


@pytest.mark.django_db
@pytest.mark.parametrize("state", ["deleting", "deleted"])
def test_a_cluster_that_goes_is_not_heard(cluster: Cluster, state: str) -> None:
    token = token_of(cluster)
    Cluster.objects.filter(pk=cluster.pk).update(state=state)
    assert post(token, BUSY)[0] == 401


@pytest.mark.django_db
@pytest.mark.parametrize(
    "wrong", [{"used_gpus": -1}, {"queued": "many"}, {"pending_gpus": 10**9}, {"pool": "x" * 21}]
)
def test_what_is_no_number_of_gpus_is_refused(cluster: Cluster, wrong: dict[str, Any]) -> None:
    assert post(token_of(cluster), {**BUSY, **wrong})[0] == 400


SQUEUE = """\
R                   small                cpu=1,mem=1G,node=1,billing=1,gres/gpu=1,gres/gpu:a100=1 None
CG                  big                  cpu=8,mem=1G,node=1,billing=1,gres/gpu=8,gres/gpu:h100=8 None
R                   big                  cpu=2,mem=1G,node=1,billing=1 None
PD                  big,small            cpu=1,mem=1G,node=1,billing=1,gres/gpu=4 Resources
PD                  big                  cpu=1,mem=1G,node=1,billing=1,gres/gpu=2 ReqNodeNotAvail, UnavailableNodes:x
PD                  big                  cpu=1,mem=1G,node=1,billing=1,gres/gpu=2 JobHeldUser
PD                  small                cpu=1,mem=1G,node=1,billing=1,gres/gpu=1 DependencyNeverSatisfied
PD                  small                cpu=1,mem=1G,node=1,billing=1,gres/gpu=1 BeginTime
PD                  small                cpu=1,mem=1G,node=1,billing=1 Priority
"""


@pytest.mark.parametrize(
    ("jobs", "told"),
    [
        ("", {}),
        (
            SQUEUE,
            {
                "small": {"pool": "small", "used_gpus": 1, "pending_gpus": 0, "queued": 0},
                "big": {"pool": "big", "used_gpus": 8, "pending_gpus": 6, "queued": 2},
            },
        ),
    ],
)
def test_the_head_counts_what_jobs_have_and_wait_for(
    jobs: str, told: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    etc = installed(guest(spec(ClusterKind.SLURM)), tmp_path)
    tools = tmp_path / "tools"
    tools.mkdir()
    (tmp_path / "jobs").write_text(jobs)
    for name, does in {"squeue": f"cat {tmp_path}/jobs", "curl": f"cat > {tmp_path}/told"}.items():
        (tools / name).write_text(f"#!/bin/sh\n{does}\n")
        (tools / name).chmod(0o755)
    around = {"PATH": f"{tools}:{os.environ['PATH']}", "GPUAAS_ETC": str(etc)}
    subprocess.run([tmp_path / "usr/local/sbin/gpuaas-queue"], env=around, check=True)
    found = json.loads((tmp_path / "told").read_text())["pools"]
    assert {one["pool"]: one for one in found} == told
