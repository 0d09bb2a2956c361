"""Any number of jobs: in the queue, in a workspace that becomes smaller, and in one that is deleted."""

import pytest
from celery.exceptions import SoftTimeLimitExceeded
from django.db import connection
from django.test.utils import CaptureQueriesContext

from gpuaas.catalog.models import Site
from gpuaas.core import clock
from gpuaas.core.errors import Conflict
from gpuaas.jobs.models import Job
from gpuaas.jobs.services import changes, inside, queue, queue_start
from gpuaas.jobs.services.inside import left_delete
from gpuaas.jobs.tasks import sweep
from gpuaas.lifecycle import enforce
from gpuaas.providers.sandbox.models import SandboxPod
from gpuaas.providers.sandbox.pods import pod_create, pod_delete
from gpuaas.workspaces.models import Workspace, WorkspaceFlavor
from gpuaas.workspaces.reconcile.run import run
from gpuaas.workspaces.services import workspace_delete, workspace_resize
from gpuaas.workspaces.services.rows import WORKSPACE
from tenants.actors import Actor
from tenants.models import Project
from tests.jobs import stage
from tests.jobs.stage import LONG, fresh, later, row_in, run_now, running, settle, submitted
from tests.lasting import lasting
from tests.workspaces import stage as workspaces


@pytest.fixture
@lasting
def workspace(as_alice: Actor, project: Project, site: Site) -> Workspace:
    """Of four GPUs."""
    return stage.workspace_ready(as_alice, project, site)


def halved(actor: Actor, workspace: Workspace) -> None:
    slug = workspace.flavors.select_related("flavor").get().flavor.slug
    workspace_resize(actor=actor, workspace=workspace, items=[(slug, 2)])


def test_a_batch_of_jobs_that_no_longer_fit_keeps_nobody_waiting(
    monkeypatch: pytest.MonkeyPatch, as_alice: Actor, workspace: Workspace
) -> None:
    monkeypatch.setattr(queue, "BATCH", 3)
    for number in range(7):
        submitted(as_alice, workspace, f"big-{number}", gpus=4)
    small = submitted(as_alice, workspace, "small", gpus=1)
    WorkspaceFlavor.objects.filter(workspace=workspace).update(count=2, confirmed=2)
    assert queue_start(workspace_id=workspace.pk) == 1
    assert fresh(small).state == "provisioning"
    assert "has bought 2" in Job.objects.filter(state="requested").latest("created_at").waiting


def test_a_round_starts_a_batch_at_most_and_the_next_one_goes_on(
    monkeypatch: pytest.MonkeyPatch, as_alice: Actor, workspace: Workspace
) -> None:
    monkeypatch.setattr(queue, "BATCH", 2)
    for number in range(3):
        submitted(as_alice, workspace, f"small-{number}", gpus=1)
    assert [queue_start(workspace_id=workspace.pk) for _ in range(3)] == [2, 1, 0]


def test_nothing_leaves_the_queue_into_what_a_resize_takes_away(
    as_alice: Actor, workspace: Workspace
) -> None:
    """The end of a job asks for a round before the site has confirmed the smaller size."""
    first = running(as_alice, workspace, "first", gpus=4)
    big = submitted(as_alice, workspace, "big", gpus=4, command=LONG)
    small = submitted(as_alice, workspace, "small", gpus=1, command=LONG)
    halved(as_alice, workspace)
    for _ in range(3):
        Workspace.objects.filter(pk=workspace.pk).update(due_at=clock.now())
        run(workspace.pk)
    assert fresh(big).workspace.state == "resizing"
    SandboxPod.objects.update(run_seconds=0)
    settle(first)
    queue_start(workspace_id=workspace.pk)
    assert (fresh(big).state, fresh(small).state) == ("requested", "provisioning")
    assert workspaces.settle(workspace).state == "ready"
    assert later(small, "ready").state == "ready"


