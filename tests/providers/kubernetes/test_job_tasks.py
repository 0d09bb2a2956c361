"""The Job of several tasks: its manifest, what is read from its pods, and that the guards admit all of it."""

import uuid
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import time_machine

from gpuaas.core import clock
from gpuaas.core.errors import Permanent
from gpuaas.providers.base import Change, JobPhase, JobSpec
from gpuaas.providers.kubeapi import names
from gpuaas.providers.kubeapi.client import Object
from gpuaas.providers.kubernetes.attempts import CONTAINER
from gpuaas.providers.kubernetes.jobs import BATCH, TIDIED, job_of
from gpuaas.providers.kubernetes.tasks import FAILURES, INDEX, Pods, seen, service_of, short_of
from tests.lab.fixtures import carry_out, until
from tests.lab.jobs import seen_as
from tests.providers.kubernetes.conftest import Room
from tests.providers.kubernetes.test_jobs import SPEC, ended, job, terminated

ARRAY = replace(SPEC, tasks=40, at_once=4)
GANG = replace(SPEC, tasks=3, at_once=3, together=True)
NAME = SPEC.name


def variables(spec: JobSpec) -> dict[str, Any]:
    (container,) = job_of(spec)["spec"]["template"]["spec"]["containers"]
    return {
        each["name"]: each.get("value") or each["valueFrom"]["fieldRef"]["fieldPath"]
        for each in container["env"]
    }


def pod(
    number: int, phase: str, state: Object | None = None, *, failures: int = 0, gone: bool = False
) -> Object:
    notes = {INDEX: str(number), **({FAILURES: str(failures)} if failures else {})}
    meta: Object = {
        "name": f"p-{number}-{failures}",
        "uid": "u",
        "creationTimestamp": f"2026-11-26T12:0{failures}:00Z",
    }
    meta |= {"annotations": notes, **({"deletionTimestamp": "2026-11-26T12:09:00Z"} if gone else {})}
    containers = [{"name": CONTAINER, "state": state}] if state else []
    spec = {"containers": [{}], "nodeName": f"n{number}"}
    return {"metadata": meta, "spec": spec, "status": {"phase": phase, "containerStatuses": containers}}


def running(number: int) -> Object:
    return pod(number, "Running", {"running": {}})


# -- manifests -----------------------------------------------------------------------------------------------------


def test_one_task_is_no_indexed_job() -> None:
    spec = job_of(SPEC)["spec"]
    assert set(spec) == {"backoffLimit", "podReplacementPolicy", "template", "activeDeadlineSeconds"}
    assert "subdomain" not in spec["template"]["spec"]
    assert set(job_of(SPEC)["metadata"]["labels"]) == {names.MANAGED_BY, names.JOB}


def test_tasks_of_an_array_are_tried_again_by_the_site_each_for_itself() -> None:
    spec = job_of(ARRAY)["spec"]
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 40, 4)
    assert (spec["backoffLimitPerIndex"], "backoffLimit" in spec) == (2, False)
    assert (variables(ARRAY), "subdomain" in spec["template"]["spec"]) == ({"EPOCHS": "3"}, False)


def test_a_failure_of_those_together_fails_the_job_and_another_attempt_is_another_job() -> None:
    made = job_of(GANG)
    assert (made["spec"]["backoffLimit"], made["spec"]["completions"], made["spec"]["parallelism"]) == (
        0,
        3,
        3,
    )
    assert made["metadata"]["labels"][names.ATTEMPT] == "1"
    assert "metadata" not in made["spec"]["template"]  # a pod with a label of ours is admitted of nobody
    since = clock.now()
    second = replace(GANG, attempt=2, since=since)
    with time_machine.travel(since + timedelta(seconds=100), tick=False):
        assert job_of(second)["spec"]["activeDeadlineSeconds"] == 500
    with time_machine.travel(since + timedelta(seconds=900), tick=False):
        assert job_of(second)["spec"]["activeDeadlineSeconds"] == 1
    assert job_of(replace(GANG, since=since))["spec"]["activeDeadlineSeconds"] == 600


def test_they_find_one_another_by_names_that_are_known_before_they_run() -> None:
    found = variables(GANG)
    assert found == {
        "MASTER_ADDR": f"{NAME}-0.{NAME}",
        "MASTER_PORT": "29500",
        "NNODES": "3",
        "HOSTS": f"{NAME}-0.{NAME}:2,{NAME}-1.{NAME}:2,{NAME}-2.{NAME}:2",
        "PET_MASTER_ADDR": f"{NAME}-0.{NAME}",
        "PET_MASTER_PORT": "29500",
        "PET_NNODES": "3",
        "PET_NPROC_PER_NODE": "2",
        "NODE_RANK": f"metadata.annotations['{INDEX}']",
        "PET_NODE_RANK": f"metadata.annotations['{INDEX}']",
        "EPOCHS": "3",
    }
    assert job_of(GANG)["spec"]["template"]["spec"]["subdomain"] == NAME
    service = service_of(GANG)
    assert (service["metadata"]["name"], service["spec"]["clusterIP"]) == (NAME, "None")
    assert service["spec"]["publishNotReadyAddresses"] is True


