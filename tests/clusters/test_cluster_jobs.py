"""Jobs on Slurm clusters: offered to the head until it confirms them, followed until they end, and each run as its owner."""

import uuid
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from pytest_django import DjangoCaptureOnCommitCallbacks

from gpuaas.clusters import services
from gpuaas.clusters.models import Cluster, ClusterJob, ClusterTemplate
from gpuaas.clusters.services import cluster_delete, cluster_job_cancel, queue_report
from gpuaas.clusters.spec import spec_of
from gpuaas.core import clock
from gpuaas.core.errors import Conflict, Forbidden, Invalid, NotFound
from gpuaas.providers.base import GONE, REFUSED, SlurmSeen, queue_token
from tenants.actors import Actor
from tenants.models import AuditEntry, Project, User
from tenants.selectors import actor_for
from tenants.services.members import project_member_remove
from tests.clusters.slurm_stage import (
    ORDER,
    answered,
    by_head,
    entered,
    jobs_carry_out,
    reread,
    submitted,
)
from tests.factories.tenants import ProjectMembershipFactory, UserFactory
from tests.lasting import lasting

pytestmark = pytest.mark.django_db


@pytest.fixture
@lasting
def cluster(slurm: Cluster) -> Cluster:
    """Whose head reports, and lets bob in."""
    by_head()
    return entered(slurm)


def seen(job: ClusterJob, state: str, **more: Any) -> SlurmSeen:
    return SlurmSeen(job.pk, state, **{"slurm_id": 7, **more})


def now_of(job: ClusterJob) -> ClusterJob:
    return ClusterJob.objects.get(pk=job.pk)


def test_a_job_is_offered_until_slurm_has_it_and_followed_until_it_ends(
    cluster: Cluster, as_bob: Actor
) -> None:
    job = submitted(as_bob, cluster)
    assert (job.state, job.script) == ("queued", "#!/bin/bash -l\necho hello\n")
    for _ in range(2):
        (order,) = answered(cluster)
        assert (order.id, order.submit, order.login, order.script) == (job.pk, True, "bob", job.script)
    (order,) = answered(cluster, seen(job, "PENDING", reason="Resources"))
    assert (order.submit, order.script, order.slurm_id) == (False, "", 7)
    assert (now_of(job).state, now_of(job).reason) == ("pending", "Resources")
    answered(cluster, seen(job, "RUNNING", log="at \x1b[1mwork\x1b[0m\n"))
    assert (now_of(job).state, now_of(job).reason, now_of(job).log) == ("running", "", "at work\n")
    answered(cluster, seen(job, "RUNNING"))
    assert now_of(job).log == "at work\n", "what was not read now is not lost"
    ended = clock.now()
    assert answered(cluster, seen(job, "COMPLETED", exit_code=0, ended_at=ended, log="done\n")) == []
    assert (now_of(job).state, now_of(job).exit_code, now_of(job).finished_at) == ("succeeded", 0, ended)
    answered(cluster, seen(job, "RUNNING"))
    assert now_of(job).state == "succeeded", "an end is never taken back"


@pytest.mark.parametrize(
    ("word", "state", "reason"),
    [
        ("FAILED", "failed", "its script ended with exit code 3"),
        ("NODE_FAIL", "failed", "one of its nodes failed"),
        ("TIMEOUT", "failed", "it reached its time limit"),
        ("OUT_OF_MEMORY", "failed", "it used more memory than it had asked for"),
        (REFUSED, "failed", "Requested node configuration is not available"),
        ("CANCELLED", "cancelled", ""),
        ("REQUEUED", "pending", "Requested node configuration is not available"),
        ("COMPLETING", "running", ""),
    ],
)
def test_words_of_slurm_are_states_of_ours(
    cluster: Cluster, as_bob: Actor, word: str, state: str, reason: str
) -> None:
    job = submitted(as_bob, cluster)
    answered(cluster)
    more = (
        {"reason": "Requested node configuration is not available"} if word in {REFUSED, "REQUEUED"} else {}
    )
    answered(cluster, seen(job, word, exit_code=3, **more))
    assert (now_of(job).state, now_of(job).reason) == (state, reason)


