"""Rounds of workspaces that lend to each other, at the same moment and on real connections: nobody waits for somebody who waits, and
no more is taken than was bought."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from gpuaas.catalog.models import Site
from gpuaas.jobs.models import Job
from gpuaas.jobs.services import job_cancel, queue_start
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.room import room_of
from gpuaas.workspaces.services import workspace_lend, workspace_suspend
from tenants.actors import Actor
from tenants.models import Project
from tests.jobs.stage import LONG, fresh, lender_ready, settle, submitted, visited, workspace_ready
from tests.workspaces.test_races import at_once

pytestmark = pytest.mark.django_db(transaction=True)


def within(*places: Workspace) -> list[int]:
    """GPUs that are taken of each, which are never more than it has bought."""
    found = [next(iter(room_of(workspace=place).pools.values())) for place in places]
    assert all(amount.taken <= amount.bought for amount in found)
    return [amount.taken for amount in found]


@pytest.fixture
def pair(as_alice: Actor, project: Project, site: Site) -> tuple[Workspace, Workspace]:
    """Two that lend to each other."""
    one = workspace_ready(as_alice, project, site)
    workspace_lend(actor=as_alice, workspace=one, open_to_project=True)
    return one, lender_ready(as_alice, project, site)


def test_rounds_of_two_that_lend_to_each_other(as_alice: Actor, pair: tuple[Workspace, Workspace]) -> None:
    rows = [
        submitted(as_alice, place, f"n-{n}", gpus=1, command=LONG, borrow=True)
        for place, count in zip(pair, (7, 2), strict=True)
        for n in range(count)
    ]
    assert at_once(8, lambda n: queue_start(workspace_id=pair[n % 2].pk)) == {"done": 8}
    for place in pair:
        queue_start(workspace_id=place.pk)
    assert within(*pair) == [4, 4]
    assert [fresh(row).place_id for row in rows if fresh(row).holding].count(pair[1].pk) == 2


def test_guests_leave_while_others_come(as_alice: Actor, pair: tuple[Workspace, Workspace]) -> None:
    """Whatever is first: each workspace's own jobs have its room in the end."""
    one, other = pair
    guests = [submitted(as_alice, one, f"n-{n}", gpus=1, command=LONG, borrow=True) for n in range(8)]
    queue_start(workspace_id=one.pk)
    assert within(*pair) == [4, 4]
    own = [submitted(as_alice, other, f"own-{n}", gpus=1, command=LONG, borrow=True) for n in range(4)]

    def deed(number: int) -> object:
        if number % 4 == 3:
            return visited(guests[number])
        return queue_start(workspace_id=pair[number % 2].pk)

    for _ in range(3):
        assert at_once(8, deed) == {"done": 8}
        within(*pair)
    for row in guests[4:]:
        visited(row, runs=3)
    queue_start(workspace_id=other.pk)
    assert within(*pair) == [4, 4]
    assert all(fresh(row).holding and fresh(row).place is None for row in own)


def test_both_call_their_guests_home(as_alice: Actor, pair: tuple[Workspace, Workspace]) -> None:
    """Each locks those that are in the other one."""
    guests = []
    for place, other in (pair, pair[::-1]):
        row = submitted(as_alice, place, "away", gpus=1, command=LONG, borrow=True)
        at = {"place": other, "placed_at": row.created_at - timedelta(hours=1), "lenders": [str(other.pk)]}
        Job.objects.filter(pk=row.pk).update(state="provisioning", holding=True, **at)
        guests.append(row)
    assert at_once(8, lambda n: queue_start(workspace_id=pair[n % 2].pk)) == {"done": 8}
    for place in pair:
        queue_start(workspace_id=place.pk)  # one that was passed
    assert [fresh(row).state for row in guests] == ["suspending", "suspending"]
    for row in guests:
        assert settle(row, "ready").place is None
    assert within(*pair) == [1, 1]


def test_both_are_taken_down_while_guests_are_in_both(
    as_alice: Actor, pair: tuple[Workspace, Workspace]
) -> None:
    for place, back in (pair, pair[::-1]):
        filling = submitted(as_alice, place, "filling", gpus=4, command=LONG)
        queue_start(workspace_id=place.pk)
        submitted(as_alice, back, "guest", gpus=2, command=LONG, borrow=True)
        Job.objects.filter(pk=filling.pk).update(gpus=2)  # so that both have room for one another
    for row in Job.objects.filter(name="guest"):
        other = pair[1] if row.workspace_id == pair[0].pk else pair[0]
        moved = {"place": other, "state": "provisioning", "holding": True, "lenders": [str(other.pk)]}
        Job.objects.filter(pk=row.pk).update(placed_at=row.created_at, **moved)
    guests = list(Job.objects.filter(name="guest"))
    deeds: list[Callable[[], object]] = [
        lambda: workspace_suspend(actor=as_alice, workspace=pair[0]),
        lambda: workspace_suspend(actor=as_alice, workspace=pair[1]),
        lambda: queue_start(workspace_id=pair[0].pk),
        lambda: job_cancel(actor=as_alice, job=guests[0]),
    ]
    assert at_once(8, lambda number: deeds[number % 4]()) == {"done": 8}
    cancelled, other_guest = guests
    assert settle(cancelled).state == "suspended"
    # suspended with its home, or it had left the lender before that and waits in its home's queue until that is resumed
    assert visited(other_guest, runs=20).state in {"suspended", "requested"}
    assert not Job.objects.filter(holding=True, name="guest").exists()