def test_one_process_a_task_is_what_torch_reads_without_a_launcher() -> None:
    single = variables(replace(GANG, gpus=1))
    assert (single["WORLD_SIZE"], single["RANK"]) == ("3", f"metadata.annotations['{INDEX}']")


def test_what_the_order_sets_counts_more() -> None:
    chosen = variables(replace(GANG, variables={"MASTER_PORT": "12345"}))
    assert chosen["MASTER_PORT"] == "12345"
    assert list(chosen)[-1] == "MASTER_PORT"


@pytest.mark.parametrize(
    ("key", "used", "hard", "words"),
    [
        ("requests.nvidia.com/gpu", "1", "6", "requests.nvidia.com/gpu=6, used 1, quota 6"),
        ("requests.cpu", "500m", "12", "requests.cpu=12, used 500m, quota 12"),
        ("requests.memory", "1Gi", "48Gi", "requests.memory=48Gi, used 1Gi, quota 48Gi"),
        ("pods", "248", "250", "pods=3, used 248, quota 250"),
    ],
)
def test_what_its_quota_has_too_little_of_is_said(key: str, used: str, hard: str, words: str) -> None:
    assert words in short_of({"hard": {key: hard}, "used": {key: used}}, GANG)
    assert short_of({"hard": {key: hard}, "used": {key: "0"}}, GANG) == ""
    assert short_of({}, GANG) == ""


# -- what is read --------------------------------------------------------------------------------------------------


def status(made: Object, **facts: str) -> Object:
    made["status"] |= facts
    return made


def test_an_array_by_its_indexes_and_pods() -> None:
    found = status(job(), completedIndexes="0-3,7", failedIndexes="4")
    live = [running(5), pod(6, "Pending"), running(8)]
    over = [pod(4, "Failed", terminated(3)), pod(4, "Failed", terminated(3), failures=1), pod(7, "Succeeded")]
    read = seen(found, Pods(live, over), ARRAY)
    assert (read.phase, read.running, read.succeeded, read.failed) == (JobPhase.RUNNING, "5,8", "0-3,7", "4")
    first = read.tasks[0]
    assert (first.number, first.phase, first.exit_code, first.attempt, first.node) == (
        4,
        JobPhase.FAILED,
        3,
        2,
        "n4",
    )
    assert [each.number for each in read.tasks] == [4, 5, 8, 6, 7]
    two = status(job(), completedIndexes="0,1", failedIndexes="3,4")
    assert (seen(two, Pods([], []), ARRAY).succeeded, seen(two, Pods([], []), ARRAY).failed) == ("0-1", "3-4")


def test_how_an_array_has_failed() -> None:
    found = status(job(ended("Failed", "FailedIndexes", "Job has failed indexes")), failedIndexes="4,17-18")
    over = [pod(17, "Failed", terminated(1)), pod(4, "Failed", terminated(137, "OOMKilled"))]
    read = seen(found, Pods([], over), ARRAY)
    assert (read.phase, read.reason, read.exit_code) == (JobPhase.FAILED, "OOMKilled", 137)
    assert (
        read.detail == "3 of 40 tasks failed: 4, 17-18; the first: it needed more than its 16 GiB of memory"
    )
    late = status(job(ended("Failed", "DeadlineExceeded")), failedIndexes="4")
    assert (
        seen(late, Pods([], over), ARRAY).detail == "it was not done within 600 seconds, so the site ended it"
    )


def test_those_together_run_once_all_of_them_do() -> None:
    waits = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    some = seen(job(), Pods([running(0), running(1), pod(2, "Pending")], []), GANG)
    assert (some.phase, some.running, some.hopeless) == (JobPhase.WAITING, "0-1", False)
    assert some.detail.startswith("2 of its 3 tasks wait for the others; task 2: ")
    hopeless = seen(job(), Pods([running(0), running(1), pod(2, "Pending", waits)], []), GANG)
    assert (hopeless.hopeless, hopeless.reason) == (True, "ImagePullBackOff")
    assert seen(job(), Pods([running(0), running(1), running(2)], []), GANG).phase is JobPhase.RUNNING
    assert seen(job(), Pods([running(0), running(1)], [pod(2, "Succeeded")]), GANG).phase is JobPhase.WAITING
    done = status(job(), completedIndexes="2")
    assert seen(done, Pods([running(0), running(1)], [pod(2, "Succeeded")]), GANG).phase is JobPhase.RUNNING


