"""Jobs of the portal that name a training runtime, by Trainer's and JobSet's real controllers."""

import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from deploy.lab.trainer import Lab
from gpuaas.core.errors import GpuaasError, Permanent
from gpuaas.providers.base import (
    DEADLINE,
    SITE_VARIABLES,
    Change,
    JobPhase,
    JobSpec,
    ObservedJob,
    ObservedRuntime,
)
from gpuaas.providers.kubeapi import ending, names, queues, training
from gpuaas.providers.kubeapi.client import Object
from gpuaas.providers.kubernetes import jobs
from tests.lab.fixtures import carry_out, until
from tests.lab.jobs import seen_as
from tests.lab.trainer.conftest import (
    GPU,
    JOBS,
    JOBSETS,
    RUNTIME,
    TRAINJOBS,
    TrainingRoom,
    jobset,
    new_room,
    trainjob,
)
from tests.lab.trainer.test_life import ASLEEP
from tests.lab.trainer.test_preflight import Install, install
from tests.providers.kubernetes.fitness.conftest import PortalSite

__all__ = ["install"]

RUNTIMES = training.TRAINER
KINDS = (
    ("trainjobs", TRAINJOBS),
    ("jobsets", JOBSETS),
    ("jobs", JOBS),
    ("trainingruntimes", RUNTIMES),
    ("services", "/api/v1"),
)


def spec_of(room: TrainingRoom, **changes: Any) -> JobSpec:
    made = uuid.uuid4()
    spec = JobSpec(
        id=made,
        name=f"job-{made.hex[-8:]}-train",
        workspace=room.ref,
        image="lab.gpuaas.io/busybox:1",
        command=("sh", "-c", "sleep 86400"),
        vcpus=1,
        memory_gib=1,
        user=1000,
        gpus=1,
        resource_name=GPU,
        tasks=2,
        at_once=2,
        together=True,
        runtime=RUNTIME,
    )
    return replace(spec, **changes)


@pytest.fixture
def room(place: TrainingRoom) -> Iterator[TrainingRoom]:
    yield place
    for kind, group in KINDS:
        place.admin.delete(place.path(kind, group), propagationPolicy="Background")
    until(lambda: not place.admin.items(place.path("pods")), "no pod is left")
    until(lambda: not place.admin.items(place.path("jobs", JOBS)), "no Job is left")


def started(room: TrainingRoom, **changes: Any) -> JobSpec:
    spec = spec_of(room, **changes)
    carry_out(room.driver.jobs, Change.CREATE, spec)
    return spec


def seen(room: TrainingRoom, spec: JobSpec, phase: JobPhase) -> ObservedJob:
    return seen_as(room.driver.jobs, spec, phase)


def nothing_left(room: TrainingRoom, spec: JobSpec, *, but: str = "") -> None:
    """Trainer lets the copy of the runtime go, for which nobody waits."""
    runtime = at(room, "trainingruntimes", spec.name)
    until(lambda: but or room.admin.find(runtime) is None, "its runtime is gone")
    for kind, group in KINDS:
        if kind == but:
            continue
        assert not [
            each for each in room.admin.items(room.path(kind, group)) if spec.name in each["metadata"]["name"]
        ]
    assert not [each for each in room.admin.items(room.path("pods")) if spec.name in each["metadata"]["name"]]
    assert room.driver.jobs.observe(spec).phase is JobPhase.GONE


def at(room: TrainingRoom, kind: str, name: str) -> str:
    return f"{room.path(kind, dict(KINDS)[kind])}/{name}"


def test_the_look_at_a_site_finds_its_runtimes(portal: PortalSite) -> None:
    assert portal.driver().probe().runtimes == (ObservedRuntime(RUNTIME, "torch"),)


def test_it_runs_to_its_end_as_a_trainjob(room: TrainingRoom) -> None:
    spec = started(room, command=("sh", "-c", "sleep 15; exit 0"))
    found = seen(room, spec, JobPhase.RUNNING)
    assert (found.running, [each.number for each in found.tasks]) == ("0-1", [0, 1])
    pods = room.pods_of(spec.name)
    assert sorted(each["spec"]["hostname"] for each in pods) == [
        f"{spec.name}-node-0-{each}" for each in (0, 1)
    ]
    assert {each["spec"]["subdomain"] for each in pods} == {spec.name}
    (container,) = pods[0]["spec"]["containers"]
    env = {each["name"]: each.get("value") for each in container["env"]}
    assert env["PET_MASTER_ADDR"] == env["MASTER_ADDR"] == f"{spec.name}-node-0-0.{spec.name}"
    assert (env["PET_NNODES"], env["PET_NPROC_PER_NODE"], container["image"]) == ("2", "1", spec.image)
    assert pods[0]["spec"]["securityContext"]["runAsUser"] == 1000
    assert {"cpu": "1", "memory": "1Gi", GPU: "1"}.items() <= container["resources"]["limits"].items()
    done = seen(room, spec, JobPhase.SUCCEEDED)
    assert (done.succeeded, done.exit_code) == ("0-1", 0)
    carry_out(room.driver.jobs, Change.SUSPEND, spec)
    nothing_left(room, spec)