def test_a_job_that_slurm_had_and_does_not_know_any_more_has_failed(cluster: Cluster, as_bob: Actor) -> None:
    job = submitted(as_bob, cluster)
    assert answered(cluster, SlurmSeen(job.pk, GONE))[0].submit, "it never had it: it is offered on"
    answered(cluster, seen(job, "RUNNING"))
    answered(cluster, SlurmSeen(job.pk, GONE))
    assert now_of(job).state == "running", "the accounting may be behind"
    with time_machine.travel(clock.now() + timedelta(minutes=11), tick=False):
        assert answered(cluster, SlurmSeen(job.pk, GONE)) == []
    assert (now_of(job).state, now_of(job).reason) == ("failed", "Slurm no longer knows its job 7")


def test_a_cancelled_job_is_not_offered_and_one_that_was_is_cancelled_there(
    cluster: Cluster, as_bob: Actor, as_alice: Actor
) -> None:
    first = cluster_job_cancel(actor=as_alice, job=submitted(as_bob, cluster))
    assert (first.state, answered(cluster)) == ("cancelled", []), "no head had it"
    job = submitted(as_bob, cluster)
    answered(cluster)
    assert cluster_job_cancel(actor=as_bob, job=job).state == "queued", "the head may have it"
    (order,) = answered(cluster)
    assert (order.submit, order.cancel, order.script) == (False, True, "")
    assert answered(cluster, SlurmSeen(job.pk, GONE)) == []
    assert now_of(job).state == "cancelled"
    cluster_job_cancel(actor=as_bob, job=now_of(job))
    assert AuditEntry.objects.filter(action="cluster.job_cancel").count() == 2


def test_one_that_has_ended_is_not_cancelled(cluster: Cluster, as_bob: Actor) -> None:
    job = submitted(as_bob, cluster)
    answered(cluster, seen(job, "COMPLETED", exit_code=0))
    with pytest.raises(Conflict, match="the job has ended"):
        cluster_job_cancel(actor=as_bob, job=job)


def test_what_waits_of_somebody_who_left_is_cancelled(
    cluster: Cluster, project: Project, as_alice: Actor, as_bob: Actor, bob: User
) -> None:
    runs, waits = submitted(as_bob, cluster), submitted(as_bob, cluster)
    assert len(answered(cluster)) == 2
    answered(cluster, seen(runs, "RUNNING"), seen(waits, "PENDING"))
    new = submitted(as_bob, cluster)
    project_member_remove(actor=as_alice, project=project, user=bob)
    assert {one.id: one.cancel for one in answered(cluster)} == {runs.pk: False, waits.pk: True}, (
        "whether what runs ends is the template's choice"
    )
    words = "bob may no longer enter the cluster"
    assert (now_of(new).state, now_of(new).reason) == ("cancelled", words)
    answered(cluster, seen(runs, "RUNNING"), seen(waits, "CANCELLED"))
    assert (now_of(waits).state, now_of(waits).reason) == ("cancelled", words)
    entries = AuditEntry.objects.filter(action="cluster.job_cancel").values_list("after", flat=True)
    told = [{"job": str(one.pk), "name": "train", "reason": words} for one in (waits, new)]
    assert list(entries.order_by("pk")) == told


def test_what_waits_of_somebody_who_left_is_cancelled_where_nobody_has_an_account(
    slurm: Cluster, project: Project, as_alice: Actor, as_bob: Actor, bob: User
) -> None:
    runs, waits = submitted(as_bob, slurm, script="sleep 600"), submitted(as_bob, slurm)
    jobs_carry_out()
    new = submitted(as_bob, slurm)
    project_member_remove(actor=as_alice, project=project, user=bob)
    jobs_carry_out()
    assert (now_of(runs).state, now_of(runs).login) == ("running", None)
    for job in (waits, new):
        assert (now_of(job).state, now_of(job).reason) == ("cancelled", "bob may no longer enter the cluster")


