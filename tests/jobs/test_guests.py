"""A job that runs in another workspace of its project while its own is full: it comes, it leaves, and the lender's own jobs never wait
for it longer than the notice."""

from datetime import timedelta

import pytest
import time_machine
from django.db import connection
from django.test.utils import CaptureQueriesContext

from billing.selectors.inside import inside_cost
from gpuaas.catalog.models import Flavor, Site
from gpuaas.core.clock import now, whole_second
from gpuaas.core.errors import Invalid
from gpuaas.jobs.models import Job
from gpuaas.jobs.services import job_cancel, job_delete, queue_start
from gpuaas.jobs.tasks import sweep
from gpuaas.metering.models import Meter, UsageInterval
from gpuaas.providers.sandbox.dials import dials_set
from gpuaas.providers.sandbox.models import SandboxJob, SandboxPod
from gpuaas.workspaces.lending import KEPT
from gpuaas.workspaces.models import Workspace, WorkspaceFlavor
from gpuaas.workspaces.room import room_of
from gpuaas.workspaces.services import workspace_delete, workspace_lend, workspace_suspend
from tenants.actors import Actor
from tenants.models import Project
from tests.factories.catalog import FlavorFactory
from tests.jobs.stage import (
    LONG,
    credential,
    ended,
    fresh,
    lender_ready,
    log,
    pods,
    running,
    settle,
    submitted,
    visited,
)


@pytest.fixture
def lender(as_alice: Actor, project: Project, site: Site, workspace: Workspace) -> Workspace:
    return lender_ready(as_alice, project, site)


@pytest.fixture
def own(as_alice: Actor, workspace: Workspace) -> Job:
    """It fills its workspace."""
    return running(as_alice, workspace, "own", gpus=4)


@pytest.fixture
def guest(as_alice: Actor, workspace: Workspace, lender: Workspace, own: Job) -> Job:
    return running(as_alice, workspace, "guest", gpus=2, borrow=True)


def taken(workspace: Workspace) -> int:
    (amount,) = room_of(workspace=workspace).pools.values()
    return amount.taken


def waits(actor: Actor, workspace: Workspace, name: str = "next", **wanted: object) -> Job:
    row = submitted(actor, workspace, name, **{"command": LONG, "borrow": True, **wanted})
    queue_start(workspace_id=workspace.pk)
    return fresh(row)


def test_it_runs_in_the_other_workspace_while_its_own_is_full(
    guest: Job, lender: Workspace, workspace: Workspace
) -> None:
    assert (guest.place, guest.workspace, guest.state) == (lender, workspace, "ready")
    assert len(pods(lender)) == len(pods(workspace)) == 1
    assert (taken(workspace), taken(lender)) == (4, 2)
    (came,) = guest.transitions.filter(new="provisioning")
    assert came.reason == "in shared, since train has no room for it"
    ended(guest)
    guest = settle(guest)
    assert (guest.state, guest.place, guest.holding, taken(lender)) == ("succeeded", lender, False, 0)


def test_it_runs_at_home_while_there_is_room(
    as_alice: Actor, workspace: Workspace, lender: Workspace
) -> None:
    row = running(as_alice, workspace, gpus=4, borrow=True)
    assert (row.place, row.lenders, taken(lender)) == (None, [], 0)


def test_it_leaves_for_a_job_of_the_lenders_own_and_starts_anew(
    as_alice: Actor, guest: Job, own: Job, lender: Workspace
) -> None:
    first = running(as_alice, lender, "first", gpus=2)  # beside it
    assert fresh(guest).state == "ready"
    mine = submitted(as_alice, lender, "mine", gpus=1, command=LONG)
    assert queue_start(workspace_id=lender.pk) == 0
    guest = fresh(guest)
    assert (guest.state, guest.outcome, guest.holding, guest.preemptions) == ("suspending", "", True, 1)
    assert guest.waiting.startswith("it had to leave shared at ")
    assert guest.waiting.endswith("shared needs its room")
    assert queue_start(workspace_id=lender.pk) == 0  # until nothing of it is left there
    while fresh(guest).state == "suspending":
        visited(guest)
    assert queue_start(workspace_id=lender.pk) == 1
    guest = fresh(guest)
    assert (guest.state, guest.place, guest.attempt, guest.ready_at) == ("requested", None, 0, None)
    assert (fresh(mine).state, fresh(first).state) == ("provisioning", "ready")
    assert "it waits in the queue of train and starts from the beginning" in guest.conditions[KEPT]["message"]
    job_cancel(actor=as_alice, job=own)
    settle(own)
    guest = settle(guest, "ready")
    assert (guest.place, guest.conditions[KEPT]["reason"], guest.ran_in) == (
        None,
        "RunsAgain",
        [guest.workspace_id, lender.pk],
    )


