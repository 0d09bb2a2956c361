"""The Job of a job, what is read from it and its pods, and what its pods may not be."""

import base64
import uuid
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gpuaas.core.errors import Permanent
from gpuaas.providers.base import (
    FILES_AT,
    SITE_VARIABLES,
    Change,
    JobPhase,
    JobSpec,
    WorkspaceRef,
)
from gpuaas.providers.kubeapi import ending, names
from gpuaas.providers.kubeapi.client import Object
from gpuaas.providers.kubernetes import jobs
from gpuaas.providers.kubernetes.attempts import CONTAINER, OWNER, is_of
from gpuaas.providers.kubernetes.jobs import job_of, seen
from tests.lab.fixtures import carry_out, until
from tests.lab.jobs import seen_as
from tests.providers.kubernetes.conftest import Room

SPEC = JobSpec(
    id=uuid.UUID("01a217b0-2b69-76ca-882c-cd2c6d04cabc"),
    name="job-6d04cabc-train",
    workspace=WorkspaceRef(uuid.uuid4(), "gpu-00000000-train"),
    image="train:1",
    command=("python", "train.py"),
    arguments=("--epochs=$(EPOCHS)",),
    variables={"EPOCHS": "3"},
    vcpus=4,
    memory_gib=16,
    user=1000,
    gpus=2,
    resource_name="nvidia.com/gpu",
    retries=2,
    deadline_seconds=600,
)


def pod_spec(spec: JobSpec = SPEC, **more: Any) -> Object:
    found: Object = job_of(spec, **more)["spec"]["template"]["spec"]
    return found


def test_the_site_makes_the_attempts_and_ends_it_and_removes_nothing_by_itself() -> None:
    spec = job_of(SPEC)["spec"]
    assert (spec["backoffLimit"], spec["activeDeadlineSeconds"]) == (2, 600)
    assert "ttlSecondsAfterFinished" not in spec
    assert spec["podReplacementPolicy"] == "Failed"
    assert "activeDeadlineSeconds" not in job_of(replace(SPEC, deadline_seconds=None))["spec"]


def test_its_pods_ask_for_exactly_what_was_ordered() -> None:
    (container,) = pod_spec()["containers"]
    amounts = {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "2"}
    assert container["resources"] == {"limits": amounts, "requests": amounts}
    assert (container["command"], container["args"]) == (["python", "train.py"], ["--epochs=$(EPOCHS)"])
    assert container["env"] == [{"name": "EPOCHS", "value": "3"}]
    (plain,) = pod_spec(replace(SPEC, command=(), arguments=()))["containers"]
    assert not {"command", "args"} & set(plain)


