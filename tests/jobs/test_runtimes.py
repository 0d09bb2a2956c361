"""Jobs whose tasks a training runtime of the site makes."""

import re

import pytest

from gpuaas.catalog.models import Site
from gpuaas.catalog.services import site_probe
from gpuaas.core.errors import Invalid
from gpuaas.jobs.models import RUNTIME_LONGEST, Job
from gpuaas.jobs.services import job_cancel, job_rerun, queue_start, template_create
from gpuaas.jobs.spec import spec_of
from gpuaas.jobs.states import JobState
from gpuaas.providers.sandbox import tasks
from gpuaas.providers.sandbox.models import SandboxJob, SandboxPod
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services import workspace_lend
from tenants.actors import Actor
from tenants.models import AuditEntry, Project
from tests.jobs.stage import LONG, ended, fresh, lender_ready, pods, running, settle, submitted

pytestmark = pytest.mark.django_db
TORCH = "torch-distributed"


@pytest.fixture(autouse=True)
def looked_at(workspace: Workspace) -> None:
    assert site_probe(workspace.site_id)


def trained(actor: Actor, workspace: Workspace, name: str = "train", **wanted: object) -> Job:
    return submitted(actor, workspace, name, **{"tasks": 2, "together": True, "runtime": TORCH, **wanted})


def test_the_look_at_a_site_keeps_its_runtimes(workspace: Workspace) -> None:
    found = Site.objects.get(pk=workspace.site_id).runtimes
    assert {"name": TORCH, "framework": "torch"} in found


def test_it_runs_as_any_job_of_tasks_that_run_together(as_alice: Actor, workspace: Workspace) -> None:
    made = trained(as_alice, workspace)
    assert spec_of(made).runtime == TORCH
    assert AuditEntry.objects.filter(action="job.create", after__runtime=TORCH).exists()
    row = settle(made, JobState.SUCCEEDED)
    assert (row.observed["succeeded"], row.exit_code) == ("0-1", 0)
    failed = trained(as_alice, workspace, command=["sh", "-c", "exit 3"], retries=0)
    assert settle(failed, JobState.FAILED).exit_code == 3
    again = job_rerun(actor=as_alice, job=fresh(row))
    assert again.runtime == TORCH
    assert job_rerun(actor=as_alice, job=fresh(row), runtime="").runtime == ""


def test_one_that_the_site_does_not_offer_is_refused_with_those_that_it_does(
    as_alice: Actor, workspace: Workspace
) -> None:
    with pytest.raises(Invalid, match="choose one of jax-distributed, torch-distributed, or none") as refused:
        trained(as_alice, workspace, runtime="mine")
    assert list(refused.value.fields) == ["runtime"]
    Site.objects.filter(pk=workspace.site_id).update(runtimes=[])
    with pytest.raises(Invalid, match="offers no training runtimes: leave this out"):
        trained(as_alice, Workspace.objects.get(pk=workspace.pk))
    assert not Job.objects.exists()


def test_one_that_is_gone_when_it_starts_fails_it(
    as_alice: Actor, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = trained(as_alice, workspace)
    monkeypatch.setattr(tasks, "RUNTIMES", ())
    row = settle(row, JobState.FAILED)
    assert (row.cause, "offers no training runtime torch-distributed" in row.failure) == ("Refused", True)
    assert not row.holding


def test_one_whose_tasks_a_member_removed_and_the_site_made_anew_has_ended(
    as_alice: Actor, workspace: Workspace
) -> None:
    row = settle(trained(as_alice, workspace, command=LONG, retries=3), JobState.RUNNING)
    at_site = SandboxJob.objects.get(name=row.external_name)
    SandboxJob.objects.filter(pk=at_site.pk).update(id=at_site.pk + 1)
    row = settle(row, JobState.FAILED)
    assert (row.cause, row.attempt, row.holding) == ("Removed", 1, False)
    assert row.failure == "it was removed at the site, not by the portal"
    assert not SandboxJob.objects.exists()


def test_an_attempt_that_follows_is_none_that_was_removed(as_alice: Actor, workspace: Workspace) -> None:
    row = settle(trained(as_alice, workspace, command=LONG, retries=1), JobState.RUNNING)
    SandboxPod.objects.filter(name__startswith=row.external_name).first().delete()  # type: ignore[union-attr]
    while row.attempt == 1:
        row = settle(row, row.state)
    row = settle(row, JobState.RUNNING)
    ended(row)
    row = settle(row)
    assert (row.state, row.attempt) == ("succeeded", 2)


def test_a_guest_leaves_with_its_runtime_and_starts_at_home(
    as_alice: Actor, workspace: Workspace, project: Project, site: Site
) -> None:
    lender = lender_ready(as_alice, project, site)
    own = running(as_alice, workspace, "own", gpus=4)
    made = trained(as_alice, workspace, "guest", gpus=1, command=LONG, borrow=True)
    guest = settle(made, JobState.RUNNING)
    assert (guest.place, len(pods(lender)), spec_of(guest).grace_seconds) == (lender, 2, 120)
    workspace_lend(actor=as_alice, workspace=lender, open_to_project=False)
    queue_start(workspace_id=lender.pk)
    guest = settle(guest, JobState.QUEUED)
    assert (guest.place, guest.observed, guest.attempt, pods(lender)) == (None, {}, 0, [])
    job_cancel(actor=as_alice, job=own)
    settle(own)
    guest = settle(guest, JobState.RUNNING)
    assert (guest.place, len(pods(workspace)), guest.attempt) == (None, 2, 1)
    ended(guest)
    assert settle(guest).state == "succeeded"


def test_a_template_keeps_it_whatever_sites_offer(as_alice: Actor, project: Project) -> None:
    order = {"image": "train:7", "tasks": 2, "together": True, "runtime": "mine"}
    made = template_create(actor=as_alice, project=project, name="training", order=order, locked=["runtime"])
    assert (made.order["runtime"], made.locked) == ("mine", ["runtime"])


def test_its_name_at_the_site_leaves_room_for_those_of_its_pods(
    as_alice: Actor, workspace: Workspace
) -> None:
    row = running(as_alice, workspace, "n" * 40, tasks=2, together=True, runtime=TORCH, gpus=0)
    name = row.external_name
    assert len(name) == RUNTIME_LONGEST
    pod = f"{name}-node-0-199-x2k4p"
    assert len(pod) == 63
    assert re.search(row.pods_named, pod)
    assert re.search(row.pods_named, f"{name}-1-x2k4p")
    assert not re.search(row.pods_named, f"{name}-in-x2k4p")
    assert not re.search(row.pods_named, f"{name}-node-1-0-x2k4p")
    row.runtime = ""
    assert len(row.external_name) == 53
