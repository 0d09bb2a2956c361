"""Jobs run in a workspace: under its quota, to their end, and nothing of them stays once they are ended."""

import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gpuaas.core.errors import NotFound, Permanent
from gpuaas.providers.base import (
    FILES_AT,
    Change,
    JobCapability,
    JobPhase,
    Jobs,
    JobSpec,
    ObservedJob,
    WorkspaceSpec,
)
from tests.contracts.conftest import Drive
from tests.contracts.rigs import Rig, ref
from tests.contracts.test_suspend import resume, suspend
from tests.lab import jobs
from tests.lab.fixtures import carry_out, until

NEEDS = JobCapability


def spec_of(
    rig: Rig, workspace: WorkspaceSpec, *, seconds: int = 0, code: int = 0, **changes: object
) -> JobSpec:
    """One that runs for so long and then ends with this code."""
    made = uuid.uuid4()
    spec = JobSpec(
        id=made,
        name=f"job-{made.hex[:8]}-train",
        workspace=ref(workspace),
        image="train:1",
        command=("sh", "-c", f"echo it works; sleep {seconds}; exit {code}"),
        vcpus=1,
        memory_gib=1,
        user=1000,
        gpus=1,
        resource_name=rig.gpu.resource_name,
        variables={"EPOCHS": "3"},
    )
    return replace(rig.job(spec), **changes)  # type: ignore[arg-type]


def site_of(rig: Rig) -> Jobs:
    assert isinstance(rig.driver, JobCapability)
    return rig.driver.jobs


def seen(rig: Rig, spec: JobSpec, wanted: Callable[[ObservedJob], bool], what: str) -> ObservedJob:
    return jobs.seen(site_of(rig), spec, wanted, what)


def started(rig: Rig, workspace: WorkspaceSpec, **wanted: int) -> JobSpec:
    """It runs, and does not end by itself."""
    spec = spec_of(rig, workspace, seconds=86_400, **wanted)
    carry_out(site_of(rig), Change.CREATE, spec)
    seen(rig, spec, lambda found: found.phase is JobPhase.RUNNING, "it runs")
    return spec


def task_fails(number: int, seconds: int = 1) -> tuple[str, ...]:
    """One of several; the others succeed."""
    return ("sh", "-c", f"sleep {seconds}; if [ $JOB_COMPLETION_INDEX = {number} ]; then exit 3; fi")


def used(rig: Rig, workspace: WorkspaceSpec) -> int:
    return rig.driver.observe(ref(workspace)).used.get(rig.gpu.resource_name, 0)


def test_a_job_runs_to_its_end(rig: Rig, ready: WorkspaceSpec) -> None:
    spec = spec_of(rig, ready, seconds=1)
    assert site_of(rig).observe(spec).phase is JobPhase.GONE
    carry_out(site_of(rig), Change.CREATE, spec)
    carry_out(site_of(rig), Change.CREATE, spec)
    found = seen(rig, spec, lambda each: each.phase is JobPhase.SUCCEEDED, "it succeeds")
    assert (found.exit_code, found.attempt) == (0, 1)
    assert found.node
    assert site_of(rig).log(spec, lines=10)
    carry_out(site_of(rig), Change.SUSPEND, spec)
    carry_out(site_of(rig), Change.SUSPEND, spec)
    assert site_of(rig).observe(spec).phase is JobPhase.GONE
    until(lambda: used(rig, ready) == 0, "it takes no GPU")
    with pytest.raises(NotFound):
        site_of(rig).log(spec, lines=10)


def test_its_files_are_there_for_it_and_go_with_it(rig: Rig, ready: WorkspaceSpec) -> None:
    script = f"grep -q sesame {FILES_AT}/word && sleep 1"
    wanted: dict[str, Any] = {
        "command": ("sh", "-c", script),
        "files": {"word": "sesame"},
        "gpus": 0,
        "resource_name": "",
    }
    spec = spec_of(rig, ready, **wanted)
    carry_out(site_of(rig), Change.CREATE, spec)
    carry_out(site_of(rig), Change.CREATE, spec)
    seen(rig, spec, lambda each: each.phase is JobPhase.SUCCEEDED, "it reads them")
    forgotten = replace(spec, files={"word": ""})
    carry_out(site_of(rig), Change.SUSPEND, forgotten)
    assert site_of(rig).observe(forgotten).phase is JobPhase.GONE
    assert rig.uids(ready.external_name) == []


