"""Pages of jobs on a Slurm cluster: its card, the list, the form, and one job; an outsider finds none of them."""

from datetime import timedelta

import pytest
import time_machine
from django.test import Client

from gpuaas.catalog.models import Site
from gpuaas.clusters.models import Cluster, ClusterJob, ClusterQueue
from gpuaas.core import clock
from tenants.actors import Actor
from tenants.models import Project, User
from tests.clusters.slurm_stage import by_head, jobs_carry_out, slurm_ready, submitted
from tests.frontend.markup import words
from tests.frontend.pages.conftest import signed_in
from tests.jobs.stage import credential
from tests.lasting import lasting

pytestmark = pytest.mark.django_db
FORM = {
    "name": "train",
    "script": "echo hello\r\nsleep 600\r\n",
    "partition": "gpu",
    "nodes": "1",
    "tasks": "1",
    "gpus_per_node": "2",
    "cpus_per_task": "4",
    "memory_gib": "",
    "minutes": "30",
}


@pytest.fixture
@lasting
def cluster(as_alice: Actor, as_olga: Actor, project: Project, site: Site, bob: User) -> Cluster:
    return slurm_ready(as_alice, as_olga, project, site)


@pytest.fixture
def at(cluster: Cluster) -> str:
    return f"/p/weather-lm/clusters/{cluster.pk}/"


@pytest.fixture
def bobs(bob: User) -> Client:
    return signed_in(bob)


def test_a_job_from_the_form_to_its_log(bobs: Client, at: str) -> None:
    page = words(bobs.get(at))
    assert "No job of the portal waits or runs here." in page
    assert f"{at}jobs/new/" in page
    assert "gpu: 1 worker, each with 2 GPUs, 32 vCPUs, 324 GiB for jobs" in words(bobs.get(f"{at}jobs/new/"))
    answer = bobs.post(f"{at}jobs/new/", FORM)
    job = ClusterJob.objects.get()
    assert answer["Location"] == f"{at}jobs/{job.pk}/"
    assert (job.script, job.memory_gib, job.minutes) == ("#!/bin/bash -l\necho hello\nsleep 600\n", None, 30)
    page = words(bobs.get(answer["Location"]))
    assert "has not confirmed this one yet" in page
    jobs_carry_out()
    for address in (at, f"{at}jobs/"):
        page = words(bobs.get(address))
        assert "Running" in page
        assert "train" in page
    page = words(bobs.get(answer["Location"]))
    for part in ("Running", "1 node × 2 GPUs", "30 minutes", "echo hello", "Log"):
        assert part in page
    bobs.post(f"{answer['Location']}cancel/")
    assert "Cancelling" in words(bobs.get(answer["Location"]))
    jobs_carry_out()
    assert "Cancelled" in words(bobs.get(answer["Location"]))


def test_what_has_ended_is_not_awaited(bobs: Client, at: str, cluster: Cluster, as_bob: Actor) -> None:
    job = submitted(as_bob, cluster)
    address = f"{at}jobs/{job.pk}/"
    assert "nothing has been read of it so far" in words(bobs.get(address))
    ClusterJob.objects.update(log_taken_at=job.created_at)
    assert "has written nothing so far" in words(bobs.get(address))
    ClusterJob.objects.update(state="succeeded", finished_at=job.created_at)
    assert "It wrote nothing." in words(bobs.get(address))
    ClusterJob.objects.update(log_taken_at=None)
    page = words(bobs.get(address))
    assert "nothing was read of it." in page
    assert "so far" not in page


def test_what_was_heard_last_is_named_where_it_is_old(
    bobs: Client, at: str, cluster: Cluster, as_bob: Actor
) -> None:
    job = submitted(as_bob, cluster, script="sleep 600")
    jobs_carry_out()
    address = f"{at}jobs/{job.pk}/"
    page = words(bobs.get(address))
    assert "Last seen in Slurm" in page
    assert "Nothing was heard of it since" not in page
    assert "last seen" not in words(bobs.get(at)) + words(bobs.get(f"{at}jobs/"))
    ClusterJob.objects.update(seen_at=clock.now() - timedelta(days=3))
    assert "Nothing was heard of it since" in words(bobs.get(address))
    for other in (at, f"{at}jobs/"):
        assert "last seen" in words(bobs.get(other))
    Cluster.objects.update(state="suspended")
    assert "The cluster is suspended: it has no workers" in words(bobs.get(address))


def test_a_job_for_a_silent_head_says_so(bobs: Client, at: str, cluster: Cluster, as_bob: Actor) -> None:
    job = submitted(as_bob, cluster)
    address = f"{at}jobs/{job.pk}/"
    ClusterQueue.objects.create(cluster=cluster, told_at=clock.now() - timedelta(minutes=4))
    ClusterJob.objects.update(reason="sbatch: the home is full")
    assert (
        "Sbatch: the home is full. The cluster asks for its jobs twice a minute, and tries again."
        in words(bobs.get(address))
    )
    ClusterQueue.objects.update(told_at=clock.now() - timedelta(minutes=6))
    page = words(bobs.get(address))
    assert "The head of the cluster has not reported since" in page
    assert "twice a minute" not in page


