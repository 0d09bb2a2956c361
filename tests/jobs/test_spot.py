"""A job that borrows its GPUs, and is ended for somebody who bought them: it says so, and goes on later as the same attempt."""

from collections.abc import Iterator

import pytest
import time_machine

from gpuaas.catalog.models import Flavor, Site
from gpuaas.core.clock import now
from gpuaas.core.errors import Invalid
from gpuaas.providers.sandbox.models import SandboxPod
from gpuaas.providers.sandbox.pods import pod_delete
from gpuaas.workspaces.lending import KEPT
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import Project
from tests.jobs.stage import LONG, pods, run_now, settle, submitted
from tests.workspaces.spotted import OVER, borrower_ready, buyer_ready, needs_all, one_node, spot_flavor


@pytest.fixture
def travel(db: None) -> Iterator[time_machine.Traveller]:
    with time_machine.travel(now(), tick=False) as found:
        yield found


@pytest.fixture
def lent(travel: object, as_alice: Actor, project: Project, site: Site, h100: Flavor) -> Workspace:
    one_node(site)
    spot_flavor(h100)
    return borrower_ready(as_alice, project, site)


@pytest.fixture
def buyer(lent: Workspace, as_alice: Actor, project: Project, site: Site) -> Workspace:
    return buyer_ready(as_alice, project, site)


@pytest.mark.parametrize("tasks", [1, 2])
def test_it_is_ended_with_notice_and_starts_again_by_itself(
    as_alice: Actor, lent: Workspace, buyer: Workspace, travel: time_machine.Traveller, tasks: int
) -> None:
    row = settle(submitted(as_alice, lent, gpus=2, command=LONG, tasks=tasks), "ready")
    submitted_at, began = row.created_at, pods(lent)
    wanted = needs_all(buyer)
    assert "waits for borrowed nvidia.com/gpu" in wanted.waiting_for
    row = run_now(row)
    assert (row.get_state_display(), row.preemptions, pods(lent)) == ("Running", 1, began)
    assert "somebody who bought them needed them" in row.conditions[KEPT]["message"]

    travel.shift(OVER)
    row = run_now(row)
    assert (row.get_state_display(), row.preemptions, row.holding) == ("Starting", 1, True)
    assert row.waiting.startswith("it was preempted at ")
    assert "it starts again once GPUs are idle" in row.waiting
    wanted.refresh_from_db()
    assert wanted.scheduled_at is not None
    assert wanted.scheduled_at - wanted.created_at <= OVER

    pod_delete(buyer.site_id, buyer.external_name, "all")
    row = settle(row, "ready")
    travel.shift(OVER)
    row = run_now(row)
    assert (row.attempt, row.preemptions, row.created_at) == (1, 1, submitted_at)
    assert (row.conditions[KEPT]["reason"], row.waiting) == ("RunsAgain", "")
    SandboxPod.objects.filter(namespace__owner=lent.pk).update(run_seconds=0)
    row = settle(row)
    assert (row.state, row.retries, row.failure) == ("succeeded", 0, "")


def test_one_that_is_done_within_the_notice_is_let_finish(
    as_alice: Actor, lent: Workspace, buyer: Workspace, travel: time_machine.Traveller
) -> None:
    row = settle(submitted(as_alice, lent, gpus=2, command=["sleep", "60"]), "ready")
    wanted = needs_all(buyer)
    travel.shift(60)
    row = settle(row)
    assert (row.state, row.preemptions) == ("succeeded", 0)
    wanted.refresh_from_db()
    assert wanted.scheduled_at is not None


def test_tasks_that_run_together_do_not_borrow(as_alice: Actor, lent: Workspace) -> None:
    with pytest.raises(Invalid, match="nothing keeps them until all tasks have theirs") as refused:
        submitted(as_alice, lent, gpus=1, tasks=2, together=True)
    assert list(refused.value.fields) == ["together"]


def test_what_asks_for_no_gpu_borrows_nothing(as_alice: Actor, lent: Workspace) -> None:
    """Of what is lent only GPUs are counted and charged."""
    with pytest.raises(Invalid, match="ask for at least one") as refused:
        submitted(as_alice, lent, gpus=0)
    assert list(refused.value.fields) == ["gpus"]
