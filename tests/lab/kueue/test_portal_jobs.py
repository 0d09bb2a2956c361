"""What the portal starts in a workspace, and what members queue there: Kueue admits both, and gives no GPU to two."""

import uuid
from dataclasses import replace
from functools import partial

from gpuaas.core import clock
from gpuaas.providers.base import Change, EnvironmentSpec, JobPhase, JobSpec, ObservedJob
from gpuaas.providers.kubeapi import queues
from tests.lab import jobs
from tests.lab.fixtures import carry_out, until
from tests.lab.kueue.conftest import GPU, JOBS, QUEUED, QueueRoom


def spec_of(room: QueueRoom, **changes: object) -> JobSpec:
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
        gpus=2,
        resource_name=GPU,
    )
    return replace(spec, **changes)  # type: ignore[arg-type]  # a test's own


def seen(room: QueueRoom, spec: JobSpec, phase: JobPhase) -> ObservedJob:
    def wanted(found: ObservedJob) -> bool:
        return found.phase is phase and (phase is not JobPhase.WAITING or GPU in found.detail)

    return jobs.seen(room.driver.jobs, spec, wanted, f"it is {phase}")


def ended(room: QueueRoom, name: str) -> None:
    room.tenant.delete(f"{room.path('jobs', JOBS)}/{name}", propagationPolicy="Background")


def test_it_waits_for_what_members_have_queued_and_says_where(room: QueueRoom) -> None:
    room.queue_job("one")
    room.runs("one")
    spec = spec_of(room)
    carry_out(room.driver.jobs, Change.CREATE, spec)
    words = seen(room, spec, JobPhase.WAITING).detail
    assert "number 1 of 1 in its queue" in words
    assert "gpuaas-h100-sxm-80gb" in words
    ended(room, "one")
    seen(room, spec, JobPhase.RUNNING)
    carry_out(room.driver.jobs, Change.DELETE, spec)


def test_members_wait_for_what_the_portal_has_started(room: QueueRoom) -> None:
    spec = spec_of(room)
    carry_out(room.driver.jobs, Change.CREATE, spec)
    seen(room, spec, JobPhase.RUNNING)
    came = room.queue_job("one")["metadata"]["creationTimestamp"]
    room.waits("one")
    # Kueue orders by whole seconds: of two that came in one, either may be the first
    until(lambda: clock.now().strftime("%Y-%m-%dT%H:%M:%SZ") > came, "another second has begun")
    later = spec_of(room)
    carry_out(room.driver.jobs, Change.CREATE, later)
    until(lambda: "number 2 of 2" in room.driver.jobs.observe(later).detail, "it comes after the member's")
    carry_out(room.driver.jobs, Change.DELETE, spec)
    room.runs("one")
    carry_out(room.driver.jobs, Change.DELETE, later)
    assert room.driver.jobs.observe(later).phase is JobPhase.GONE


def test_priorities_of_the_portal_and_of_members_are_the_same(room: QueueRoom) -> None:
    """Its queue and Kueue's let what is urgent pass in the same order, whichever of the two it came from."""
    found = {each["metadata"]["name"]: each["value"] for each in room.admin.items(queues.CLASSES)}
    assert found == {"gpuaas-high": 1000, "gpuaas-normal": 0, "gpuaas-low": -1000}
    room.queue_job("one", gpus=2)
    room.runs("one")
    low, normal, high = (spec_of(room, priority=name) for name in ("low", "normal", "high"))
    for spec in (low, normal, high):
        carry_out(room.driver.jobs, Change.CREATE, spec)
        assert room.job(spec.name)["metadata"]["labels"][queues.PRIORITY] == f"gpuaas-{spec.priority}"
    for name in ("low", "high"):
        room.queue_job(name, gpus=2, labels={**QUEUED, queues.PRIORITY: f"gpuaas-{name}"})
    until(lambda: "of 5 in" in detail(room, low), "all of them wait")
    # Kueue orders those of one class by whole seconds: of two that came in one, either may be the first
    for spec, places in ((high, "12"), (normal, "3"), (low, "45")):
        assert detail(room, spec).partition("number ")[2][:1] in places
    ended(room, "one")
    until(lambda: is_started(room, "high") or is_started(room, high.name), "one that is urgent starts first")
    assert not any(is_started(room, name) for name in (normal.name, low.name, "low"))
    for spec in (low, normal, high):
        carry_out(room.driver.jobs, Change.DELETE, spec)


def detail(room: QueueRoom, spec: JobSpec) -> str:
    return room.driver.jobs.observe(spec).detail


def is_started(room: QueueRoom, name: str) -> bool:
    return not room.job(name)["spec"]["suspend"]


def test_tasks_that_run_together_start_together(room: QueueRoom) -> None:
    spec = spec_of(room, gpus=1, tasks=2, at_once=2, together=True)
    carry_out(room.driver.jobs, Change.CREATE, spec)
    seen(room, spec, JobPhase.RUNNING)
    room.queue_job("one")
    room.waits("one")
    carry_out(room.driver.jobs, Change.DELETE, spec)
    room.runs("one")


def test_an_environment_is_counted_like_them(room: QueueRoom) -> None:
    made = uuid.uuid4()
    spec = EnvironmentSpec(
        id=made,
        name=f"env-{made.hex[-8:]}-notebook",
        workspace=room.ref,
        image="lab.gpuaas.io/busybox:1",
        port=8888,
        readiness="/",
        vcpus=1,
        memory_gib=1,
        user=1000,
        gpus=2,
        resource_name=GPU,
        home="/home",
        home_gib=1,
    )
    site = room.driver.environments
    carry_out(site, Change.CREATE, spec, before="ready")
    # it does not run in this lab, where nobody makes its volume
    until(partial(is_admitted, room, spec.name), "Kueue lets it start")
    room.queue_job("one")
    room.waits("one")
    carry_out(site, Change.DELETE, spec)
    room.runs("one")


def is_admitted(room: QueueRoom, name: str) -> bool:
    found = room.pod(name)
    assert found["metadata"]["labels"][queues.LABEL] == "gpuaas"
    return not found["spec"].get("schedulingGates")