def test_without_its_volume_it_waits_in_words(rig: Rig, ready: WorkspaceSpec) -> None:
    spec = spec_of(rig, ready, volumes={"nowhere": "/data"})
    carry_out(site_of(rig), Change.CREATE, spec)
    found = seen(rig, spec, lambda each: "nowhere" in each.detail, "it names the volume")
    assert (found.phase, found.hopeless) == (JobPhase.WAITING, False)
    carry_out(site_of(rig), Change.DELETE, spec)


def test_one_that_runs_is_ended_and_nothing_of_it_stays(rig: Rig, ready: WorkspaceSpec) -> None:
    spec = started(rig, ready)
    assert used(rig, ready) == 1
    carry_out(site_of(rig), Change.DELETE, spec)
    assert site_of(rig).observe(spec).phase is JobPhase.GONE
    assert rig.uids(ready.external_name) == []


def test_its_failures_are_counted(rig: Rig, ready: WorkspaceSpec) -> None:
    spec = spec_of(rig, ready, code=3, retries=1)
    carry_out(site_of(rig), Change.CREATE, spec)
    found = seen(rig, spec, lambda each: each.phase is JobPhase.FAILED, "it fails")
    assert (found.attempt, found.reason) == (2, "Error")
    assert found.exit_code == 3
    assert "exit code 3" in found.detail
    carry_out(site_of(rig), Change.SUSPEND, spec)


def test_its_deadline_ends_it(rig: Rig, ready: WorkspaceSpec) -> None:
    spec = spec_of(rig, ready, seconds=86_400, deadline_seconds=3, retries=2)
    carry_out(site_of(rig), Change.CREATE, spec)
    found = seen(rig, spec, lambda each: each.phase is JobPhase.FAILED, "the site ends it")
    assert found.reason == "DeadlineExceeded"
    assert "3 seconds" in found.detail
    carry_out(site_of(rig), Change.SUSPEND, spec)


def test_where_members_use_the_quota_it_waits_in_words(rig: Rig, ready: WorkspaceSpec) -> None:
    rig.start(ready, "train", gpus=2)
    spec = spec_of(rig, ready)
    carry_out(site_of(rig), Change.CREATE, spec)
    found = seen(rig, spec, lambda each: "quota" in each.detail, "it says why it waits")
    assert (found.phase, found.hopeless) == (JobPhase.WAITING, False)
    carry_out(site_of(rig), Change.SUSPEND, spec)


def test_an_array_runs_as_many_at_once_as_it_may(rig: Rig, ready: WorkspaceSpec) -> None:
    spec = spec_of(rig, ready, seconds=2, tasks=4, at_once=2)
    carry_out(site_of(rig), Change.CREATE, spec)
    seen(rig, spec, lambda each: each.running == "0-1", "two of its tasks run")
    assert used(rig, ready) == 2
    found = seen(rig, spec, lambda each: each.phase is JobPhase.SUCCEEDED, "it succeeds")
    assert (found.succeeded, found.failed, found.running, found.exit_code) == ("0-3", "", "", 0)
    assert {each.number for each in found.tasks} == {0, 1, 2, 3}
    assert all(each.node and each.phase is JobPhase.SUCCEEDED for each in found.tasks)
    assert site_of(rig).log(spec, lines=10, task=3)
    carry_out(site_of(rig), Change.SUSPEND, spec)
    assert site_of(rig).observe(spec).phase is JobPhase.GONE