def test_each_step_may_be_killed_and_repeated(room: TrainingRoom) -> None:
    spec = started(room)
    seen(room, spec, JobPhase.RUNNING)
    uid = room.admin.get(at(room, "trainjobs", spec.name))["metadata"]["uid"]
    carry_out(room.driver.jobs, Change.CREATE, spec)
    assert room.admin.get(at(room, "trainjobs", spec.name))["metadata"]["uid"] == uid
    # killed after its TrainJob went: what that has made is still to be waited for
    room.admin.delete(at(room, "trainjobs", spec.name), {"propagationPolicy": "Orphan"})
    until(lambda: room.admin.find(at(room, "trainjobs", spec.name)) is None, "it is gone")
    carry_out(room.driver.jobs, Change.DELETE, replace(spec))
    carry_out(room.driver.jobs, Change.DELETE, spec)


def test_one_that_fails_ends_the_others_and_is_tried_again(room: TrainingRoom) -> None:
    failing = "sleep 2; if [ $JOB_COMPLETION_INDEX = 1 ]; then exit 3; fi"
    spec = started(room, command=("sh", "-c", failing), deadline_seconds=600, retries=1)
    found = seen(room, spec, JobPhase.FAILED)
    assert (found.attempt, found.failed, found.exit_code) == (1, "1", 3)
    assert found.detail == "task 1 failed, which ends the others: its command ended with exit code 3"
    first = room.admin.get(at(room, "trainjobs", spec.name))["metadata"]["uid"]
    second = replace(spec, attempt=2, command=("sh", "-c", "sleep 2; exit 0"))
    assert room.driver.jobs.observe(second).detail == "the attempt before is ending"
    carry_out(room.driver.jobs, Change.CREATE, second)
    assert room.admin.get(at(room, "trainjobs", spec.name))["metadata"]["uid"] != first
    done = seen(room, second, JobPhase.SUCCEEDED)
    assert (done.attempt, done.succeeded) == (2, "0-1")
    carry_out(room.driver.jobs, Change.DELETE, second)
    nothing_left(room, spec)


def test_its_deadline_is_kept_by_the_site(room: TrainingRoom) -> None:
    spec = started(room, deadline_seconds=4)
    found = seen(room, spec, JobPhase.FAILED)
    assert (found.reason, found.detail) == (
        DEADLINE,
        "it was not done within 4 seconds, so the site ended it",
    )
    carry_out(room.driver.jobs, Change.DELETE, spec)


def test_one_that_runs_is_ended_and_trainer_makes_nothing_anew(room: TrainingRoom) -> None:
    for _ in range(3):
        spec = started(room)
        seen(room, spec, JobPhase.RUNNING)
        carry_out(room.driver.jobs, Change.SUSPEND, spec)
        nothing_left(room, spec)


def test_nothing_of_it_starts_before_all_of_it_fits(room: TrainingRoom) -> None:
    room.train("members", nodes=1)
    room.run_all("members", 1)
    spec = spec_of(room)
    waits = room.driver.jobs.perform(Change.CREATE, spec, "start")
    assert not waits.done
    assert f"requests.{GPU}=2, used 1, quota 2" in waits.detail
    assert room.admin.find(at(room, "trainjobs", spec.name)) is None
    room.tenant.delete(at(room, "trainjobs", "members"), propagationPolicy="Background")
    carry_out(room.driver.jobs, Change.CREATE, spec)
    seen(room, spec, JobPhase.RUNNING)
    carry_out(room.driver.jobs, Change.DELETE, spec)