def test_what_has_left_the_queue_and_no_longer_fits_fails_in_words(
    as_alice: Actor, workspace: Workspace
) -> None:
    pod_create(workspace.site_id, workspace.external_name, "beside", 2)
    big = submitted(as_alice, workspace, "big", gpus=4, command=LONG)
    for _ in range(2):
        big = run_now(big)
    assert big.state == "provisioning"
    halved(as_alice, workspace)
    assert workspaces.settle(workspace).state == "ready"
    small = submitted(as_alice, workspace, "small", gpus=1, command=LONG)
    big = settle(big)
    assert (big.state, big.cause) == ("failed", "Resized")
    assert big.failure == "the workspace was made smaller: it has 2 H100 SXM 80 GB, and 4 were asked for"
    pod_delete(workspace.site_id, workspace.external_name, "beside")
    assert later(small, "ready").state == "ready"


def test_a_workspace_is_deleted_at_the_cost_of_what_is_at_the_site(
    as_alice: Actor, workspace: Workspace
) -> None:
    running(as_alice, workspace)
    with CaptureQueriesContext(connection) as few:
        workspace_delete(actor=as_alice, workspace=workspace)
    other = stage.workspace_ready(as_alice, workspace.project, workspace.site, name="other")
    running(as_alice, other)
    for number in range(150):
        row_in(other, f"done-{number}", state="succeeded", outcome="succeeded")
    with CaptureQueriesContext(connection) as many:
        workspace_delete(actor=as_alice, workspace=other)
    assert len(many) == len(few)
    assert [left_delete() for _ in range(3)] == [100, 50, 0]
    assert set(Job.objects.values_list("state", flat=True)) == {"deleting"}


def test_the_sweep_deletes_what_is_left_of_workspaces(as_alice: Actor, workspace: Workspace) -> None:
    row = row_in(workspace, "done", state="succeeded", outcome="succeeded")
    sweep()
    assert fresh(row).state == "succeeded"
    workspace_delete(actor=as_alice, workspace=workspace)
    sweep()
    assert fresh(row).state == "deleting"


def test_a_site_whose_driver_cannot_be_used_keeps_no_other_from_deleting(
    monkeypatch: pytest.MonkeyPatch, workspace: Workspace
) -> None:
    """Neither those of other sites, of which each round takes some, nor what the sweep does besides."""
    monkeypatch.setattr(inside, "BATCH", 4)
    lost = Site.objects.create(slug="muc-1", name="muc-1", driver="uninstalled")
    stuck = [row_in(workspace, f"stuck-{number}", state="succeeded", site=lost) for number in range(5)]
    rows = [row_in(workspace, f"done-{number}", state="succeeded") for number in range(4)]
    Workspace.objects.filter(pk=workspace.pk).update(state="deleted")
    assert [left_delete() for _ in range(3)] == [2, 2, 0]
    sweep()
    assert [fresh(row).state for row in (*rows, *stuck)] == ["deleting"] * 4 + ["succeeded"] * 5


def test_a_row_that_takes_all_of_a_round_is_not_the_first_of_the_next(workspace: Workspace) -> None:
    def slow(**_: object) -> None:
        raise SoftTimeLimitExceeded

    now = clock.now()
    with pytest.raises(SoftTimeLimitExceeded):
        enforce.enforce(WORKSPACE, workspace, slow, "its lease has ended", now=now)
    assert not enforce.in_turn(Workspace.objects.all(), now).exists()


def test_jobs_that_have_not_ended_are_so_many_at_most(
    monkeypatch: pytest.MonkeyPatch, as_alice: Actor, workspace: Workspace
) -> None:
    monkeypatch.setattr(changes, "MOST", 2)
    row_in(workspace, "done", state="succeeded", outcome="succeeded")
    for name in ("a", "b"):
        submitted(as_alice, workspace, name)
    with pytest.raises(Conflict, match="the workspace has 2 jobs that have not ended"):
        submitted(as_alice, workspace, "c")