def test_a_cluster_that_does_not_answer_stops_no_other(slurm: Cluster, as_bob: Actor) -> None:
    job = submitted(as_bob, slurm)
    silent = _other(slurm)
    ClusterJob.objects.filter(pk=submitted(as_bob, slurm).pk).update(cluster=silent)
    assert set(services.jobs_due()) == {slurm.pk, silent.pk}
    assert (services.jobs_carry_out(silent.pk), services.jobs_carry_out(slurm.pk)) == (False, True)
    assert now_of(job).state == "running"


def test_people_without_an_account_there_are_refused(
    cluster: Cluster, project: Project, as_alice: Actor, as_charlie: Actor
) -> None:
    with pytest.raises(Conflict, match="your account alice is being made on the cluster"):
        submitted(as_alice, cluster)
    with pytest.raises(NotFound):
        submitted(as_charlie, cluster)
    with pytest.raises(NotFound):
        cluster_job_cancel(actor=as_charlie, job=ClusterJob(cluster=cluster))
    assert not ClusterJob.objects.exists()


def test_the_account_of_an_owner_is_made_by_the_first_try(cluster: Cluster, as_alice: Actor) -> None:
    with pytest.raises(Conflict, match="your account alice is being made"):
        submitted(as_alice, cluster)
    answered(cluster, logins=("bob", "alice"))
    assert submitted(as_alice, reread(cluster)).login is not None


@pytest.fixture
def vera(project: Project) -> User:
    user = UserFactory.create(username="vera")
    ProjectMembershipFactory.create(project=project, user=user, role="viewer")
    return user


def test_a_viewer_may_not_submit(cluster: Cluster, vera: User) -> None:
    with pytest.raises(Forbidden):
        submitted(actor_for(user=vera), cluster)


def test_heads_of_before_take_none(slurm: Cluster, as_bob: Actor) -> None:
    by_head()
    with pytest.raises(Conflict, match="has not reported yet"):
        submitted(as_bob, reread(slurm))
    token = queue_token(spec_of(slurm).boots.seed, cluster=slurm.pk)
    for _ in range(2):
        assert queue_report(token=token, pools=None, logins=["bob"]).jobs is None
    with pytest.raises(Conflict, match="made before the portal could hand jobs to it"):
        submitted(as_bob, reread(slurm))


def test_heads_that_never_report_logins_are_as_old(cluster: Cluster, as_bob: Actor) -> None:
    """Those of clusters with one account for all; and while a head has not said whom it lets in, no job is for nobody."""
    Cluster.objects.filter(pk=cluster.pk).update(logins=None)
    with pytest.raises(Conflict, match="has not reported yet"):
        submitted(as_bob, reread(cluster))
    Cluster.objects.filter(pk=cluster.pk).update(takes_jobs=False)
    with pytest.raises(Conflict, match="has not reported yet"):
        submitted(as_bob, reread(cluster))
    queue_report(token=queue_token(spec_of(cluster).boots.seed, cluster=cluster.pk), pools=[])
    with pytest.raises(Conflict, match="cluster was made before"):
        submitted(as_bob, reread(cluster))


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (181, "its log could not be written: see that the home has room"),
        (None, "Slurm gives no exit code"),
        (3, "its script ended with exit code 3"),
    ],
)
def test_how_a_script_failed_is_said_as_it_is(
    cluster: Cluster, as_bob: Actor, code: int | None, words: str
) -> None:
    job = submitted(as_bob, cluster)
    answered(cluster)
    answered(cluster, seen(job, "FAILED", exit_code=code))
    assert now_of(job).reason.startswith(words)


def test_a_kubernetes_cluster_takes_none(cluster: Cluster, as_bob: Actor) -> None:
    ClusterTemplate.objects.update(kind="kubernetes")
    with pytest.raises(Conflict, match="Slurm clusters only"):
        submitted(as_bob, reread(cluster))
    token = queue_token(spec_of(cluster).boots.seed, cluster=cluster.pk)
    assert queue_report(token=token, pools=[], logins=["bob"], jobs=[]).jobs is None