def test_what_the_guards_refuse_of_it_is_said(room: TrainingRoom, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = started(room, variables={SITE_VARIABLES[0]: "all"})
    words = "NVIDIA_VISIBLE_DEVICES and its like may not be set"
    until(lambda: words in room.driver.jobs.observe(spec).detail, "it is refused")
    assert not room.driver.jobs.observe(spec).hopeless
    monkeypatch.setattr(jobs, "GUARDS_LEARN", timedelta())
    assert room.driver.jobs.observe(spec).hopeless
    carry_out(room.driver.jobs, Change.DELETE, spec)
    nothing_left(room, spec)


def test_a_runtime_that_the_site_has_no_more(room: TrainingRoom) -> None:
    spec = spec_of(room, runtime="gone")
    with pytest.raises(Permanent, match="offers no training runtime gone"):
        room.driver.jobs.perform(Change.CREATE, spec, "start")
    carry_out(room.driver.jobs, Change.DELETE, spec)
    nothing_left(room, spec)


# -- members beside it ---------------------------------------------------------------------------------------------


def test_a_trainjob_of_a_member_keeps_its_name_and_is_none_of_ours(room: TrainingRoom) -> None:
    spec = spec_of(room)
    for kind, body in (("trainjobs", trainjob(spec.name, nodes=1)), ("jobsets", jobset(spec.name))):
        room.tenant.create(room.path(kind, dict(KINDS)[kind]), body)
        room.run_all(spec.name, 1)
        with pytest.raises(Permanent, match="the namespace has another"):
            room.driver.jobs.perform(Change.CREATE, spec, "start")
        assert room.driver.jobs.observe(spec).phase is JobPhase.GONE
        carry_out(room.driver.jobs, Change.DELETE, spec)
        assert len(room.pods_of(spec.name)) == 1
        room.tenant.delete(at(room, kind, spec.name), propagationPolicy="Background")
        until(lambda: not room.admin.items(room.path("pods")), "it is gone")
        until(lambda: not room.admin.items(room.path("jobsets", JOBSETS)), "its JobSet too")


def test_it_and_a_members_of_the_same_name_run_beside_each_other(room: TrainingRoom) -> None:
    room.train("train", gpus=1, nodes=1)
    room.run_all("train", 1)
    spec = started(room, gpus=0, resource_name="")
    seen(room, spec, JobPhase.RUNNING)
    carry_out(room.driver.jobs, Change.DELETE, spec)
    assert len(room.pods_of("train")) == 1


def test_members_cannot_mark_one_as_the_portals_or_take_the_mark_away(room: TrainingRoom) -> None:
    spec = started(room)
    for change in ({names.JOB: None}, {names.ATTEMPT: "9"}):
        words = room.refused(
            lambda: room.tenant.merge(at(room, "trainjobs", spec.name), {"metadata": {"labels": change}})  # noqa: B023
        )
        assert "belong to the portal" in words
    forged = trainjob("forged", marks={names.JOB: str(spec.id)})
    assert "belong to the portal" in room.refused(
        lambda: room.tenant.create(room.path("trainjobs", TRAINJOBS), forged)
    )
    for unwanted in (
        lambda: room.tenant.merge(
            at(room, "trainingruntimes", spec.name), {"spec": {"mlPolicy": {"numNodes": 9}}}
        ),
        lambda: room.tenant.delete(at(room, "trainingruntimes", spec.name)),
    ):
        with pytest.raises(GpuaasError, match=r"cannot (patch|delete)"):
            unwanted()
    with pytest.raises(Permanent, match="belongs to the portal"):
        room.tenant.delete(at(room, "services", spec.name))
    carry_out(room.driver.jobs, Change.DELETE, spec)


def test_members_make_nothing_in_place_of_what_it_makes(room: TrainingRoom) -> None:
    """A Job in its JobSet's name would end it as it likes."""
    spec = started(room)
    seen(room, spec, JobPhase.RUNNING)
    train = room.admin.get(at(room, "trainjobs", spec.name))
    body = jobset("mine")
    body["metadata"]["ownerReferences"] = [owner(train)]
    assert "makes its Jobs itself" in room.refused(
        lambda: room.tenant.create(room.path("jobsets", JOBSETS), body)
    )
    made = room.jobset(spec.name)
    job: Object = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "mine", "ownerReferences": [owner(made)]},
        "spec": {
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}}
        },
    }
    assert "makes its Jobs itself" in room.refused(lambda: room.tenant.create(room.path("jobs", JOBS), job))
    del job["metadata"]["ownerReferences"]
    room.tenant.create(room.path("jobs", JOBS), {**job, "spec": {**job["spec"], "suspend": True}})
    later = {"metadata": {"ownerReferences": [owner(made)]}}
    assert "makes its Jobs itself" in room.refused(lambda: room.tenant.merge(at(room, "jobs", "mine"), later))
    carry_out(room.driver.jobs, Change.DELETE, spec)


def owner(row: Object) -> Object:
    names_it = {"name": row["metadata"]["name"], "uid": row["metadata"]["uid"], "controller": True}
    return {"apiVersion": row["apiVersion"], "kind": row["kind"], **names_it}