def test_it_may_go_to_another_one_after_it(
    as_alice: Actor, guest: Job, lender: Workspace, project: Project, site: Site
) -> None:
    third = lender_ready(as_alice, project, site, "third", h100s=2)
    submitted(as_alice, lender, "mine", gpus=4, command=LONG)
    queue_start(workspace_id=lender.pk)
    guest = settle(guest, "requested")
    queue_start(workspace_id=lender.pk)
    guest = settle(guest, "ready")
    assert (guest.place, len(pods(third)), guest.lenders) == (third, 1, [str(lender.pk), str(third.pk)])
    ended(guest)
    assert settle(guest).state == "succeeded"


def test_no_more_leave_than_have_to_and_the_newest_first(
    as_alice: Actor, workspace: Workspace, lender: Workspace, own: Job
) -> None:
    guests = [running(as_alice, workspace, f"n-{n}", gpus=1, borrow=True) for n in range(4)]
    submitted(as_alice, lender, "mine", gpus=1, command=LONG)
    submitted(as_alice, lender, "also", gpus=1, command=LONG)
    queue_start(workspace_id=lender.pk)
    queue_start(workspace_id=lender.pk)  # of those that are leaving already
    assert [fresh(row).state for row in guests] == ["ready", "ready", "suspending", "suspending"]


def test_what_waits_in_the_lender_comes_first(
    as_alice: Actor, workspace: Workspace, lender: Workspace, own: Job
) -> None:
    running(as_alice, lender, "theirs", gpus=3)
    submitted(as_alice, lender, "mine", gpus=2)
    row = waits(as_alice, workspace, gpus=1)
    assert (row.state, row.place) == ("requested", None)
    assert row.waiting.endswith("0 of 4 are free; no other workspace of the project has room for it")


def test_it_stays_where_no_other_workspace_lends(as_alice: Actor, workspace: Workspace, own: Job) -> None:
    row = waits(as_alice, workspace, gpus=1)
    assert row.waiting.endswith("; no other workspace of the project is open to it")


def test_neither_a_closed_one_nor_one_of_another_project_or_price_class_lends(
    as_alice: Actor, workspace: Workspace, lender: Workspace, own: Job, other_project: Project, h100: Flavor
) -> None:
    reserved = FlavorFactory.create(pool=h100.pool, slug="h100.reserved", price_class="reserved")
    sold = WorkspaceFlavor.objects.filter(workspace=lender)
    rows = Workspace.objects.filter(pk=lender.pk)
    for found, changed, back in (
        (sold, {"flavor": reserved}, {"flavor": h100}),
        (rows, {"open_to_project": False}, {"open_to_project": True}),
        (rows, {"project": other_project}, {"project": workspace.project}),
    ):
        found.update(**changed)
        row = waits(as_alice, workspace, gpus=1)
        assert (row.state, row.place) == ("requested", None)
        job_cancel(actor=as_alice, job=row)
        found.update(**back)
    assert waits(as_alice, workspace, gpus=1).place == lender


def test_a_site_where_members_use_it_themselves_has_no_room(
    as_alice: Actor, workspace: Workspace, lender: Workspace, own: Job
) -> None:
    row = Workspace.objects.get(pk=lender.pk)
    row.observed["used"]["nvidia.com/gpu"] = 3
    row.save()
    assert waits(as_alice, workspace, gpus=2).place is None
    assert waits(as_alice, workspace, "small", gpus=1).place is None  # in turn
    job_cancel(actor=as_alice, job=Job.objects.get(name="next"))
    queue_start(workspace_id=workspace.pk)
    assert Job.objects.get(name="small").place == lender