@pytest.mark.parametrize(
    ("given", "field", "words"),
    [
        ({"name": "Train"}, "name", "lower-case letters"),
        ({"name": "a%j"}, "name", "lower-case letters"),
        ({"script": " \n"}, "script", "enter the script"),
        ({"script": "a\x00"}, "script", "null character"),
        ({"script": "x" * 40_000}, "script", "32,768"),
        ({"script": "#!/bin/sh\n#SBATCH --uid=root\n"}, "script", "line 2 asks Slurm"),
        ({"partition": "far"}, "partition", "choose one of gpu"),
        ({"gpus_per_node": 3}, "gpus_per_node", "a worker of gpu has 2"),
        ({"cpus_per_task": 33}, "cpus_per_task", "a worker of gpu has 32"),
        ({"memory_gib": 325}, "memory_gib", "a worker of gpu has 324 for jobs"),
        ({"nodes": 2, "tasks": 2}, "nodes", "gpu has 1 worker, and this asks for 2 nodes"),
        ({"tasks": 9, "cpus_per_task": 4}, "tasks", "can run 8 with 4 vCPUs each, and this asks for 9"),
        ({"nodes": True}, "nodes", "whole number"),
        ({"minutes": 0}, "minutes", "whole number"),
        ({"image": "x"}, "image", "unknown field"),
    ],
)
def test_what_cannot_be_is_refused_at_its_field(
    cluster: Cluster, as_bob: Actor, given: dict[str, Any], field: str, words: str
) -> None:
    with pytest.raises(Invalid, match=words) as refused:
        submitted(as_bob, cluster, **given)
    assert set(refused.value.fields) == {field}


def test_jobs_end_with_their_cluster(
    slurm: Cluster,
    as_alice: Actor,
    as_bob: Actor,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    job = submitted(as_bob, slurm)
    cluster_delete(actor=as_alice, cluster=slurm)
    with django_capture_on_commit_callbacks() as calls:
        jobs_carry_out()
    assert (now_of(job).state, now_of(job).reason) == ("cancelled", "the cluster was deleted")
    assert calls, "pages hear of it"


def test_a_report_about_other_jobs_changes_nothing(
    cluster: Cluster, as_bob: Actor, as_alice: Actor, project: Project
) -> None:
    job = submitted(as_bob, cluster)
    ClusterJob.objects.filter(pk=job.pk).update(cluster=_other(cluster))
    assert answered(cluster, seen(job, "RUNNING"), SlurmSeen(uuid.uuid4(), "RUNNING")) == []
    assert now_of(job).state == "queued"


def _other(cluster: Cluster) -> Cluster:
    made = Cluster.objects.get(pk=cluster.pk)
    made.pk, made.name, made._state.adding = uuid.uuid4(), "other", True
    made.save()
    return made


def test_the_simulated_slurm_runs_them_one_after_the_other(slurm: Cluster, as_bob: Actor) -> None:
    """The cluster has one worker of two GPUs."""
    first = submitted(as_bob, slurm, script="sleep 30; exit 3")
    second, third = submitted(as_bob, slurm), submitted(as_bob, slurm)

    def states() -> list[str]:
        jobs_carry_out()
        return [now_of(job).state for job in (first, second, third)]

    begins = clock.now()
    with time_machine.travel(begins, tick=False) as traveller:
        assert states() == ["running", "pending", "pending"]
        assert now_of(second).reason == "Resources"
        cluster_job_cancel(actor=as_bob, job=third)
        assert states() == ["running", "pending", "cancelled"]
        traveller.shift(timedelta(seconds=31))
        assert states() == ["failed", "running", "cancelled"]
        traveller.shift(timedelta(seconds=2))
        assert states() == ["failed", "succeeded", "cancelled"]
    assert (now_of(first).exit_code, now_of(first).log.count("at work")) == (3, 30)
    assert ORDER["name"] == now_of(first).name
