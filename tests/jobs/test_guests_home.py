"""A guest that has not begun anywhere is called home once its own workspace has room for it."""

from datetime import timedelta

import pytest
import time_machine

from gpuaas.catalog.models import Site
from gpuaas.core import clock
from gpuaas.jobs.models import Job
from gpuaas.jobs.services import job_cancel, queue_start
from gpuaas.jobs.tasks import sweep
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import Project
from tests.jobs.stage import LONG, fresh, lender_ready, running, settle, submitted


@pytest.fixture
def own(as_alice: Actor, workspace: Workspace) -> Job:
    return running(as_alice, workspace, "own", gpus=4)


@pytest.fixture
def guest(as_alice: Actor, own: Job, workspace: Workspace, project: Project, site: Site) -> Job:
    """It waits at the site, as where pods of members have the GPUs."""
    lender = lender_ready(as_alice, project, site)
    row = submitted(as_alice, workspace, "guest", gpus=2, borrow=True, command=LONG)
    queue_start(workspace_id=workspace.pk)
    row = fresh(row)
    assert (row.place, row.state) == (lender, "provisioning")
    return row


def rounds(workspace: Workspace, minutes: int = 2) -> None:
    with time_machine.travel(clock.now() + timedelta(minutes=minutes)):
        queue_start(workspace_id=workspace.pk)


def left(own: Job, actor: Actor) -> None:
    job_cancel(actor=actor, job=own)
    settle(own)


def test_it_is_called_home_and_starts_there(
    as_alice: Actor, guest: Job, own: Job, workspace: Workspace
) -> None:
    rounds(workspace)
    assert fresh(guest).state == "provisioning"
    left(own, as_alice)
    queue_start(workspace_id=workspace.pk)
    assert fresh(guest).state == "provisioning"  # it has just come
    rounds(workspace)
    row = fresh(guest)
    assert (row.state, row.outcome, row.waiting.partition(" UTC: ")[2]) == (
        "suspending",
        "",
        "train has room for it again",
    )
    row = settle(row, "ready")
    assert (row.place, row.created_at) == (None, guest.created_at)


@pytest.mark.parametrize(
    "seen",
    [{"ready_at": clock.now()}, {"observed": {"node": "n-1"}}, {"observed": {"tasks": [{"node": "n-1"}]}}],
)
def test_one_that_has_begun_stays(
    as_alice: Actor, guest: Job, own: Job, workspace: Workspace, seen: dict[str, object]
) -> None:
    left(own, as_alice)
    Job.objects.filter(pk=guest.pk).update(**seen)
    rounds(workspace)
    assert fresh(guest).state == "provisioning"


def test_one_before_which_others_wait_stays(
    as_alice: Actor, guest: Job, own: Job, workspace: Workspace
) -> None:
    left(own, as_alice)
    running(as_alice, workspace, "theirs", gpus=2)
    submitted(as_alice, workspace, "first", gpus=3, priority="high")
    rounds(workspace)
    assert fresh(guest).state == "provisioning"


def test_the_sweep_asks_for_a_round_at_its_home(
    guest: Job, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    poked: list[tuple[str, ...]] = []
    monkeypatch.setattr("gpuaas.jobs.services.queue.poke", lambda *words: poked.append(words))
    sweep()
    assert ("jobs.queue", str(workspace.pk)) in poked
