"""Which jobs a head is offered, and what becomes of those that it cannot submit or does not find any more."""

from datetime import timedelta

import pytest
import time_machine

from gpuaas.clusters.models import Cluster, ClusterJob
from gpuaas.clusters.services import cluster_job_submit
from gpuaas.clusters.services.job_reports import OFFERED_MOST
from gpuaas.core import clock
from gpuaas.providers.base import ERROR, GONE, SlurmSeen
from tenants.actors import Actor
from tenants.models import Project, User
from tests.clusters.slurm_stage import ORDER, answered, by_head, entered, submitted
from tests.factories.tenants import ProjectMembershipFactory
from tests.lasting import lasting

pytestmark = pytest.mark.django_db
HOME = "sbatch: the home of bob is full"


@pytest.fixture
@lasting
def cluster(slurm: Cluster) -> Cluster:
    """Whose head reports, and lets bob in."""
    by_head()
    return entered(slurm)


def now_of(job: ClusterJob) -> ClusterJob:
    return ClusterJob.objects.get(pk=job.pk)


def gone(job: ClusterJob, words: str = "") -> SlurmSeen:
    return SlurmSeen(job.pk, ERROR, error=words) if words else SlurmSeen(job.pk, GONE)


def test_jobs_that_cannot_be_submitted_keep_nobody_elses_waiting(
    cluster: Cluster, project: Project, as_bob: Actor, as_alice: Actor, alice: User
) -> None:
    ProjectMembershipFactory.create(project=project, user=alice, role="member")
    answered(cluster)
    cluster = entered_by(cluster, "alice", "bob")
    bobs = [submitted(as_bob, cluster) for _ in range(OFFERED_MOST + 1)]
    answered(cluster, logins=("alice", "bob"))
    alices = [cluster_job_submit(actor=as_alice, cluster=cluster, given=ORDER) for _ in range(2)]
    orders = answered(cluster, *[gone(job) for job in bobs], logins=("alice", "bob"))
    assert {one.id for one in orders if one.submit} == {
        *(job.pk for job in bobs[: OFFERED_MOST - 2]),
        *(job.pk for job in alices),
    }


def entered_by(cluster: Cluster, *logins: str) -> Cluster:
    answered(cluster, logins=logins)
    return Cluster.objects.select_related("project", "site", "template_version__template").get(pk=cluster.pk)


def test_why_a_job_waits_is_kept_while_it_is_tried_again(cluster: Cluster, as_bob: Actor) -> None:
    job = submitted(as_bob, cluster)
    answered(cluster)
    (order,) = answered(cluster, gone(job, HOME))
    assert (order.submit, now_of(job).state, now_of(job).reason) == (True, "queued", HOME)
    answered(cluster, SlurmSeen(job.pk, "PENDING", 7, "Resources"))
    assert now_of(job).reason == "Resources"


def test_a_job_that_cannot_be_submitted_is_given_up(cluster: Cluster, as_bob: Actor) -> None:
    job = submitted(as_bob, cluster)
    answered(cluster)
    answered(cluster, gone(job, HOME))
    with time_machine.travel(clock.now() + timedelta(minutes=31), tick=False):
        (order,) = answered(cluster, gone(job, HOME))
        assert (order.submit, order.cancel) == (False, True), "Slurm may have it"
        assert now_of(job).state == "queued"
        assert answered(cluster, gone(job)) == []
    words = f"the cluster could not hand it to Slurm for 30 minutes: {HOME}"
    assert (now_of(job).state, now_of(job).reason) == ("cancelled", words)


def test_a_job_that_slurm_had_after_all_is_ended_there_with_the_same_words(
    cluster: Cluster, as_bob: Actor
) -> None:
    job = submitted(as_bob, cluster)
    answered(cluster)
    answered(cluster, gone(job))
    with time_machine.travel(clock.now() + timedelta(minutes=31), tick=False):
        answered(cluster, gone(job))
        assert answered(cluster, SlurmSeen(job.pk, "RUNNING", 7))[0].cancel
        assert answered(cluster, SlurmSeen(job.pk, "CANCELLED", 7)) == []
    assert now_of(job).reason == "the cluster could not hand it to Slurm for 30 minutes"


def test_the_time_in_which_no_head_reports_counts_for_nothing(cluster: Cluster, as_bob: Actor) -> None:
    waits, runs = submitted(as_bob, cluster), submitted(as_bob, cluster)
    answered(cluster)
    answered(cluster, SlurmSeen(runs.pk, "RUNNING", 7))
    with time_machine.travel(clock.now() + timedelta(hours=2), tick=False) as traveller:
        assert [one.submit for one in answered(cluster, gone(waits), gone(runs))] == [True, False]
        traveller.shift(timedelta(minutes=11))
        assert [one.id for one in answered(cluster, gone(waits), gone(runs))] == [waits.pk]
    assert (now_of(runs).state, now_of(runs).reason) == ("failed", "Slurm no longer knows its job 7")


def test_a_job_that_slurm_knows_again_has_not_failed(cluster: Cluster, as_bob: Actor) -> None:
    job = submitted(as_bob, cluster)
    answered(cluster)
    runs = SlurmSeen(job.pk, "RUNNING", 7)
    answered(cluster, runs)
    with time_machine.travel(clock.now(), tick=False) as traveller:
        for seen in (gone(job), runs, gone(job)):
            answered(cluster, seen)
            traveller.shift(timedelta(minutes=9))
    assert now_of(job).state == "running"
