"""Jobs of several tasks: arrays, whose tasks are their own, and those that run together, of which one failure ends all."""

from datetime import timedelta
from typing import Any

import pytest
import time_machine

from gpuaas.core import clock
from gpuaas.core.errors import Conflict, Forbidden, Invalid, NotFound, QuotaRefused
from gpuaas.jobs import logs
from gpuaas.jobs.models import Job, TaskLog
from gpuaas.jobs.seen import counts_of, tasks_of
from gpuaas.jobs.services import job_cancel, job_delete, job_follow, job_rerun, queue_start
from gpuaas.jobs.spec import spec_of
from gpuaas.jobs.states import JobState
from gpuaas.providers.sandbox.models import SandboxJob, SandboxPod
from gpuaas.providers.sandbox.pods import pod_create, pod_evict
from gpuaas.providers.sandbox.readings import SandboxPodsDriver
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.room import room_of
from tenants.actors import Actor
from tenants.models import AuditEntry
from tests.jobs.stage import LONG, fresh, pods, run_now, running, settle, submitted, visited

ONE_FAILS = ["sh", "-c", "if [ $JOB_COMPLETION_INDEX = 2 ]; then exit 3; fi"]
TOGETHER: dict[str, Any] = {"tasks": 4, "together": True, "gpus": 1}
MPI: dict[str, Any] = {"tasks": 2, "together": True, "launcher": "mpi"}


def live(workspace: Workspace) -> list[str]:
    """What runs, by the end of its name: the task and the attempt."""
    rows = SandboxPod.objects.filter(namespace__name=workspace.external_name, finished_at=None)
    return sorted("-".join(name.split("-")[-2:]) for name in rows.values_list("name", flat=True))


def end_all() -> None:
    SandboxPod.objects.filter(run_seconds__gt=0).update(run_seconds=0)


def states(row: Job) -> list[str]:
    return [each.state.value for each in tasks_of(row)]


def taken(workspace: Workspace) -> tuple[int, int, int]:
    room = room_of(workspace=workspace)
    (gpus,) = room.pools.values()
    return gpus.taken, room.amounts["vcpus"].taken, room.amounts["memory_gib"].taken


# -- arrays --------------------------------------------------------------------------------------------------------


def test_as_many_run_at_once_as_were_asked_for(as_alice: Actor, workspace: Workspace) -> None:
    row = running(as_alice, workspace, tasks=5, at_once=2, gpus=1, vcpus=3, memory_gib=4)
    assert (live(workspace), taken(workspace)) == (["0-1", "1-1"], (2, 6, 8))
    assert counts_of(row) == {"running": 2, "waiting": 3}
    end_all()
    row = run_now(run_now(row))
    assert (live(workspace), row.observed["succeeded"]) == (["2-1", "3-1"], "0-1")
    assert states(row) == ["succeeded", "succeeded", "running", "running", "waiting"]
    assert tasks_of(row)[2].node == SandboxPod.objects.get(name__endswith="-2-1").node_name
    end_all()
    run_now(row)
    end_all()
    row = settle(row)
    assert (row.state, row.exit_code, taken(workspace), pods(workspace)) == ("succeeded", 0, (0, 0, 0), [])
    assert counts_of(row) == {"succeeded": 5}


@pytest.mark.parametrize(
    ("wanted", "at_once"),
    [
        ({"tasks": 9, "gpus": 1}, 4),
        ({"tasks": 3, "gpus": 1}, 3),
        ({"tasks": 9, "vcpus": 30}, 2),
        ({"tasks": 1000}, 64),
        ({"tasks": 9, "at_once": 2}, 2),
        ({"tasks": 4, "together": True}, 4),
        ({}, 1),
    ],
)
def test_how_many_run_at_once_is_fixed_by_the_order(
    as_alice: Actor, workspace: Workspace, wanted: dict[str, Any], at_once: int
) -> None:
    assert submitted(as_alice, workspace, **wanted).at_once == at_once


