"""What reports about jobs on Slurm clusters change, read and announce."""

from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from django.db import connection
from django.test.utils import CaptureQueriesContext

from gpuaas.clusters.models import Cluster, ClusterJob
from gpuaas.core import clock
from gpuaas.providers.base import SlurmSeen
from tenants.actors import Actor
from tests.clusters.slurm_stage import answered, by_head, entered, submitted
from tests.lasting import lasting

pytestmark = pytest.mark.django_db


@pytest.fixture
@lasting
def cluster(slurm: Cluster) -> Cluster:
    """Whose head reports, and lets bob in."""
    by_head()
    return entered(slurm)


def now_of(job: ClusterJob) -> ClusterJob:
    return ClusterJob.objects.get(pk=job.pk)


def runs(job: ClusterJob, text: str | None) -> SlurmSeen:
    return SlurmSeen(job.pk, "RUNNING", 7, log=text)


@pytest.mark.parametrize("text", ["", "at work\n"])
def test_when_a_log_was_read_is_kept_though_it_says_nothing_new(
    cluster: Cluster, as_bob: Actor, text: str
) -> None:
    job = submitted(as_bob, cluster)
    answered(cluster)
    answered(cluster, runs(job, None))
    assert now_of(job).log_taken_at is None
    with time_machine.travel(clock.now(), tick=False) as traveller:
        for _ in range(2):
            traveller.shift(timedelta(seconds=30))
            answered(cluster, runs(job, text))
            assert (now_of(job).log, now_of(job).log_taken_at) == (text, clock.now())


@pytest.mark.parametrize("state", ["COMPLETED", "FAILED", "CANCELLED"])
@pytest.mark.parametrize(("says", "within"), [(0, 0), (30, 30), (1 << 37, 60)])
def test_the_clock_of_a_head_decides_no_end(
    cluster: Cluster, as_bob: Actor, state: str, says: int, within: int
) -> None:
    """says, within: seconds since the job was submitted. When it is emptied depends on its end."""
    with time_machine.travel(clock.now(), tick=False) as traveller:
        job = submitted(as_bob, cluster)
        answered(cluster)
        traveller.shift(timedelta(seconds=60))
        moment = job.created_at + timedelta(seconds=says) if says else datetime.fromtimestamp(0, UTC)
        answered(cluster, SlurmSeen(job.pk, state, 7, exit_code=0, ended_at=moment))
    assert now_of(job).finished_at == job.created_at + timedelta(seconds=within)


def test_reports_neither_read_nor_write_what_is_long(cluster: Cluster, as_bob: Actor) -> None:
    job = submitted(as_bob, cluster)
    answered(cluster)
    answered(cluster, runs(job, "at work\n"))
    with CaptureQueriesContext(connection) as queries:
        answered(cluster, runs(job, None))
        answered(cluster, SlurmSeen(job.pk, "PENDING", 7, "Resources"))
    asked = [one["sql"] for one in queries if "clusters_clusterjob" in one["sql"]]
    assert asked
    assert not [sql for sql in asked if '"log"' in sql or ('"script"' in sql and '"id" IN (' not in sql)]
    assert (now_of(job).log, now_of(job).state, now_of(job).script) == ("at work\n", "pending", job.script)
