"""Jobs that name a training runtime: what is made of the site's runtime, and which runtimes are offered. With the real controllers:
tests/lab/trainer/test_portal_jobs.py."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import time_machine

from gpuaas.core import clock
from gpuaas.providers.base import JobPhase, ObservedRuntime
from gpuaas.providers.kubeapi import names
from gpuaas.providers.kubeapi.client import Object
from gpuaas.providers.kubeapi.training import FRAMEWORK, NODE, STEP, is_offered, runtimes_of
from gpuaas.providers.kubernetes.jobs import job_of
from gpuaas.providers.kubernetes.tasks import INDEX, Pods, seen
from gpuaas.providers.kubernetes.trainjobs import Made, ended, is_late, runtime_of, trainjob_of
from tests.providers.kubernetes.test_job_tasks import GANG, NAME, running
from tests.providers.kubernetes.test_jobs import job

TRAINED = replace(GANG, runtime="torch-distributed", volumes={"data": "/data"})


def container(name: str = NODE, **more: Any) -> Object:
    return {"name": name, "image": "runtime:1", "command": ["pip", "list"], **more}


def runtime(
    *containers: Object, name: str = "torch-distributed", policy: Object | None = None, **pod: Any
) -> Object:
    """As a site has it, with what the portal's own jobs do without."""
    pod_spec = {"containers": list(containers or [container()]), **pod}
    only = {
        "name": "worker",
        "template": {
            "metadata": {"labels": {STEP: "trainer"}},
            "spec": {
                "backoffLimit": 9,
                "template": {"metadata": {"labels": {"fabric": "ib"}}, "spec": pod_spec},
            },
        },
    }
    body = {
        "mlPolicy": {"numNodes": 1, **(policy if policy is not None else {"torch": {}})},
        "template": {"spec": {"replicatedJobs": [only], "failurePolicy": {"maxRestarts": 7}}},
    }
    return {"metadata": {"name": name, "labels": {}}, "spec": body}


def copied(row: Object | None = None, spec: Any = TRAINED) -> tuple[Object, Object, Object]:
    """The copy's JobSet, its Job, and the spec of its pods."""
    made = runtime_of(spec, row or runtime(), chooses_users=True)
    jobset: Object = made["spec"]["template"]["spec"]
    (only,) = jobset["replicatedJobs"]
    return jobset, only["template"]["spec"], only["template"]["spec"]["template"]["spec"]


# -- which are offered ---------------------------------------------------------------------------------------------


def test_runtimes_come_by_name_with_their_framework() -> None:
    labelled = runtime(name="plain", policy={})
    labelled["metadata"]["labels"][FRAMEWORK] = "torchtune"
    rows = [runtime(), labelled, runtime(name="mine", policy={})]
    assert runtimes_of(rows) == (
        ObservedRuntime("mine", ""),
        ObservedRuntime("plain", "torchtune"),
        ObservedRuntime("torch-distributed", "torch"),
    )


@pytest.mark.parametrize(
    "row",
    [
        runtime(container(), container("sidecar")),
        runtime(container("main")),
        runtime(initContainers=[container("fetch")]),
    ],
)
def test_one_whose_pods_take_more_than_an_order_says_is_not_offered(row: Object) -> None:
    assert not is_offered(row)
    assert runtimes_of([row]) == ()