def test_whose_failure_ended_those_together() -> None:
    """The others were ended by the site, which removes them."""
    found = job(ended("Failed", "BackoffLimitExceeded"))
    late = terminated(1)
    late["terminated"]["finishedAt"] = "2026-11-26T12:00:09Z"
    early = terminated(3)
    early["terminated"]["finishedAt"] = "2026-11-26T12:00:01Z"
    over = [pod(0, "Failed", terminated(143), gone=True), pod(1, "Failed", late), pod(2, "Failed", early)]
    read = seen(found, Pods([], over), replace(GANG, attempt=2))
    assert (read.phase, read.exit_code, read.attempt, read.failed) == (JobPhase.FAILED, 3, 2, "1-2")
    assert read.detail == "task 1-2 failed, which ends the others: its command ended with exit code 3"
    nobody = seen(found, Pods([], over[:1]), GANG)
    assert (nobody.reason, nobody.detail) == (
        "Evicted",
        "the site removed one of its tasks, which ends the others",
    )


@pytest.mark.parametrize("index", ["x", "-5", "99999999", "40", "", "9" * 5000])
def test_a_number_that_a_member_changed_hides_its_pod_alone(index: str) -> None:
    """A look at the others that throws would be repeated for ever."""
    changed, ended_so = running(5), pod(7, "Failed", terminated(3), failures=1)
    changed["metadata"]["annotations"][INDEX] = index
    ended_so["metadata"]["annotations"][FAILURES] = index if index != "40" else "y"
    for spec in (ARRAY, GANG):
        read = seen(job(), Pods([changed, running(2)], [ended_so]), spec)
        assert (read.running, 5 in {each.number for each in read.tasks}) == ("2", False)
    array = seen(job(), Pods([running(2)], [ended_so]), ARRAY)
    assert [each.number for each in array.tasks] == [2, 7]


# -- at the real API server ----------------------------------------------------------------------------------------


@pytest.mark.lab
def test_the_guards_admit_its_service_and_its_pods_have_their_names(room: Room) -> None:
    spec = replace(
        GANG,
        workspace=room.ref,
        name=f"{NAME}-{uuid.uuid4().hex[:4]}",
        command=("sleep", "3600"),
        tasks=2,
        at_once=2,
        gpus=1,
        vcpus=1,
        memory_gib=1,
    )
    site = room.driver.jobs
    carry_out(site, Change.CREATE, spec)
    seen_as(site, spec, JobPhase.RUNNING)
    service = f"{room.path('services')}/{spec.name}"
    assert room.admin.get(service)["spec"]["clusterIP"] == "None"
    mine: Object = {"spec": {"selector": {"mine": "yes"}}}
    for unwanted in (lambda: room.tenant.merge(service, mine), lambda: room.tenant.delete(service)):
        with pytest.raises(Permanent, match="belongs to the portal"):
            unwanted()
    found = room.admin.items(room.path("pods"), labelSelector=f"batch.kubernetes.io/job-name={spec.name}")
    assert sorted(each["spec"]["hostname"] for each in found) == [f"{spec.name}-0", f"{spec.name}-1"]
    assert {each["spec"]["subdomain"] for each in found} == {spec.name}
    attempt = {"metadata": {"labels": {names.ATTEMPT: "9"}}}
    with pytest.raises(Permanent, match="belong to the portal"):
        room.tenant.merge(f"{room.path('jobs', BATCH)}/{spec.name}", attempt)
    carry_out(site, Change.DELETE, spec)
    assert room.admin.find(service) is None


@pytest.mark.lab
def test_of_many_tasks_nothing_stays_at_the_site_of_what_succeeded(room: Room) -> None:
    many: Any = {
        "tasks": TIDIED + 1,
        "at_once": 2,
        "gpus": 0,
        "resource_name": "",
        "vcpus": 1,
        "memory_gib": 1,
    }
    spec = replace(
        SPEC, workspace=room.ref, name=f"{NAME}-many", command=("true",), deadline_seconds=None, **many
    )
    site = room.driver.jobs
    carry_out(site, Change.CREATE, spec)
    until(lambda: site.observe(spec).succeeded.startswith("0-"), "some have succeeded")

    def is_tidy() -> bool:
        site.tidy(spec)
        left = room.admin.items(room.path("pods"), fieldSelector="status.phase=Succeeded")
        return not left and bool(site.observe(spec).succeeded)

    until(is_tidy, "their pods are gone, and they count as before")
    carry_out(site, Change.DELETE, spec)
