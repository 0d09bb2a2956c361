"""What alice sees of a job from its submission to its end, and what becomes of it with its workspace."""

from datetime import timedelta
from typing import Any

import pytest
import time_machine

from gpuaas.core import clock
from gpuaas.core.errors import Conflict, Forbidden, Invalid, NotFound
from gpuaas.jobs.models import Job, JobLog
from gpuaas.jobs.selectors import job_get_for, jobs_for
from gpuaas.jobs.services import job_cancel, job_delete, job_rerun, queue_start
from gpuaas.jobs.services.inside import left_delete
from gpuaas.lifecycle.visits import LEFTOVERS_AFTER
from gpuaas.providers.sandbox.claims import claim_create
from gpuaas.providers.sandbox.dials import dials_set, failure_plan
from gpuaas.providers.sandbox.models import SandboxJob, SandboxNamespace, SandboxPod
from gpuaas.providers.sandbox.pods import pod_create, pod_evict
from gpuaas.workspaces.models import Workspace, WorkspaceMember
from gpuaas.workspaces.services import workspace_delete, workspace_resume, workspace_suspend
from quotas.selectors import reservations_held
from tenants.actors import Actor
from tenants.models import AuditEntry, User
from tests.factories.quotas import counters_must_match
from tests.jobs.stage import (
    FAILS,
    LONG,
    fresh,
    log,
    pods,
    run_now,
    running,
    settle,
    steps,
    submitted,
)
from tests.workspaces import stage as workspaces


def test_a_whole_life(as_alice: Actor, workspace: Workspace) -> None:
    row = submitted(as_alice, workspace, gpus=2, command=LONG, variables={"EPOCHS": "3"})
    assert (row.state, row.get_state_display(), row.gpus) == ("requested", "Queued", 2)
    row = settle(row, "ready")
    assert (pods(workspace), row.attempt, row.holding) == ([f"{row.external_name}-1"], 1, True)
    assert row.observed["node"] == SandboxPod.objects.get().node_name
    assert "attempt 1" in log(row)
    SandboxPod.objects.update(run_seconds=0)
    row = settle(row)
    assert (row.state, row.exit_code, row.failure, row.holding) == ("succeeded", 0, "", False)
    assert row.finished_at is not None
    assert (pods(workspace), SandboxJob.objects.count()) == ([], 0)
    assert "attempt 1" in log(row)
    states = list(row.transitions.values_list("new", flat=True))
    assert states == ["requested", "provisioning", "ready", "suspending", "succeeded"]

    job_delete(actor=as_alice, job=row)
    row = settle(row, "deleted")
    assert not JobLog.objects.exists()
    verbs = AuditEntry.objects.filter(action__startswith="job.").order_by("pk")
    assert list(verbs.values_list("action", flat=True)) == ["job.create", "job.delete"]


def test_one_that_fails_says_how(as_alice: Actor, workspace: Workspace) -> None:
    row = settle(submitted(as_alice, workspace, command=FAILS))
    assert (row.state, row.exit_code, row.cause, row.attempt) == ("failed", 3, "Error", 1)
    assert row.failure == "its command ended with exit code 3"
    assert "$ sh -c exit 3" in log(row)


def test_retries_are_counted(as_alice: Actor, workspace: Workspace) -> None:
    row = settle(submitted(as_alice, workspace, command=FAILS, retries=2))
    assert (row.state, row.attempt, row.exit_code) == ("failed", 3, 3)
    assert pods(workspace) == []


@pytest.mark.parametrize(
    ("wanted", "reason", "words", "code"),
    [
        ({"arguments": ["oom"], "memory_gib": 4}, "OOMKilled", "more than its 4 GiB of memory", 137),
        ({"image": "missing:1"}, "ImagePullBackOff", "there is no image missing:1", None),
    ],
)
def test_why_it_failed(
    as_alice: Actor, workspace: Workspace, wanted: dict[str, Any], reason: str, words: str, code: int | None
) -> None:
    row = settle(submitted(as_alice, workspace, **wanted))
    assert (row.state, row.cause, row.exit_code) == ("failed", reason, code)
    assert words in row.failure
    assert (pods(workspace), row.holding) == ([], False)


