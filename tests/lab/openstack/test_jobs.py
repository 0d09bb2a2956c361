"""Jobs of the portal on a real Slurm: the head takes them from the answer to its report, and they run as who submitted them."""

from pathlib import Path

import pytest
from django.db import transaction

from deploy.lab.openstack import Lab
from gpuaas.catalog.models import Flavor
from gpuaas.clusters.models import Cluster, ClusterJob
from gpuaas.clusters.services import cluster_job_cancel, cluster_job_submit
from tenants.actors import Actor
from tenants.models import Project
from tests.lab.fixtures import until
from tests.lab.openstack.booting import BOOTING, BOOTS, rested, slurm_ordered
from tests.lab.openstack.head import COUNTED, Slurm
from tests.lab.openstack.job_files import files_come_and_go
from tests.lab.openstack.pages import page_of

pytestmark = BOOTING
TALKS = r"""
id -un; pwd; echo "$SLURM_GPUS_ON_NODE of $SLURM_JOB_NUM_NODES"; echo '$(touch /tmp/by-a-shell)'
head -c 1 /etc/gpuaas/secrets 2> /dev/null && echo secret
printf 'a\0b\377\n'
exit 3
"""


@pytest.fixture
def cluster(
    booting: Lab, as_olga: Actor, as_alice: Actor, as_bob: Actor, project: Project, sold: Flavor
) -> Cluster:
    """Ordered, of a head and a worker of two GPUs; bob is a member."""
    return slurm_ordered(as_alice, as_olga, project, sold, 1)


def test_jobs_run_as_their_people_once(
    booting: Lab, cluster: Cluster, as_alice: Actor, as_bob: Actor, tmp_path: Path
) -> None:
    row = rested(cluster)
    slurm = Slurm(booting, row)
    until(lambda: Cluster.objects.get(pk=row.pk).takes_jobs, "the head has reported", seconds=BOOTS)
    row.refresh_from_db()
    runs_as_its_member(slurm, row, as_bob)
    is_refused_in_words_of_slurm(row, as_bob)
    waits_and_is_cancelled(slurm, row, as_bob)
    is_submitted_once_though_its_head_was_killed(slurm, row, as_bob)
    files_come_and_go(slurm, row, as_alice, as_bob, tmp_path)


def submit(bob: Actor, row: Cluster, name: str, script: str, gpus: int = 1, **more: object) -> ClusterJob:
    given = {"name": name, "script": script, "gpus_per_node": gpus, **more}
    return cluster_job_submit(actor=bob, cluster=row, given=given)


def state_of(job: ClusterJob) -> str:
    job.refresh_from_db()
    return job.state


def becomes(job: ClusterJob, state: str) -> None:
    until(lambda: state_of(job) == state, f"{job.name} is {state}", seconds=BOOTS)


def runs_as_its_member(slurm: Slurm, row: Cluster, bob: Actor) -> None:
    job = submit(bob, row, "talks", TALKS)
    becomes(job, "failed")
    assert (job.exit_code, job.reason) == (3, "its script ended with exit code 3")
    wrote = ["bob", "/home/bob", "1 of 1", "$(touch /tmp/by-a-shell)", "ab\ufffd"]
    assert job.log.splitlines() == wrote, job.log
    path = f"/home/bob/gpuaas-jobs/talks-{job.slurm_id}.log"
    assert slurm.lines("stat", "--format=%U", path) == ["bob"]


def is_refused_in_words_of_slurm(row: Cluster, bob: Actor) -> None:
    """More memory than the portal would let anybody ask for."""
    with transaction.atomic():
        job = submit(bob, row, "huge", "true")
        ClusterJob.objects.filter(pk=job.pk).update(memory_gib=60_000)
    becomes(job, "failed")
    assert "Requested node configuration is not available" in job.reason
    assert job.slurm_id is None


def waits_and_is_cancelled(slurm: Slurm, row: Cluster, bob: Actor) -> None:
    first, second = (submit(bob, row, name, "echo begun; sleep 4711", 2) for name in ("first", "second"))
    becomes(first, "running")
    until(
        lambda: state_of(second) == "pending" and second.reason not in {"", "None"}, "it waits", seconds=BOOTS
    )
    assert second.reason in {"Resources", "Priority", "AssocGrpGRES"}
    assert "second" in page_of(row, name="cluster_jobs")
    cluster_job_cancel(actor=bob, job=second)
    becomes(second, "cancelled")
    assert slurm.states() == ["R"], "the other one runs on"
    until(lambda: state_of(first) == "running" and first.log == "begun\n", "its log is read meanwhile")
    cluster_job_cancel(actor=bob, job=first)
    becomes(first, "cancelled")
    assert first.log.startswith("begun\n")
    assert slurm.states() == []


def is_submitted_once_though_its_head_was_killed(slurm: Slurm, row: Cluster, bob: Actor) -> None:
    job = slurm.dies_while_it_submits(lambda: submit(bob, row, "once", "sleep 5"), "once", BOOTS)
    assert state_of(job) == "queued", "the portal has no report of it"
    slurm.says("systemctl", "start", "gpuaas-queue.timer")
    becomes(job, "succeeded")
    forgotten = {"state": "queued", "slurm_id": None, "seen_at": None, "finished_at": None}
    ClusterJob.objects.filter(pk=job.pk).update(**forgotten)
    becomes(job, "succeeded")
    assert slurm.says(*COUNTED).splitlines().count("once|COMPLETED") == 1
