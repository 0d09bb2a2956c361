"""The queue of a workspace: in order, never more than fits, and always with words for what is waited for."""

import pytest

from gpuaas.core.errors import QuotaRefused
from gpuaas.environments.services import environment_stop
from gpuaas.jobs.models import Job
from gpuaas.jobs.selectors import position_of
from gpuaas.jobs.services import job_cancel, queue_start
from gpuaas.jobs.services.queue import BEHIND
from gpuaas.jobs.tasks import sweep
from gpuaas.providers.sandbox.models import SandboxPod
from gpuaas.workspaces.models import Workspace, WorkspaceFlavor
from gpuaas.workspaces.room import room_of
from tenants.actors import Actor
from tests.environments import stage as environments
from tests.jobs.stage import LONG, fresh, running, settle, submitted


def states(*rows: Job) -> list[str]:
    return [fresh(row).state for row in rows]


def test_two_run_and_the_third_waits_says_why_and_starts(as_alice: Actor, workspace: Workspace) -> None:
    first, second, third = (
        submitted(as_alice, workspace, f"n-{number}", gpus=2, command=LONG) for number in range(3)
    )
    assert [position_of(row) for row in (first, second, third)] == [1, 2, 3]
    assert queue_start(workspace_id=workspace.pk) == 2
    assert states(first, second, third) == ["provisioning", "provisioning", "requested"]
    third = fresh(third)
    assert third.waiting == "waits for 2 H100 SXM 80 GB: 0 of 4 are free"
    assert position_of(third) == 1
    settle(first, "ready")
    SandboxPod.objects.filter(name__startswith=first.external_name).update(run_seconds=0)
    assert settle(first).state == "succeeded"
    assert queue_start(workspace_id=workspace.pk) == 1
    assert (fresh(third).state, fresh(third).waiting) == ("provisioning", "")


def test_no_later_one_passes_an_earlier_one(as_alice: Actor, workspace: Workspace) -> None:
    running(as_alice, workspace, gpus=3)
    big, small = (
        submitted(as_alice, workspace, name, gpus=count) for name, count in (("big", 2), ("small", 1))
    )
    assert queue_start(workspace_id=workspace.pk) == 0
    assert fresh(big).waiting == "waits for 2 H100 SXM 80 GB: 1 of 4 is free"
    assert fresh(small).waiting == BEHIND
    job_cancel(actor=as_alice, job=big)
    assert queue_start(workspace_id=workspace.pk) == 1
    assert states(small) == ["provisioning"]


def test_one_that_asks_for_more_than_was_bought_keeps_nobody_waiting(
    as_alice: Actor, workspace: Workspace
) -> None:
    big, small = (
        submitted(as_alice, workspace, name, gpus=count) for name, count in (("big", 4), ("small", 1))
    )
    WorkspaceFlavor.objects.filter(workspace=workspace).update(confirmed=2)  # made smaller since
    assert queue_start(workspace_id=workspace.pk) == 1
    assert fresh(big).waiting == "waits for 4 H100 SXM 80 GB: the workspace has bought 2"
    assert states(small) == ["provisioning"]


def test_vcpus_and_memory_are_waited_for_too(as_alice: Actor, workspace: Workspace) -> None:
    running(as_alice, workspace, vcpus=60, memory_gib=700)
    vcpus = submitted(as_alice, workspace, "vcpus", vcpus=5)
    queue_start(workspace_id=workspace.pk)
    assert fresh(vcpus).waiting == "waits for 5 vCPUs: 4 of 64 are free"
    job_cancel(actor=as_alice, job=vcpus)
    memory = submitted(as_alice, workspace, "memory", memory_gib=21)
    queue_start(workspace_id=workspace.pk)
    assert fresh(memory).waiting == "waits for 21 GiB of memory: 20 of 720 are free"


@pytest.mark.parametrize(
    ("wanted", "field"),
    [({"gpus": 5}, "gpus"), ({"vcpus": 65}, "vcpus"), ({"memory_gib": 721}, "memory_gib")],
)
def test_what_would_never_start_is_refused(
    as_alice: Actor, workspace: Workspace, wanted: dict[str, int], field: str
) -> None:
    running(as_alice, workspace, gpus=4)
    with pytest.raises(QuotaRefused, match="never starts") as refused:
        submitted(as_alice, workspace, "more", **wanted)
    assert (refused.value.detail["field"], refused.value.detail["asked"]) == (field, wanted[field])


def test_environments_and_jobs_share_what_was_bought(as_alice: Actor, workspace: Workspace) -> None:
    lab = environments.ready(as_alice, workspace, gpus=3)
    row = submitted(as_alice, workspace, gpus=2, command=LONG)
    queue_start(workspace_id=workspace.pk)
    assert fresh(row).waiting == "waits for 2 H100 SXM 80 GB: 1 of 4 is free"
    environment_stop(actor=as_alice, environment=lab)
    queue_start(workspace_id=workspace.pk)
    assert states(row) == ["requested"]  # until the site has confirmed the stop
    environments.settle(lab)
    queue_start(workspace_id=workspace.pk)
    assert states(row) == ["provisioning"]
    with pytest.raises(QuotaRefused, match="its other environments and jobs take 2: 2 are free"):
        environments.ordered(as_alice, workspace, "second", gpus=3)
    amounts = room_of(workspace=workspace).amounts
    assert (amounts["vcpus"].taken, amounts["memory_gib"].taken) == (row.vcpus, row.memory_gib)


def test_the_sweep_asks_for_a_round_of_each_queue(
    as_alice: Actor, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    poked: list[tuple[str, ...]] = []
    monkeypatch.setattr("gpuaas.jobs.services.queue.poke", lambda *words: poked.append(words))
    submitted(as_alice, workspace)
    submitted(as_alice, workspace, "second")
    poked.clear()
    sweep()
    assert poked == [("jobs.queue", str(workspace.pk))]