def test_a_task_of_an_array_that_fails_ends_no_other(rig: Rig, ready: WorkspaceSpec) -> None:
    spec = spec_of(rig, ready, command=task_fails(1), tasks=3, at_once=2, retries=1)
    carry_out(site_of(rig), Change.CREATE, spec)
    found = seen(rig, spec, lambda each: each.phase is JobPhase.FAILED, "it fails in the end")
    assert (found.succeeded, found.failed) == ("0,2", "1")
    assert (found.reason, found.exit_code) == ("Error", 3)
    assert found.detail == "1 of 3 tasks failed: 1; the first: its command ended with exit code 3"
    failed = found.tasks[0]
    assert (failed.number, failed.phase, failed.exit_code, failed.attempt) == (1, JobPhase.FAILED, 3, 2)
    carry_out(site_of(rig), Change.SUSPEND, spec)


def test_tasks_that_run_together_end_together_and_start_anew(rig: Rig, ready: WorkspaceSpec) -> None:
    spec = spec_of(rig, ready, command=task_fails(1), tasks=2, at_once=2, together=True, retries=1)
    carry_out(site_of(rig), Change.CREATE, spec)
    found = seen(rig, spec, lambda each: each.phase is JobPhase.FAILED, "one of them fails")
    assert (found.attempt, found.failed, found.exit_code) == (1, "1", 3)
    assert found.detail == "task 1 failed, which ends the others: its command ended with exit code 3"
    again = replace(spec, attempt=2, command=("sh", "-c", "sleep 86400"))
    carry_out(site_of(rig), Change.CREATE, again)
    found = seen(rig, again, lambda each: each.phase is JobPhase.RUNNING, "all of them run again")
    assert (found.attempt, found.running) == (2, "0-1")
    assert {(each.number, each.attempt) for each in found.tasks} == {(0, 2), (1, 2)}
    carry_out(site_of(rig), Change.SUSPEND, again)
    assert rig.uids(ready.external_name) == []


def test_where_members_use_part_of_it_none_of_those_together_starts(rig: Rig, ready: WorkspaceSpec) -> None:
    rig.start(ready, "theirs", gpus=1)
    until(lambda: used(rig, ready) == 1, "it is counted")
    spec = spec_of(rig, ready, seconds=86_400, tasks=2, at_once=2, together=True)
    outcome = site_of(rig).perform(Change.CREATE, spec, "start")
    assert not outcome.done
    assert "quota" in outcome.detail
    assert (site_of(rig).observe(spec).phase, used(rig, ready)) == (JobPhase.GONE, 1)
    rig.stop(ready, "theirs")
    carry_out(site_of(rig), Change.CREATE, spec)
    assert seen(rig, spec, lambda each: each.phase is JobPhase.RUNNING, "they run").running == "0-1"
    carry_out(site_of(rig), Change.DELETE, spec)
    assert rig.uids(ready.external_name) == []


def test_a_suspended_workspace_has_no_job_and_none_comes_back(rig: Rig, ready: WorkspaceSpec) -> None:
    spec = started(rig, ready)
    suspend(rig, ready)
    carry_out(site_of(rig), Change.SUSPEND, spec)
    resume(rig, ready)
    assert site_of(rig).observe(spec).phase is JobPhase.GONE
    assert rig.uids(ready.external_name) == []


def test_without_its_workspace_there_is_no_job_to_end(rig: Rig, ready: WorkspaceSpec, release: Drive) -> None:
    spec = started(rig, ready)
    release(ready)
    assert site_of(rig).observe(spec).phase is JobPhase.GONE
    carry_out(site_of(rig), Change.SUSPEND, spec)
    carry_out(site_of(rig), Change.DELETE, spec)
    with pytest.raises(NotFound):
        site_of(rig).perform(Change.CREATE, spec, "start")


def test_an_unknown_step_of_a_job_is_refused_for_good(rig: Rig, shared: WorkspaceSpec) -> None:
    spec = spec_of(rig, shared)
    for change in (Change.CREATE, Change.SUSPEND, Change.DELETE):
        with pytest.raises(Permanent):
            site_of(rig).perform(change, spec, "no-such-step")