def test_one_that_fails_ends_no_other_and_is_named(as_alice: Actor, workspace: Workspace) -> None:
    row = settle(submitted(as_alice, workspace, tasks=5, at_once=2, command=ONE_FAILS, retries=1))
    assert (row.state, row.cause, row.exit_code) == ("failed", "Error", 3)
    assert row.failure == "1 of 5 tasks failed: 2; the first: its command ended with exit code 3"
    assert counts_of(row) == {"succeeded": 4, "failed": 1}
    failed = tasks_of(row)[2]
    assert (failed.state, failed.exit_code, failed.attempt) == ("failed", 3, 2)
    assert TaskLog.objects.get(job=row, task=2).text.splitlines()[1] == "JOB_COMPLETION_INDEX=2"


def test_many_that_fail_are_named_in_ranges(as_alice: Actor, workspace: Workspace) -> None:
    row = settle(submitted(as_alice, workspace, tasks=40, at_once=40, command=["exit 1"]))
    assert row.failure.startswith("40 of 40 tasks failed: 0-39; the first: ")
    assert len(row.observed["tasks"]) <= 50
    assert TaskLog.objects.count() <= logs.TASKS_KEPT


def test_one_that_the_site_removes_is_tried_again_alone(as_alice: Actor, workspace: Workspace) -> None:
    row = running(as_alice, workspace, tasks=2, at_once=2, retries=1)
    pod = SandboxPod.objects.get(name__endswith="-1-1")
    assert pod_evict(workspace.site_id, workspace.external_name, str(pod.uid), reason="drained")
    row = run_now(row)
    assert (row.state, live(workspace)) == ("ready", ["0-1", "1-2"])


# -- together ------------------------------------------------------------------------------------------------------


def test_nothing_starts_before_all_of_it_fits(as_alice: Actor, workspace: Workspace) -> None:
    other = running(as_alice, workspace, gpus=1)
    row = submitted(as_alice, workspace, command=LONG, **TOGETHER)
    assert queue_start(workspace_id=workspace.pk) == 0
    assert fresh(row).waiting == "waits for 4 H100 SXM 80 GB: 3 of 4 are free"
    settle(job_cancel(actor=as_alice, job=other))
    row = settle(row, "ready")
    assert (live(workspace), taken(workspace)[0]) == (["0-1", "1-1", "2-1", "3-1"], 4)
    assert settle(job_cancel(actor=as_alice, job=row)).state == "suspended"
    assert (pods(workspace), counts_of(fresh(row))) == ([], {"ended": 4})


def test_where_members_use_part_of_it_nothing_starts_either(as_alice: Actor, workspace: Workspace) -> None:
    pod_create(workspace.site_id, workspace.external_name, "theirs", 1)
    row = submitted(as_alice, workspace, command=LONG, **TOGETHER)
    for _ in range(5):
        row = run_now(row)
    assert (row.state, live(workspace), SandboxJob.objects.count()) == ("provisioning", ["theirs"], 0)
    assert "exceeded quota" in row.waiting
    pod = SandboxPod.objects.get(name="theirs")
    pod_evict(workspace.site_id, workspace.external_name, str(pod.uid), reason="done")
    assert settle(row, "ready").waiting == ""


def test_of_two_that_start_at_once_one_has_all_before_the_other_looks(
    as_alice: Actor, workspace: Workspace
) -> None:
    """Else each could get a part of what members leave of the workspace, and hold it while it waits for the rest."""
    pod_create(workspace.site_id, workspace.external_name, "theirs", 1)
    two: dict[str, Any] = {**TOGETHER, "tasks": 2, "command": LONG}
    one, other = (submitted(as_alice, workspace, name, **two) for name in ("one", "other"))
    assert queue_start(workspace_id=workspace.pk) == 2
    other = visited(other)
    assert (other.state, SandboxJob.objects.count()) == ("provisioning", 0)
    assert other.waiting == "waits until all tasks of one have their place, which began to start before"
    assert visited(one, runs=2).state == "ready"
    assert "exceeded quota" in visited(other, runs=2).waiting
    assert live(workspace) == ["0-1", "1-1", "theirs"]
    settle(job_cancel(actor=as_alice, job=one))
    assert settle(other, "ready").waiting == ""