def test_nothing_of_the_portals_is_in_them_and_no_label_of_ours() -> None:
    """The guards admit none on what a controller makes."""
    job, spec = job_of(SPEC), pod_spec()
    assert job["metadata"]["labels"][names.JOB] == str(SPEC.id)
    assert names.WORKSPACE not in job["metadata"]["labels"]
    assert "metadata" not in job["spec"]["template"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["restartPolicy"] == "Never"
    assert [next(iter(set(each) - {"name"})) for each in spec["volumes"]] == ["emptyDir"]


def test_a_volume_is_mounted_where_it_was_asked_for() -> None:
    spec = pod_spec(replace(SPEC, volumes={"data": "/data"}))
    assert {"name": "volume", "persistentVolumeClaim": {"claimName": "data"}} in spec["volumes"]
    assert {"name": "volume", "mountPath": "/data"} in spec["containers"][0]["volumeMounts"]


def test_files_are_mounted_by_it_alone() -> None:
    spec = replace(
        SPEC, files={"rclone.conf": "secret"}, volumes={"data": "/volumes/0", "more": "/volumes/1"}
    )
    made = pod_spec(spec)
    assert {"name": "files", "secret": {"secretName": SPEC.name, "defaultMode": 0o440}} in made["volumes"]
    assert {"name": "files", "mountPath": FILES_AT, "readOnly": True} in made["containers"][0]["volumeMounts"]
    claims = [
        each["persistentVolumeClaim"]["claimName"]
        for each in made["volumes"]
        if "persistentVolumeClaim" in each
    ]
    assert claims == ["data", "more"]
    assert "secret" not in str(job_of(spec)).replace("secretName", "").replace("'secret':", "")


def test_a_guest_has_its_notice_to_end() -> None:
    assert job_of(SPEC)["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 30
    slow = job_of(replace(SPEC, grace_seconds=120))["spec"]["template"]["spec"]
    assert slow["terminationGracePeriodSeconds"] == 120
    assert "priorityClassName" not in slow


def test_openshift_chooses_the_account_itself() -> None:
    assert pod_spec()["securityContext"]["runAsUser"] == 1000
    chosen = pod_spec(chooses_users=False)["securityContext"]
    assert (chosen["runAsNonRoot"], "runAsUser" in chosen) == (True, False)


# -- what is read --------------------------------------------------------------------------------------------------


def job(*conditions: Object, failed: int = 0) -> Object:
    return {"metadata": {}, "status": {"conditions": list(conditions), "failed": failed}}


def ended(kind: str, reason: str = "", message: str = "") -> Object:
    return {"type": kind, "status": "True", "reason": reason, "message": message}


def pod(phase: str, state: Object | None = None, **status: Any) -> Object:
    containers = [{"name": CONTAINER, "state": state}] if state else []
    meta = {"name": "job-1", "uid": "u", "creationTimestamp": "2026-11-26T12:00:00Z"}
    found = {"phase": phase, "containerStatuses": containers, **status}
    return {"metadata": meta, "spec": {"containers": [{}], "nodeName": "n1"}, "status": found}


def terminated(code: int, reason: str = "Error") -> Object:
    return {"terminated": {"exitCode": code, "reason": reason}}


@pytest.mark.parametrize(
    ("found", "pods", "phase", "reason", "words", "attempt", "code"),
    [
        (job(), [], JobPhase.WAITING, "", "the site starts it", 1, None),
        (job(), [pod("Running", {"running": {}})], JobPhase.RUNNING, "", "", 1, None),
        (
            job(failed=1),
            [pod("Failed", terminated(3))],
            JobPhase.WAITING,
            "",
            "the site starts it again after a pause",
            2,
            3,
        ),
        (
            job(ended("Complete"), failed=1),
            [pod("Failed", terminated(3)), pod("Succeeded", terminated(0, "Completed"))],
            JobPhase.SUCCEEDED,
            "",
            "",
            2,
            0,
        ),
        (
            job(ended("Failed", "BackoffLimitExceeded"), failed=3),
            [pod("Failed", terminated(3))],
            JobPhase.FAILED,
            "Error",
            "its command ended with exit code 3",
            3,
            3,
        ),
        (
            job(ended("Failed", "BackoffLimitExceeded"), failed=1),
            [pod("Failed", terminated(137, "OOMKilled"))],
            JobPhase.FAILED,
            "OOMKilled",
            "it needed more than its 16 GiB of memory",
            1,
            137,
        ),
        (
            job(ended("Failed", "BackoffLimitExceeded"), failed=1),
            [pod("Failed", reason="Evicted", message="The node was low on resource: memory.")],
            JobPhase.FAILED,
            "Evicted",
            "The node was low on resource: memory.",
            1,
            None,
        ),
        (
            job(ended("Failed", "DeadlineExceeded", "Job was active longer than specified deadline")),
            [],
            JobPhase.FAILED,
            "DeadlineExceeded",
            "it was not done within 600 seconds, so the site ended it",
            1,
            None,
        ),
    ],
)
def test_what_a_job_and_its_pods_say(
    found: Object,
    pods: list[Object],
    phase: JobPhase,
    reason: str,
    words: str,
    attempt: int,
    code: int | None,
) -> None:
    read = seen(found, pods, SPEC)
    assert (read.phase, read.reason, read.detail) == (phase, reason, words)
    assert (read.attempt, read.exit_code, read.hopeless) == (attempt, code, False)


def test_an_image_that_cannot_be_had_is_hopeless() -> None:
    state = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    read = seen(job(), [pod("Pending", state)], SPEC)
    assert (read.phase, read.hopeless, read.reason) == (JobPhase.WAITING, True, "ImagePullBackOff")
    assert read.detail == "ImagePullBackOff: no such image"
    starts = seen(job(), [pod("Pending", {"waiting": {"reason": "ContainerCreating"}})], SPEC)
    assert (starts.hopeless, starts.phase) == (False, JobPhase.WAITING)


def test_its_attempts_are_those_that_the_site_has_made_for_it() -> None:
    """A member may name a pod as the owner of a pod, with whatever uid."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": SPEC.name, "uid": "u-1", "controller": True}

    def counts(**changes: Any) -> bool:
        return is_of({"metadata": {"ownerReferences": [{**owner, **changes}]}}, "u-1")

    assert counts()
    forged: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "Pod"},
        {"apiVersion": "example.com/v1"},
        {"controller": False},
        {"uid": "u-2"},
    ]
    assert not any(counts(**changes) for changes in forged)
    assert not is_of({"metadata": {}}, "u-1")


@pytest.mark.lab
def test_it_is_restricted_and_no_member_takes_its_place(room: Room) -> None:
    """Pod Security's strictest level has nothing to say of its pods; no member can make one that counts as its attempt."""
    spec = replace(SPEC, workspace=room.ref, vcpus=1, memory_gib=1, gpus=1)
    site = room.driver.jobs
    carry_out(site, Change.CREATE, spec)
    until(lambda: site.observe(spec).node != "", "it has a pod")
    space = f"/api/v1/namespaces/{room.spec.external_name}"
    strict = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    assert not [each for each in room.admin.warnings(space, strict) if spec.name in each]
    made = room.admin.get(f"{room.path('jobs', '/apis/batch/v1')}/{spec.name}")
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": spec.name, "uid": made["metadata"]["uid"]}
    mine: Object = {"metadata": {"name": "mine", "ownerReferences": [{**owner, "controller": True}]}}
    mine["spec"] = {"containers": [{"name": CONTAINER, "image": "train:1"}]}
    with pytest.raises(Permanent, match="of a pod no controller"):
        room.tenant.create(room.path("pods"), mine)
    pods_own = {**owner, "apiVersion": "v1", "kind": "Pod", "controller": True}
    mine["metadata"] |= {"name": "mine", "labels": {OWNER: spec.name}, "ownerReferences": [pods_own]}
    mine["metadata"]["finalizers"] = ["example.com/keep"]  # the site deletes it at once: its owner is nobody
    mine["spec"]["schedulingGates"] = [{"name": "example.com/never"}]
    room.tenant.create(room.path("pods"), mine)
    assert site.observe(spec).node
    room.admin.merge(f"{room.path('pods')}/mine", {"metadata": {"finalizers": None}})
    with pytest.raises(Permanent, match="belong to the portal"):
        room.tenant.merge(
            f"{room.path('jobs', '/apis/batch/v1')}/{spec.name}", {"metadata": {"labels": {names.JOB: None}}}
        )
    carry_out(site, Change.DELETE, spec)


@pytest.mark.lab
def test_its_files_are_a_secret_of_its_own_that_goes_with_it(room: Room) -> None:
    """It is made again as often as it is asked for, also where the portal was killed after the job alone was made."""
    spec = replace(
        SPEC, workspace=room.ref, vcpus=1, memory_gib=1, gpus=0, resource_name="", files={"word": "sesame"}
    )
    site, secret = room.driver.jobs, f"{room.path('secrets')}/{spec.name}"
    carry_out(site, Change.CREATE, spec)
    made = room.admin.get(secret)
    assert base64.b64decode(made["data"]["word"]) == b"sesame"
    job = room.admin.get(f"{room.path('jobs', '/apis/batch/v1')}/{spec.name}")
    assert [each["uid"] for each in made["metadata"]["ownerReferences"]] == [job["metadata"]["uid"]]
    with pytest.raises(Permanent, match=r"belongs? to the portal"):
        room.tenant.merge(secret, {"metadata": {"labels": {names.JOB: None}}})
    room.admin.delete(secret)
    carry_out(site, Change.CREATE, spec)
    assert room.admin.find(secret) is not None
    forgotten = replace(spec, files={"word": ""})
    carry_out(site, Change.SUSPEND, forgotten)
    assert (room.admin.find(secret), site.observe(forgotten).phase) == (None, JobPhase.GONE)
    carry_out(site, Change.DELETE, forgotten)


@pytest.mark.lab
def test_a_job_of_its_name_that_a_member_made_is_none_of_ours(room: Room) -> None:
    spec = replace(SPEC, workspace=room.ref, name=f"{SPEC.name}-taken", gpus=0, resource_name="")
    theirs = job_of(spec)
    theirs["metadata"].pop("labels")
    jobs, site = room.path("jobs", "/apis/batch/v1"), room.driver.jobs
    room.tenant.create(jobs, theirs)
    with pytest.raises(Permanent, match="another Job of the name"):
        site.perform(Change.CREATE, spec, "start")
    assert site.observe(spec).phase is JobPhase.GONE
    assert site.perform(Change.DELETE, spec, "stop").done
    assert room.admin.find(f"{jobs}/{spec.name}") is not None
    room.admin.delete(f"{jobs}/{spec.name}", propagationPolicy="Background")


@pytest.mark.parametrize("tasks", [1, 2])
@pytest.mark.lab
def test_one_whose_pods_the_guards_refuse_for_good_has_no_hope(
    room: Room, monkeypatch: pytest.MonkeyPatch, tasks: int
) -> None:
    """The job itself is the portal's, which they let pass; its GPUs are held until it has ended."""
    sizes: dict[str, Any] = {"vcpus": 1, "memory_gib": 1, "gpus": 1, "tasks": tasks, "at_once": tasks}
    spec = replace(
        SPEC, workspace=room.ref, variables={SITE_VARIABLES[0]: "all"}, **sizes, together=tasks > 1
    )
    site = room.driver.jobs
    carry_out(site, Change.CREATE, spec)
    words = "NVIDIA_VISIBLE_DEVICES and its like may not be set"
    first = until(
        lambda: found if (found := site.observe(spec)).detail.startswith(words) else None, "it is refused"
    )
    assert (first.phase, first.hopeless) == (JobPhase.WAITING, False)
    monkeypatch.setattr(jobs, "GUARDS_LEARN", timedelta())
    assert site.observe(spec).hopeless
    carry_out(site, Change.DELETE, spec)


@pytest.mark.lab
def test_finalizers_of_a_member_keep_no_job_for_ever(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the job, and on a pod of it that has finished and is named otherwise by then."""
    spec = replace(
        SPEC, workspace=room.ref, command=("true",), vcpus=1, memory_gib=1, gpus=0, resource_name=""
    )
    site, job_at = room.driver.jobs, f"{room.path('jobs', '/apis/batch/v1')}/{spec.name}"
    carry_out(site, Change.CREATE, spec)
    seen_as(site, spec, JobPhase.SUCCEEDED)
    (finished,) = room.admin.items(room.path("pods"), labelSelector=f"{OWNER}={spec.name}")
    pod_at, held = f"{room.path('pods')}/{finished['metadata']['name']}", ["example.com/keep"]
    room.tenant.merge(pod_at, {"metadata": {"finalizers": held, "labels": {OWNER: None}}})
    room.tenant.merge(job_at, {"metadata": {"finalizers": held}})
    assert not site.perform(Change.DELETE, spec, "stop").done
    until(lambda: "deletionTimestamp" in room.admin.get(pod_at)["metadata"], "the site deletes its pod")
    assert not site.perform(Change.DELETE, spec, "stop").done
    assert room.admin.get(job_at)["metadata"]["finalizers"] == [*held, "foregroundDeletion"]

    monkeypatch.setattr(ending, "STUCK_AFTER", timedelta(hours=-1))
    carry_out(site, Change.DELETE, spec)
    assert (room.admin.find(pod_at), room.admin.find(job_at)) == (None, None)