def test_one_that_does_not_borrow_keeps_no_borrower_from_the_other_workspace(
    as_alice: Actor, workspace: Workspace, lender: Workspace, own: Job
) -> None:
    stays = waits(as_alice, workspace, "stays", gpus=1, borrow=False)
    goes = waits(as_alice, workspace, "goes", gpus=1)
    assert (fresh(stays).state, goes.place) == ("requested", lender)


def test_a_lender_that_is_closed_is_left(as_alice: Actor, guest: Job, lender: Workspace) -> None:
    workspace_lend(actor=as_alice, workspace=lender, open_to_project=False)
    queue_start(workspace_id=lender.pk)
    guest = settle(guest, "requested")
    assert "shared is not open to its project any more" in guest.conditions[KEPT]["message"]
    assert (guest.place, pods(lender), SandboxJob.objects.count()) == (None, [], 1)


def test_a_lender_that_becomes_smaller_is_left(as_alice: Actor, guest: Job, lender: Workspace) -> None:
    WorkspaceFlavor.objects.filter(workspace=lender).update(count=1)
    queue_start(workspace_id=lender.pk)
    assert fresh(guest).state == "suspending"


@pytest.mark.parametrize("deed", [workspace_suspend, workspace_delete])
def test_a_lender_that_is_taken_down_is_left(
    as_alice: Actor, guest: Job, lender: Workspace, deed: object
) -> None:
    assert callable(deed)
    deed(actor=as_alice, workspace=lender)
    assert fresh(guest).state == "suspending"
    assert settle(guest, "requested").place is None


def test_its_own_workspace_is_taken_down_and_it_ends(
    as_alice: Actor, guest: Job, workspace: Workspace, lender: Workspace
) -> None:
    workspace_suspend(actor=as_alice, workspace=workspace)
    assert settle(guest).state == "suspended"
    assert (pods(lender), taken(lender)) == ([], 0)


def test_one_that_is_leaving_can_be_cancelled_and_deleted(
    as_alice: Actor, guest: Job, lender: Workspace
) -> None:
    workspace_lend(actor=as_alice, workspace=lender, open_to_project=False)
    queue_start(workspace_id=lender.pk)
    row = job_cancel(actor=as_alice, job=guest)
    assert (row.state, row.outcome, row.conditions.get(KEPT)) == ("suspending", "suspended", None)
    assert settle(guest).state == "suspended"
    job_delete(actor=as_alice, job=guest)
    assert settle(guest).state == "deleted"
    assert SandboxJob.objects.count() == 1


def test_one_that_had_to_leave_and_never_runs_again_does_not_say_that_it_waits(
    as_alice: Actor, guest: Job, lender: Workspace, own: Job
) -> None:
    workspace_lend(actor=as_alice, workspace=lender, open_to_project=False)
    queue_start(workspace_id=lender.pk)
    guest = settle(guest, "requested")
    assert KEPT in guest.conditions
    row = job_cancel(actor=as_alice, job=guest)
    assert (row.state, row.conditions.get(KEPT), row.preemptions) == ("suspended", None, 1)


def test_one_that_was_done_before_it_had_to_leave_has_succeeded(
    as_alice: Actor, guest: Job, lender: Workspace
) -> None:
    ended(guest)
    workspace_lend(actor=as_alice, workspace=lender, open_to_project=False)
    queue_start(workspace_id=lender.pk)
    guest = settle(guest)
    assert (guest.state, guest.preemptions, guest.conditions.get(KEPT)) == ("succeeded", 0, None)
    assert guest.preempted_at is None