def test_one_that_is_more_urgent_waits_for_none_that_began_before(
    as_alice: Actor, workspace: Workspace
) -> None:
    two: dict[str, Any] = {**TOGETHER, "tasks": 2, "command": LONG}
    submitted(as_alice, workspace, "one", **two, priority="low")
    assert queue_start(workspace_id=workspace.pk) == 1
    urgent = submitted(as_alice, workspace, "urgent", **two, priority="high")
    assert queue_start(workspace_id=workspace.pk) == 1
    assert visited(urgent, runs=2).state == "ready"


def test_one_that_fails_ends_all_and_all_start_again(as_alice: Actor, workspace: Workspace) -> None:
    row = running(as_alice, workspace, retries=1, **TOGETHER)
    pod = SandboxPod.objects.get(name__endswith="-2-1")
    assert pod_evict(workspace.site_id, workspace.external_name, str(pod.uid), reason="drained")
    due = clock.now() + timedelta(seconds=9)
    row = run_now(row)
    assert (row.state, row.attempt, row.waiting) == (
        "provisioning",
        2,
        "all its tasks start again after a pause",
    )
    assert row.due_at is not None
    assert row.due_at > due
    reasons = list(row.transitions.values_list("reason", flat=True))
    assert "task 2 failed, which ends the others" in reasons[-1]
    row = settle(row, "ready")
    assert (live(workspace), row.holding) == (["0-2", "1-2", "2-2", "3-2"], True)
    end_all()
    row = settle(row)
    assert (row.state, row.attempt, counts_of(row)) == ("succeeded", 2, {"succeeded": 4})


def test_its_attempts_are_counted(as_alice: Actor, workspace: Workspace) -> None:
    row = settle(submitted(as_alice, workspace, command=ONE_FAILS, retries=2, **TOGETHER))
    assert (row.state, row.attempt, row.cause, row.exit_code) == ("failed", 3, "Error", 3)
    assert row.failure == "task 2 failed, which ends the others: its command ended with exit code 3"
    assert (pods(workspace), row.holding) == ([], False)


def test_its_deadline_is_of_all_attempts(as_alice: Actor, workspace: Workspace) -> None:
    row = running(as_alice, workspace, retries=5, deadline_seconds=60, **TOGETHER)
    pod = SandboxPod.objects.get(name__endswith="-2-1")
    pod_evict(workspace.site_id, workspace.external_name, str(pod.uid), reason="drained")
    row = settle(run_now(row), "ready")
    with time_machine.travel(clock.now() + timedelta(seconds=61)):
        row = settle(row)
    assert (row.state, row.attempt, row.cause) == ("failed", 2, "DeadlineExceeded")


def test_what_its_deadline_has_ended_is_not_started_again(as_alice: Actor, workspace: Workspace) -> None:
    row = running(as_alice, workspace, retries=5, deadline_seconds=60, **TOGETHER)
    SandboxJob.objects.update(created_at=clock.now() - timedelta(seconds=61))  # it waited before it ran
    row = settle(row)
    assert (row.state, row.attempt, row.cause) == ("failed", 1, "DeadlineExceeded")


def test_cancelled_between_two_attempts(as_alice: Actor, workspace: Workspace) -> None:
    row = running(as_alice, workspace, retries=1, **TOGETHER)
    pod = SandboxPod.objects.get(name__endswith="-0-1")
    pod_evict(workspace.site_id, workspace.external_name, str(pod.uid), reason="drained")
    row = settle(job_cancel(actor=as_alice, job=run_now(row)))
    assert (row.state, pods(workspace), row.holding) == ("suspended", [], False)