def test_one_that_a_member_removes_is_gone_as_any_job_of_the_portals(room: TrainingRoom) -> None:
    spec = started(room)
    seen(room, spec, JobPhase.RUNNING)
    room.tenant.delete(at(room, "trainjobs", spec.name), propagationPolicy="Background")
    seen(room, spec, JobPhase.GONE)
    carry_out(room.driver.jobs, Change.SUSPEND, spec)
    nothing_left(room, spec)


def test_what_a_member_removes_of_it_trainer_makes_anew_and_the_portal_ends(room: TrainingRoom) -> None:
    for kind, name in (("jobsets", "{}"), ("jobs", "{}-node-0")):
        spec = started(room)
        known = seen(room, spec, JobPhase.RUNNING)
        spec, path = replace(spec, made=known.made), at(room, kind, name.format(spec.name))
        assert room.driver.jobs.observe(spec).phase is JobPhase.RUNNING
        room.tenant.delete(path, propagationPolicy="Background")
        seen(room, spec, JobPhase.GONE)
        until(lambda: room.admin.find(path), "the site has made it anew")  # noqa: B023
        again = seen(room, replace(spec, made=""), JobPhase.RUNNING)
        assert again.made != known.made
        assert room.driver.jobs.observe(spec).phase is JobPhase.GONE
        carry_out(room.driver.jobs, Change.SUSPEND, spec)
        nothing_left(room, spec)


def test_finalizers_of_a_member_keep_none_for_ever(
    room: TrainingRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = started(room)
    seen(room, spec, JobPhase.RUNNING)
    held = {"metadata": {"finalizers": ["example.com/never"]}}
    pod = room.pods_of(spec.name)[0]["metadata"]["name"]
    job = f"{spec.name}-node-0"
    for path in (at(room, "trainjobs", spec.name), at(room, "jobsets", spec.name), at(room, "jobs", job)):
        room.tenant.merge(path, held)
    room.tenant.merge(f"{room.path('pods')}/{pod}", held)
    assert not room.driver.jobs.perform(Change.DELETE, spec, "stop").done
    monkeypatch.setattr(ending, "STUCK_AFTER", timedelta(hours=-1))
    carry_out(room.driver.jobs, Change.DELETE, spec)
    nothing_left(room, spec)


# -- the workspace and the site ------------------------------------------------------------------------------------


def test_a_workspace_is_suspended_with_one_inside(portal: PortalSite) -> None:
    made = new_room(portal)
    try:
        spec = started(made)
        seen(made, spec, JobPhase.RUNNING)
        asleep = made.carry_out(Change.SUSPEND, **ASLEEP)
        assert not asleep.admin.items(asleep.path("pods"), fieldSelector="status.phase=Running")
        carry_out(made.driver.jobs, Change.SUSPEND, spec)
        nothing_left(made, spec)
        made.carry_out(Change.RESUME)
        nothing_left(made, spec)
        again = started(made)
        seen(made, again, JobPhase.RUNNING)
    finally:
        with suppress(GpuaasError):
            carry_out(made.driver, Change.DELETE, made.spec)
    assert made.admin.find(f"/api/v1/namespaces/{made.spec.external_name}") is None
    carry_out(made.driver.jobs, Change.DELETE, again)


def test_a_trainer_that_is_away_keeps_none_from_ending(room: TrainingRoom, trainer_lab: Lab) -> None:
    spec = started(room)
    seen(room, spec, JobPhase.RUNNING)
    trainer_lab.stop_program("trainer", kill=True)
    try:
        carry_out(room.driver.jobs, Change.SUSPEND, spec)
        nothing_left(room, spec, but="trainingruntimes")
    finally:
        trainer_lab.up()
    nothing_left(room, spec)


def test_kueue_starts_it_only_where_trainer_is_new_enough(room: TrainingRoom, install: Install) -> None:
    spec = started(room)
    path = at(room, "trainjobs", spec.name)
    assert queues.LABEL not in room.admin.get(path)["metadata"]["labels"]
    seen(room, spec, JobPhase.RUNNING)
    carry_out(room.driver.jobs, Change.DELETE, spec)
    install("ghcr.io/kubeflow/trainer/trainer-controller-manager:v2.2.0")
    later = started(room, priority="high")
    labels = room.admin.get(at(room, "trainjobs", later.name))["metadata"]["labels"]
    assert (labels[queues.LABEL], labels[queues.PRIORITY]) == ("gpuaas", "gpuaas-high")
    carry_out(room.driver.jobs, Change.DELETE, later)
    nothing_left(room, later)
