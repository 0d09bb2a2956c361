"""A workspace is opened to its project on its page, which names the jobs of others that are in it; theirs say where they run."""

import pytest
from django.test import Client
from django.urls import reverse

from gpuaas.catalog.models import Site
from gpuaas.jobs.models import Job
from gpuaas.jobs.services import queue_start
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import Project, User
from tests.frontend.markup import words
from tests.frontend.pages.conftest import signed_in
from tests.jobs.stage import LONG, lender_ready, row_in, running, settle, submitted, workspace_ready
from tests.lasting import lasting

pytestmark = pytest.mark.django_db


@pytest.fixture
@lasting
def room(as_alice: Actor, project: Project, site: Site) -> Workspace:
    """Of two GPUs."""
    return workspace_ready(as_alice, project, site, h100s=2)


def at(name: str, project: Project, *more: object) -> str:
    return reverse(f"frontend:{name}", args=[project.slug, *more])


def test_a_workspace_is_opened_and_closed(
    alice_at: Client, charlie_at: Client, bob: User, room: Workspace, project: Project
) -> None:
    url, lend = at("workspace", project, room.pk), at("workspace_lend", project, room.pk)
    assert "Only its own jobs run here" in words(alice_at.get(url))
    assert charlie_at.post(lend, {"open": "yes"}).status_code == 404
    shown = words(alice_at.post(lend, {"open": "yes"}, follow=True))
    assert "train is open to the project." in shown
    assert "other workspaces may run here" in shown
    assert "Opened it to jobs of the project" in shown
    assert Workspace.objects.get(pk=room.pk).open_to_project
    assert "Close it" in shown
    alice_at.post(lend, {"open": "no"})
    assert not Workspace.objects.get(pk=room.pk).open_to_project


def test_its_form_its_page_the_list_and_the_lenders_say_where_it_runs(
    alice_at: Client, bob: User, as_alice: Actor, room: Workspace, project: Project, site: Site
) -> None:
    lender = lender_ready(as_alice, project, site, h100s=2)
    running(as_alice, room, "own", gpus=2)
    sizes = {"gpus": 1, "vcpus": 1, "memory_gib": 1, "retries": 0, "priority": "normal", "tasks": 1}
    order = {"workspace": str(room.pk), "name": "guest", "image": "train:1", "command": "sleep 9999", **sizes}
    refused = words(
        alice_at.post(at("job_new", project), {**order, "borrow": "on", "volume": "data", "mount": "/data"})
    )
    assert "A job that mounts a volume stays where the volume is" in refused
    alice_at.post(at("job_new", project), {**order, "borrow": "on"})
    row = settle(Job.objects.get(name="guest"), "ready")
    shown = words(alice_at.get(at("job", project, row.pk)))
    assert ">shared</a>" in shown
    assert "Runs in" in shown
    assert "shared, since" in shown
    assert "train had no room for it" in shown
    assert "in shared" in words(alice_at.get(at("jobs", project)))
    pages = {
        name: words(signed_in(bob).get(at(name, project, lender.pk))) for name in ("workspace", "job_queue")
    }
    link = f'<a href="{at("job", project, row.pk)}">'
    assert f"{link}<b>guest</b></a><small>of train</small>" in pages["workspace"]
    assert f"{link}guest</a>" in pages["job_queue"]
    assert 'data-l="Workspace">train</td>' in pages["job_queue"]

    submitted(as_alice, lender, "mine", gpus=2, command=LONG)
    queue_start(workspace_id=lender.pk)
    shown = words(alice_at.get(at("job", project, row.pk)))
    assert "It had to leave shared at" in shown
    row = settle(row, "requested")
    shown = words(alice_at.get(at("job", project, row.pk)))
    assert "it waits in the queue of train and starts from the beginning" in shown
    assert "GPUs kept" in shown
    assert "another workspace of the project while this one is full" in shown


def test_the_lenders_own_outlook_counts_the_notice(
    alice_at: Client, as_alice: Actor, room: Workspace, project: Project, site: Site
) -> None:
    lender = lender_ready(as_alice, project, site, h100s=2)
    row_in(
        room,
        "guest",
        state="ready",
        place=lender,
        holding=True,
        gpus=2,
        pool=lender.flavors.get().flavor.pool,
    )
    mine = submitted(as_alice, lender, "mine", gpus=2, command=LONG)
    shown = words(alice_at.get(at("job", project, mine.pk)))
    assert "It starts by" in shown