# -- logs ----------------------------------------------------------------------------------------------------------


def test_the_log_of_a_chosen_task_is_followed(
    as_alice: Actor, as_charlie: Actor, workspace: Workspace
) -> None:
    row = running(as_alice, workspace, tasks=4, at_once=4)
    assert list(TaskLog.objects.values_list("task", flat=True)) == [0]
    row = run_now(job_follow(actor=as_alice, job=row, task=3))
    assert "JOB_COMPLETION_INDEX=3" in TaskLog.objects.get(task=3).text
    with pytest.raises(Invalid, match="0 to 3"):
        job_follow(actor=as_alice, job=row, task=4)
    with pytest.raises(NotFound):
        job_follow(actor=as_charlie, job=row, task=0)
    row = settle(job_cancel(actor=as_alice, job=row))
    with pytest.raises(Conflict, match="while the job is cancelled"):
        job_follow(actor=as_alice, job=row, task=1)
    settle(job_delete(actor=as_alice, job=row), "deleted")
    assert not TaskLog.objects.exists()


def test_a_teammate_without_a_role_follows_nothing(
    as_alice: Actor, as_bob: Actor, workspace: Workspace
) -> None:
    row = running(as_alice, workspace, tasks=2)
    with pytest.raises(Forbidden):
        job_follow(actor=as_bob, job=row, task=1)


def test_logs_are_kept_of_some_and_of_the_newest(
    as_alice: Actor, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "TASKS_KEPT", 3)
    row = running(as_alice, workspace, tasks=8, at_once=8)
    for task in range(8):
        row = run_now(job_follow(actor=as_alice, job=row, task=task))
    kept = list(TaskLog.objects.values_list("task", flat=True))
    assert (len(kept), kept[-1]) == (3, 7)
    logs.logs_write(row, {0: "epoch 1", 1: "epoch 1", 2: "epoch 1"})
    kept = list(TaskLog.objects.values_list("task", flat=True))
    assert kept == [1, 2, 7], "that of the task which somebody looks at stays, however little it writes"


@pytest.mark.parametrize(("command", "ends"), [("sleep 9; exit 3", "failed"), ("sleep 9", "succeeded")])
@pytest.mark.parametrize("more", [{}, {"together": True}, {"at_once": 1}], ids=["", "together", "in turn"])
def test_the_log_of_a_task_that_ends_is_taken_to_its_end(
    as_alice: Actor, workspace: Workspace, command: str, ends: str, more: dict[str, Any]
) -> None:
    begun = clock.now()
    with time_machine.travel(begun, tick=False):
        row = running(as_alice, workspace, tasks=2, gpus=1, command=["sh", "-c", command], **more)
    assert "at work" not in TaskLog.objects.get(task=0).text
    with time_machine.travel(begun + timedelta(seconds=60), tick=False):
        row = run_now(row)
        assert TaskLog.objects.get(task=0).text.count("at work") == 9, "whatever else runs on"
    with time_machine.travel(begun + timedelta(seconds=120), tick=False):
        assert settle(row).state == ends
    assert TaskLog.objects.get(task=0).text.count("at work") == 9


def test_of_tasks_that_nobody_saw_running_the_first_has_a_log(as_alice: Actor, workspace: Workspace) -> None:
    row = running(as_alice, workspace, tasks=2, command=["sleep", "9"])
    TaskLog.objects.all().delete()
    Job.objects.update(observed={})
    end_all()
    assert settle(fresh(row)).state == "succeeded"
    assert TaskLog.objects.get().task == 0