def test_what_the_site_removes_is_tried_again_and_then_said(as_alice: Actor, workspace: Workspace) -> None:
    row = running(as_alice, workspace, retries=1)
    for attempt in (1, 2):
        pod = SandboxPod.objects.get(name=f"{row.external_name}-{attempt}")
        assert pod_evict(workspace.site_id, workspace.external_name, str(pod.uid), reason="drained")
        row = run_now(row)
    row = settle(row)
    assert (row.state, row.cause, row.attempt) == ("failed", "Evicted", 2)


def test_its_deadline_ends_it(as_alice: Actor, workspace: Workspace) -> None:
    row = running(as_alice, workspace, deadline_seconds=60)
    with time_machine.travel(clock.now() + timedelta(seconds=61)):
        row = settle(row)
    assert (row.state, row.cause) == ("failed", "DeadlineExceeded")
    assert "not done within 60 seconds" in row.failure
    assert pods(workspace) == []


def test_the_log_is_taken_while_it_runs_and_cut_at_its_beginning(
    as_alice: Actor, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuaas.jobs.logs.MOST", 30)
    row = running(as_alice, workspace)
    with time_machine.travel(clock.now() + timedelta(seconds=20)):
        row = run_now(row)
    assert row.state == "ready"
    assert log(row).endswith("at work")
    assert len(log(row).encode()) <= 30


def test_nothing_is_reserved_or_charged_for_it(as_alice: Actor, workspace: Workspace) -> None:
    before = reservations_held(holder_kind="workspace", holder_id=workspace.pk)
    row = running(as_alice, workspace, gpus=3)
    assert reservations_held(holder_kind="workspace", holder_id=workspace.pk) == before
    assert reservations_held(holder_kind="job", holder_id=row.pk) == {}
    counters_must_match()


def test_where_members_use_it_already_it_waits_and_says_so(as_alice: Actor, workspace: Workspace) -> None:
    pod_create(workspace.site_id, workspace.external_name, "train", 4)
    row = submitted(as_alice, workspace, gpus=1, command=LONG)
    for _ in range(3):
        row = run_now(row)
    assert row.state == "provisioning"
    assert "exceeded quota" in row.waiting
    pod = SandboxPod.objects.get(name="train")
    pod_evict(workspace.site_id, workspace.external_name, str(pod.uid), reason="done")
    assert settle(row, "ready").waiting == ""


def test_a_lost_answer_is_found_again(as_alice: Actor, workspace: Workspace) -> None:
    failure_plan(workspace.site_id, verb="job-create:start", error="lost")
    row = running(as_alice, workspace)
    assert (row.state, len(pods(workspace))) == ("ready", 1)


def test_one_that_the_site_refuses_has_failed(as_alice: Actor, workspace: Workspace) -> None:
    failure_plan(workspace.site_id, verb="job-create:start", error="permanent", times=3)
    row = settle(submitted(as_alice, workspace))
    assert (row.state, row.cause, row.holding) == ("failed", "Refused", False)
    assert "permanently refuses" in row.failure


def test_a_site_that_is_away_is_waited_for(as_alice: Actor, workspace: Workspace) -> None:
    row = running(as_alice, workspace)
    dials_set(workspace.site_id, down=True)
    row = run_now(row)
    assert (row.state, row.conditions["Reachable"]["status"]) == ("ready", "False")
    job_cancel(actor=as_alice, job=row)
    row = run_now(row)
    assert (row.state, row.holding) == ("suspending", True)  # until the site confirms it
    dials_set(workspace.site_id, down=False)
    assert settle(row).state == "suspended"


def test_what_somebody_removed_at_the_site_has_failed(as_alice: Actor, workspace: Workspace) -> None:
    row = running(as_alice, workspace)
    SandboxJob.objects.all().delete()
    SandboxPod.objects.all().delete()
    row = settle(row)
    assert (row.state, row.cause) == ("failed", "Removed")


@pytest.mark.parametrize("runs", [0, 1, 3])
def test_cancelled_at_any_moment(as_alice: Actor, workspace: Workspace, runs: int) -> None:
    row = submitted(as_alice, workspace, command=LONG)
    for _ in range(runs):
        row = run_now(row)
    cancelled = job_cancel(actor=as_alice, job=row)
    assert job_cancel(actor=as_alice, job=row).version == cancelled.version
    row = settle(row) if runs else fresh(row)
    assert (row.state, row.failure, pods(workspace)) == ("suspended", "cancelled by alice", [])
    assert row.finished_at is not None
    with pytest.raises(Conflict, match="the job is deleting"):
        job_cancel(actor=as_alice, job=job_delete(actor=as_alice, job=row))


def test_one_that_has_ended_is_not_cancelled(as_alice: Actor, workspace: Workspace) -> None:
    row = settle(submitted(as_alice, workspace))
    with pytest.raises(Conflict, match="succeeded"):
        job_cancel(actor=as_alice, job=row)


def test_deleted_while_it_runs(as_alice: Actor, workspace: Workspace) -> None:
    row = running(as_alice, workspace)
    job_delete(actor=as_alice, job=row)
    row = settle(row, "deleted")
    assert (pods(workspace), row.holding) == ([], False)


def test_what_a_late_answer_leaves_is_removed(as_alice: Actor, workspace: Workspace) -> None:
    row = settle(job_cancel(actor=as_alice, job=running(as_alice, workspace)))
    room = SandboxNamespace.objects.get(name=workspace.external_name)
    SandboxJob.objects.create(namespace=room, name=row.external_name, created_at=clock.now())
    with time_machine.travel(clock.now() + LEFTOVERS_AFTER):
        row = run_now(row)
    assert (row.state, row.due_at, SandboxJob.objects.count()) == ("suspended", None, 0)


def test_the_same_again_with_a_change(as_alice: Actor, workspace: Workspace) -> None:
    first = settle(submitted(as_alice, workspace, command=FAILS, gpus=1, variables={"A": "1"}, retries=1))
    again = settle(job_rerun(actor=as_alice, job=first, command=["true"]))
    assert (again.state, again.again_id, again.name, again.pk != first.pk) == (
        "succeeded",
        first.pk,
        "train",
        True,
    )
    assert (again.gpus, again.pool_id, again.variables, again.retries) == (1, first.pool_id, {"A": "1"}, 1)
    without = job_rerun(actor=as_alice, job=first, gpus=0, name="small")
    assert (without.pool, without.name) == (None, "small")


# -- its workspace -------------------------------------------------------------------------------------------------


def test_suspending_the_workspace_cancels_what_runs_and_keeps_the_queue(
    as_alice: Actor, workspace: Workspace
) -> None:
    row = running(as_alice, workspace, gpus=4)
    waits = run_now(submitted(as_alice, workspace, "later", gpus=1))
    workspace_suspend(actor=as_alice, workspace=workspace)
    row = settle(row)
    assert (row.state, row.failure) == ("suspended", "its workspace was suspended by alice")
    place = workspaces.settle(workspace)
    assert place.state == "suspended"
    assert queue_start(workspace_id=workspace.pk) == 0
    assert fresh(waits).waiting == "its workspace is suspended"
    with pytest.raises(Conflict, match="suspended"):
        submitted(as_alice, workspace)
    workspace_resume(actor=as_alice, workspace=place)
    assert workspaces.settle(workspace).state == "ready"
    assert pods(workspace) == []
    assert settle(waits).state == "succeeded"


def test_deleting_the_workspace_deletes_them(as_alice: Actor, workspace: Workspace) -> None:
    rows = [running(as_alice, workspace), submitted(as_alice, workspace, "later")]
    rows.append(settle(submitted(as_alice, workspace, "done")))
    workspace_delete(actor=as_alice, workspace=workspace)
    assert [fresh(row).state for row in rows] == ["deleting", "deleting", "succeeded"]
    assert (left_delete(), left_delete()) == (1, 0)
    assert set(Job.objects.values_list("state", flat=True)) == {"deleting"}
    assert workspaces.settle(workspace).state == "deleted"
    assert {settle(row, "deleted").state for row in rows} == {"deleted"}


# -- who -----------------------------------------------------------------------------------------------------------


def test_an_outsider_finds_nothing(as_alice: Actor, as_charlie: Actor, workspace: Workspace) -> None:
    row = submitted(as_alice, workspace)
    for service in (job_cancel, job_delete, job_rerun):
        with pytest.raises(NotFound):
            service(actor=as_charlie, job=row)
    with pytest.raises(NotFound):
        submitted(as_charlie, workspace, "mine")
    with pytest.raises(NotFound):
        job_get_for(actor=as_charlie, job_id=row.pk)
    assert not jobs_for(actor=as_charlie).exists()


def test_a_teammate_needs_a_role_in_the_workspace(
    as_alice: Actor, as_bob: Actor, bob: User, workspace: Workspace
) -> None:
    row = submitted(as_alice, workspace)
    assert job_get_for(actor=as_bob, job_id=row.pk) == row
    with pytest.raises(Forbidden, match="admins and editors of the workspace can run jobs"):
        job_cancel(actor=as_bob, job=row)
    WorkspaceMember.objects.create(workspace=workspace, user=bob, role="edit")
    assert job_cancel(actor=as_bob, job=row).state == "suspended"


def test_a_site_without_them_says_so(as_alice: Actor, workspace: Workspace) -> None:
    workspace.site.driver = "sandbox-cloud"
    workspace.site.save()
    with pytest.raises(Conflict, match="ber-1 runs no jobs"):
        submitted(as_alice, workspace)


def test_a_volume_of_the_workspace_is_mounted(as_alice: Actor, workspace: Workspace) -> None:
    row = submitted(as_alice, workspace, command=LONG, volume="data", mount="/data")
    for _ in range(3):
        row = run_now(row)
    assert (row.state, row.waiting) == ("provisioning", 'persistentvolumeclaim "data" not found')
    claim_create(workspace.site_id, workspace.external_name, "data", 1)
    row = settle(row, "ready")
    assert steps(row) == [("start", "done")]


@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        ({"name": "Not a name"}, "name"),
        ({"image": ""}, "image"),
        ({"image": "a b"}, "image"),
        ({"command": "true"}, "command"),
        ({"command": ["\x00"]}, "command"),
        ({"arguments": [5]}, "arguments"),
        ({"variables": {"1": "x"}}, "variables"),
        ({"variables": {"A": 5}}, "variables"),
        ({"variables": ["A=5"]}, "variables"),
        ({"variables": {"NVIDIA_VISIBLE_DEVICES": "all"}}, "variables"),
        ({"gpus": 1, "variables": {"AMD_VISIBLE_DEVICES": "none"}}, "variables"),
        ({"gpus": -1}, "gpus"),
        ({"gpus": True}, "gpus"),
        ({"gpus": 1, "gpu": "a100-40gb"}, "gpu"),
        ({"vcpus": 0}, "vcpus"),
        ({"memory_gib": 10**9}, "memory_gib"),
        ({"retries": 11}, "retries"),
        ({"deadline_seconds": 0}, "deadline_seconds"),
        ({"deadline_seconds": 31 * 86_400}, "deadline_seconds"),
        ({"volume": "data"}, "mount"),
        ({"volume": "Data", "mount": "/data"}, "volume"),
        ({"mount": "/data"}, "volume"),
        ({"volume": "data", "mount": "/etc/x"}, "mount"),
        ({"volume": "data", "mount": "/a/../etc"}, "mount"),
    ],
)
def test_what_cannot_be_is_refused_at_its_field(
    as_alice: Actor, workspace: Workspace, wanted: dict[str, Any], field: str
) -> None:
    with pytest.raises(Invalid) as refused:
        submitted(as_alice, workspace, **wanted)
    assert list(refused.value.fields) == [field]
    assert not Job.objects.exists()