def test_a_slow_one_is_ended_after_the_notice(
    as_alice: Actor, guest: Job, lender: Workspace, site: Site
) -> None:
    dials_set(site.pk, grace_ms=600_000)
    workspace_lend(actor=as_alice, workspace=lender, open_to_project=False)
    queue_start(workspace_id=lender.pk)
    visited(guest)
    (pod,) = SandboxJob.objects.get(name=guest.external_name).namespace.pods.all()
    at = fresh(guest).preempted_at
    assert pod.gone_at is not None
    assert at is not None
    assert 119 < (pod.gone_at - at).total_seconds() < 125


def test_what_it_writes_during_its_notice_is_kept(
    as_alice: Actor, guest: Job, lender: Workspace, site: Site
) -> None:
    dials_set(site.pk, grace_ms=600_000)
    workspace_lend(actor=as_alice, workspace=lender, open_to_project=False)
    queue_start(workspace_id=lender.pk)
    visited(guest)
    before = log(guest)
    with time_machine.travel(now() + timedelta(seconds=30)):
        assert visited(guest).state == "suspending"
        assert len(log(guest)) > len(before) > 0
    with time_machine.travel(now() + timedelta(seconds=300)):
        assert visited(guest).state == "requested"
    assert len(log(guest)) > len(before)


def test_what_needs_its_own_namespace_is_refused(
    as_alice: Actor, workspace: Workspace, project: Project
) -> None:
    credential(as_alice, project)
    moves = [{"url": "s3://sets/digits", "credential": "archive", "volume": "data"}]
    for bound in ({"volume": "data", "mount": "/data"}, {"inputs": moves}, {"outputs": moves}):
        with pytest.raises(Invalid, match="stays where the volume is") as refused:
            submitted(as_alice, workspace, borrow=True, **bound)
        assert list(refused.value.fields) == ["borrow"]


def test_spot_neither_borrows_nor_lends(as_alice: Actor, workspace: Workspace) -> None:
    Workspace.objects.filter(pk=workspace.pk).update(notice_seconds=120)
    workspace.refresh_from_db()
    with pytest.raises(Invalid, match="borrows its GPUs already"):
        submitted(as_alice, workspace, gpus=1, borrow=True)
    with pytest.raises(Invalid, match="none to lend"):
        workspace_lend(actor=as_alice, workspace=workspace, open_to_project=True)


def test_the_sweep_asks_for_a_round_where_guests_are(
    guest: Job, lender: Workspace, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    poked: list[tuple[str, ...]] = []
    monkeypatch.setattr("gpuaas.jobs.services.queue.poke", lambda *words: poked.append(words))
    sweep()
    assert poked == [("jobs.queue", str(lender.pk))]


def test_a_round_costs_the_same_however_many_wait(
    as_alice: Actor, workspace: Workspace, lender: Workspace, own: Job
) -> None:
    running(as_alice, lender, "theirs", gpus=4)
    costs = []
    for more in (2, 6):
        for number in range(more):
            submitted(as_alice, workspace, f"n-{more}-{number}", gpus=1, borrow=True)
        queue_start(workspace_id=workspace.pk)  # writes why they wait
        with CaptureQueriesContext(connection) as found:
            queue_start(workspace_id=workspace.pk)
        costs.append(len(found))
    assert costs[0] == costs[1]


def test_its_gpus_count_where_it_ran(as_alice: Actor, guest: Job, lender: Workspace) -> None:
    """The meter finds the lender by the namespace, and the job's page finds the pods by their names."""
    assert guest.ready_at is not None
    moment = whole_second(guest.ready_at)
    (pod,) = SandboxPod.objects.filter(namespace__name=lender.external_name)
    flavor = lender.flavors.get().flavor
    UsageInterval.objects.create(
        site=guest.site,
        workspace=lender,
        project=guest.project,
        consumer_uid="pod-1",
        consumer_name=pod.name,
        resource_name="nvidia.com/gpu",
        meter=Meter.GPU_ALLOCATED,
        flavor=flavor,
        quantity=2,
        started_at=moment,
        last_seen_at=moment,
        ended_at=moment + timedelta(seconds=100),
    )
    assert inside_cost(actor=as_alice, row=guest).gpu_seconds == 200