# -- orders --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        ({"tasks": 0}, "tasks"),
        ({"tasks": 1001}, "tasks"),
        ({"tasks": True}, "tasks"),
        ({"tasks": 201, "together": True}, "tasks"),
        ({"together": True}, "together"),
        ({"together": 1, "tasks": 2}, "together"),
        ({"tasks": 4, "at_once": 0}, "at_once"),
        ({"tasks": 4, "at_once": 5}, "at_once"),
        ({"tasks": 4, "at_once": 4, "together": True}, "at_once"),
        ({"tasks": 999, "at_once": 201}, "at_once"),
        ({"tasks": 501, "retries": 1}, "retries"),
        ({"tasks": 2, "together": True, "launcher": "slurm"}, "launcher"),
        ({"tasks": 2, "together": True, "launcher": None}, "launcher"),
        ({"tasks": 2, "launcher": "mpi"}, "launcher"),
        ({"launcher": "mpi"}, "launcher"),
        ({"tasks": 2, "together": True, "launcher": "mpi", "command": []}, "command"),
        ({**MPI, "volume": "data", "mount": "/run/gpuaas/"}, "mount"),
        ({**MPI, "volume": "data", "mount": "/run/./gpuaas/data"}, "mount"),
        ({**MPI, "volume": "data", "mount": "/var/run"}, "mount"),
        ({"tasks": 2, "runtime": "torch-distributed"}, "runtime"),
        ({"runtime": "torch-distributed"}, "runtime"),
        ({"tasks": 2, "together": True, "runtime": "Torch"}, "runtime"),
        ({"tasks": 2, "together": True, "runtime": None}, "runtime"),
        ({"tasks": 2, "together": True, "launcher": "mpi", "runtime": "torch-distributed"}, "runtime"),
    ],
)
def test_what_cannot_be_is_refused_at_its_field(
    as_alice: Actor, workspace: Workspace, wanted: dict[str, Any], field: str
) -> None:
    with pytest.raises(Invalid) as refused:
        submitted(as_alice, workspace, **wanted)
    assert next(iter(refused.value.fields)) == field
    assert not Job.objects.exists()


def test_a_site_without_the_launcher_refuses_it(
    as_alice: Actor, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SandboxPodsDriver, "launchers", frozenset())
    with pytest.raises(Invalid, match="have no launcher of this kind") as refused:
        submitted(as_alice, workspace, tasks=2, together=True, launcher="mpi")
    assert list(refused.value.fields) == ["launcher"]


def test_of_a_launcher_task_0_alone_runs_the_command(as_alice: Actor, workspace: Workspace) -> None:
    made = submitted(
        as_alice, workspace, tasks=3, together=True, launcher="mpi", command=["mpirun", "exit 3"]
    )
    assert spec_of(made).launcher == "mpi"
    row = settle(made, JobState.FAILED)
    assert (row.observed["failed"], row.exit_code) == ("0", 3)
    assert (AuditEntry.objects.get(action="job.create").after or {})["launcher"] == "mpi"


@pytest.mark.parametrize("wanted", [{"tasks": 3, "together": True}, {"tasks": 9, "at_once": 3}])
def test_what_never_fits_at_once_is_refused(
    as_alice: Actor, workspace: Workspace, wanted: dict[str, Any]
) -> None:
    with pytest.raises(QuotaRefused, match="a job whose 3 tasks at once ask for 6 never starts") as refused:
        submitted(as_alice, workspace, gpus=2, **wanted)
    assert list(refused.value.fields) == ["gpus"]


def test_the_same_again(as_alice: Actor, workspace: Workspace) -> None:
    array = submitted(as_alice, workspace, tasks=6, at_once=2)
    gang = submitted(as_alice, workspace, "gang", **TOGETHER)
    facts = [
        (made.tasks, made.at_once, made.together)
        for made in (
            job_rerun(actor=as_alice, job=array),
            job_rerun(actor=as_alice, job=array, tasks=1),
            job_rerun(actor=as_alice, job=gang),
            job_rerun(actor=as_alice, job=gang, together=False, tasks=2),
        )
    ]
    assert facts == [(6, 2, False), (1, 1, False), (4, 4, True), (2, 2, False)]