def test_neither_is_one_of_several_jobs_or_of_none() -> None:
    launched = runtime()
    launched["spec"]["template"]["spec"]["replicatedJobs"] *= 2
    unnamed = runtime()
    del unnamed["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["metadata"]
    assert not any(map(is_offered, [launched, unnamed, {"spec": {"template": {}}}]))


# -- the copy ------------------------------------------------------------------------------------------------------


def test_the_site_ends_its_job_as_any_other_of_the_portals() -> None:
    jobset, body, _ = copied()
    assert set(jobset) == {"replicatedJobs"}
    assert jobset["replicatedJobs"][0]["name"] == NODE
    assert jobset["replicatedJobs"][0]["template"]["metadata"]["labels"] == {STEP: "trainer"}
    own = job_of(GANG)["spec"]
    assert {name: each for name, each in body.items() if name != "template"} == {
        name: each for name, each in own.items() if name != "template"
    }
    assert (body["backoffLimit"], body["activeDeadlineSeconds"]) == (0, 600)
    assert body["template"]["metadata"] == {"labels": {"fabric": "ib"}}


def test_a_later_attempt_has_what_is_left_until_the_deadline() -> None:
    since = clock.now()
    with time_machine.travel(since + timedelta(seconds=100), tick=False):
        assert copied(spec=replace(TRAINED, attempt=2, since=since))[1]["activeDeadlineSeconds"] == 500


def test_its_pods_run_as_those_of_other_jobs_in_what_the_runtime_has_besides() -> None:
    fabric = {"name": "fabric", "mountPath": "/fabric"}
    shared = {"name": "own-memory", "mountPath": "/dev/shm"}
    row = runtime(
        container(
            volumeMounts=[fabric, shared], ports=[{"containerPort": 7}], securityContext={"privileged": True}
        ),
        volumes=[{"name": "fabric", "emptyDir": {}}, {"name": "volume", "emptyDir": {}}],
        nodeSelector={"rack": "r1"},
        restartPolicy="OnFailure",
        automountServiceAccountToken=True,
    )
    pod, own = copied(row)[2], job_of(replace(TRAINED, runtime=""))["spec"]["template"]["spec"]
    for name in ("restartPolicy", "automountServiceAccountToken", "securityContext", "enableServiceLinks"):
        assert pod[name] == own[name]
    assert pod["nodeSelector"] == {"rack": "r1"}
    (made,) = pod["containers"]
    assert made["securityContext"] == own["containers"][0]["securityContext"]
    assert (made["image"], made["ports"]) == ("runtime:1", [{"containerPort": 7}])
    assert [each["mountPath"] for each in made["volumeMounts"]] == ["/fabric", "/data", "/dev/shm"]
    volumes = {each["name"]: each for each in pod["volumes"]}
    assert set(volumes) == {"fabric", "volume", "shared-memory"}
    assert volumes["volume"]["persistentVolumeClaim"] == {"claimName": "data"}
    assert len(pod["volumes"]) == 3


def test_the_account_is_left_to_a_site_that_chooses_it() -> None:
    made = runtime_of(TRAINED, runtime(), chooses_users=False)
    pod = made["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    assert "runAsUser" not in pod["securityContext"]


# -- the TrainJob --------------------------------------------------------------------------------------------------


def trainer(spec: Any = TRAINED, row: Object | None = None) -> Object:
    found: Object = trainjob_of(spec, row or runtime(), chooses_users=True)["spec"]["trainer"]
    return found


def test_it_says_what_was_ordered_of_the_copy() -> None:
    made = trainjob_of(TRAINED, runtime(), chooses_users=True)
    assert made["metadata"]["labels"] == {
        names.MANAGED_BY: names.MANAGER,
        names.JOB: str(TRAINED.id),
        names.ATTEMPT: "1",
    }
    assert made["spec"]["runtimeRef"] == {
        "apiGroup": "trainer.kubeflow.org",
        "kind": "TrainingRuntime",
        "name": NAME,
    }
    found = made["spec"]["trainer"]
    assert (found["image"], found["numNodes"], found["numProcPerNode"]) == (TRAINED.image, 3, 2)
    assert (found["command"], found["args"]) == (list(TRAINED.command), list(TRAINED.arguments))
    asked = found["resourcesPerNode"]
    assert asked["limits"] == asked["requests"]
    assert asked["limits"][TRAINED.resource_name] == "2"


def test_without_a_command_the_runtimes_own_runs() -> None:
    assert not {"command", "args"} & trainer(replace(TRAINED, command=(), arguments=())).keys()


@pytest.mark.parametrize(
    ("policy", "processes"),
    [
        ({"torch": {}}, 2),
        ({"torch": {"numProcPerNode": "auto"}}, 2),
        ({"torch": {"numProcPerNode": 1}}, None),
        ({}, None),
    ],
)
def test_a_process_for_each_gpu_unless_the_runtime_says_otherwise(
    policy: Object, processes: int | None
) -> None:
    assert trainer(row=runtime(policy=policy)).get("numProcPerNode") == processes


def test_its_variables_are_those_of_other_jobs_but_trainers_own() -> None:
    env = trainer(replace(TRAINED, variables={"MASTER_PORT": "1", "EPOCHS": "3"}))["env"]
    found = {each["name"]: each.get("value") or each["valueFrom"]["fieldRef"]["fieldPath"] for each in env}
    host = f"{NAME}-node-0-{{}}.{NAME}"
    assert found == {
        "MASTER_ADDR": host.format(0),
        "NNODES": "3",
        "HOSTS": ",".join(f"{host.format(each)}:2" for each in range(3)),
        "NODE_RANK": f"metadata.annotations['{INDEX}']",
        "MASTER_PORT": "1",
        "EPOCHS": "3",
    }


# -- what is read --------------------------------------------------------------------------------------------------


def owned(name: str, kind: str, owner: Object | None) -> Object:
    of = {"kind": kind, "name": "x", "uid": owner["metadata"]["uid"] if owner else "", "controller": True}
    return {"metadata": {"name": name, "uid": name, "ownerReferences": [of]}}


def test_what_an_earlier_one_made_is_none_of_the_newest() -> None:
    train: Object = {"metadata": {"uid": "new", "labels": {names.ATTEMPT: "2"}}}
    jobset = owned("set", "TrainJob", train)
    old = owned("old", "TrainJob", {"metadata": {"uid": "before"}})
    assert Made(train, jobset, owned("job", "JobSet", jobset)).newest().job is not None
    assert Made(train, old, owned("job", "JobSet", old)).newest() == Made(train)
    assert Made(None, old, owned("job", "JobSet", old)).newest() == Made()
    assert (Made(train).attempt, Made().attempt) == (2, 1)


def test_the_container_has_the_name_that_trainer_gives_it() -> None:
    waits = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    pods = [running(0), running(1), running(2)]
    for pod in pods:
        pod["status"]["containerStatuses"][0]["name"] = NODE
    assert seen(job(), Pods(pods, []), TRAINED).phase is JobPhase.RUNNING
    pods[2]["status"]["containerStatuses"][0]["state"] = waits
    found = seen(job(), Pods(pods, []), TRAINED)
    assert (found.phase, found.reason, found.hopeless) == (JobPhase.WAITING, "ImagePullBackOff", True)


@pytest.mark.parametrize(
    ("kind", "phase", "succeeded"),
    [("Complete", JobPhase.SUCCEEDED, "0-2"), ("Failed", JobPhase.FAILED, "")],
)
def test_its_own_word_counts_where_a_member_has_removed_what_it_made(
    kind: str, phase: JobPhase, succeeded: str
) -> None:
    train = {"status": {"conditions": [{"type": kind, "status": "True", "message": "why", "reason": "X"}]}}
    found = ended(train, replace(TRAINED, attempt=2))
    assert found is not None
    assert (found.phase, found.succeeded, found.attempt) == (phase, succeeded, 2)
    assert (found.detail, found.reason) == (("why", "X") if kind == "Failed" else ("", ""))
    assert ended({"status": {}}, TRAINED) is None


def test_it_is_late_a_while_after_the_deadline_of_all_attempts() -> None:
    since = clock.now()
    spec = replace(TRAINED, since=since)
    with time_machine.travel(since + timedelta(seconds=650), tick=False):
        assert not is_late(spec)
    with time_machine.travel(since + timedelta(seconds=661), tick=False):
        assert is_late(spec)
        assert not is_late(replace(spec, since=None))
        assert not is_late(replace(spec, deadline_seconds=None))