def test_a_job_runs_again_with_what_was_asked_before(bobs: Client, at: str) -> None:
    bobs.post(f"{at}jobs/new/", {**FORM, "memory_gib": "64"})
    job = ClusterJob.objects.get()
    again = f"{at}jobs/new/?again={job.pk}"
    assert again in words(bobs.get(f"{at}jobs/{job.pk}/"))
    form = bobs.get(again).context["form"]
    filled = {name: form[name].value() for name in FORM}
    assert filled == {name: getattr(job, name) for name in FORM}
    assert bobs.post(again, {**FORM, "name": "again"}).status_code == 302
    for nothing in (job.cluster_id, "nonsense", ""):
        assert bobs.get(f"{at}jobs/new/?again={nothing}").context["form"]["name"].value() is None


def test_jobs_are_found_by_their_people(
    bobs: Client, at: str, cluster: Cluster, as_alice: Actor, as_bob: Actor
) -> None:
    submitted(as_bob, cluster, name="of-bob")
    submitted(as_alice, cluster, name="of-alice")
    page = words(bobs.get(f"{at}jobs/?created_by=alice"))
    assert "of-alice" in page
    assert "of-bob" not in page
    assert "everybody" in page


def test_refusals_stand_beside_their_fields(bobs: Client, at: str) -> None:
    answer = bobs.post(f"{at}jobs/new/", {**FORM, "script": "#SBATCH -N 2", "gpus_per_node": "3"})
    assert answer.status_code == 422
    page = words(answer)
    assert "asks Slurm for something by #SBATCH" in page
    assert "a worker of gpu has 2, and this asks for 3" in page
    assert not ClusterJob.objects.exists()


FILES = {
    "inputs_1_url": "s3://sets/digits",
    "inputs_1_credential": "archive",
    "inputs_1_folder": "data/digits",
    "outputs_0_url": "s3://results/missing",
    "outputs_0_credential": "archive",
    "outputs_0_folder": "out",
}


def test_files_of_a_job_from_the_form_to_moving_them_again(
    bobs: Client, at: str, as_alice: Actor, project: Project
) -> None:
    credential(as_alice, project)
    assert "inputs_3_url" not in bobs.get(f"{at}jobs/new/").content.decode()
    page = bobs.post(f"{at}jobs/new/", {**FORM, **FILES, "more": "1"}).content.decode()
    for part in ("inputs_3_folder", "s3://sets/digits", "data/digits"):
        assert part in page
    answer = bobs.post(f"{at}jobs/new/", {**FORM, **FILES, "script": "true"})
    job = ClusterJob.objects.get()
    assert job.inputs == [
        {"url": "s3://sets/digits", "credential": "archive", "volume": "", "folder": "data/digits"}
    ]
    page = words(bobs.get(answer["Location"]))
    for part in ("Staging in", "Its inputs are moved by a job of Slurm", "waits"):
        assert part in page
    with time_machine.travel(clock.now(), tick=False) as traveller:
        for _ in range(14):
            jobs_carry_out()
            traveller.shift(timedelta(seconds=2))
    page = words(bobs.get(answer["Location"]))
    for part in ("Failed", "Its outputs could not be moved: directory not found.", "24 of 24 files"):
        assert part in page
    assert "s3://sets/digits → data/digits" in page
    assert "Move files again" in page
    assert bobs.post(f"{answer['Location']}retry/").status_code == 302
    page = words(bobs.get(answer["Location"]))
    assert "Staging out" in page
    assert "Move files again" not in page
    assert bobs.post(f"{answer['Location']}retry/").status_code == 200, "with the refusal on the page"


def test_refusals_of_files_stand_beside_their_fields(bobs: Client, at: str) -> None:
    answer = bobs.post(f"{at}jobs/new/", {**FORM, **FILES, "inputs_1_folder": "../x"})
    assert answer.status_code == 422
    assert "inputs_1_credential" in answer.context["form"].errors
    assert "may not contain .." in answer.context["form"].errors["inputs_1_folder"][0]


def test_a_cluster_that_takes_none_says_why(bobs: Client, at: str, cluster: Cluster) -> None:
    by_head()
    Cluster.objects.filter(pk=cluster.pk).update(logins=["bob"])
    for address in (at, f"{at}jobs/", f"{at}jobs/new/"):
        assert "was made before the portal could hand jobs to it" in words(bobs.get(address))
    assert bobs.post(f"{at}jobs/new/", FORM).status_code == 422


def test_an_outsider_finds_nothing(charlie: User, at: str, cluster: Cluster, as_bob: Actor) -> None:
    job, charlies = submitted(as_bob, cluster), signed_in(charlie)
    for address in ("jobs/", "jobs/new/", f"jobs/{job.pk}/"):
        assert charlies.get(at + address).status_code == 404
    for deed in ("cancel", "retry"):
        assert charlies.post(f"{at}jobs/{job.pk}/{deed}/").status_code == 404


def test_a_job_is_found_at_its_own_cluster_alone(
    bobs: Client, at: str, cluster: Cluster, as_bob: Actor
) -> None:
    job = submitted(as_bob, cluster)
    other = Cluster.objects.get(pk=cluster.pk)
    other.pk, other.name, other._state.adding = job.pk, "other", True
    other.save()
    assert bobs.get(f"{at}jobs/{job.pk}/").status_code == 200
    assert bobs.get(f"/p/weather-lm/clusters/{other.pk}/jobs/{job.pk}/").status_code == 404
