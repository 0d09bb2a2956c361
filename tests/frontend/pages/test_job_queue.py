"""The queue of a workspace: who waits at which place, for what, and by when each starts."""

import csv
import io
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from gpuaas.catalog.models import Site
from gpuaas.core import clock
from gpuaas.jobs.models import Job
from gpuaas.jobs.outlook import starts_by
from gpuaas.jobs.services import queue_start
from gpuaas.jobs.services.queue import BEHIND
from gpuaas.jobs.states import JobState
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import Project, User
from tests.frontend.markup import words
from tests.frontend.pages.conftest import signed_in
from tests.jobs.stage import lender_ready, row_in, running, submitted, workspace_ready
from tests.lasting import lasting

pytestmark = pytest.mark.django_db


@pytest.fixture
@lasting
def room(as_alice: Actor, project: Project, site: Site) -> Workspace:
    """Of two GPUs."""
    return workspace_ready(as_alice, project, site, h100s=2)


def url_of(room: Workspace) -> str:
    return reverse("frontend:job_queue", args=[room.project.slug, room.pk])


@pytest.fixture
def waiting(as_alice: Actor, room: Workspace) -> tuple[Job, Job, Job]:
    """One that runs for an hour yet, one that waits for it, which has no deadline, and one behind that."""
    busy = running(as_alice, room, gpus=1, deadline_seconds=3600)
    first = submitted(as_alice, room, "second", gpus=2)
    later = submitted(as_alice, room, "evening", gpus=1, priority="low")
    queue_start(workspace_id=room.pk)
    return busy, first, later


def test_each_has_its_place_its_reason_and_by_when_it_starts(
    alice_at: Client, room: Workspace, waiting: tuple[Job, Job, Job]
) -> None:
    answer = alice_at.get(url_of(room))
    rows, shown = answer.context["list"].rows, words(answer)
    assert [(row.position, row.name, row.priority) for row in rows] == [
        (1, "second", "normal"),
        (2, "evening", "low"),
    ]
    assert rows[0].reason == "Waits for 2 H100 SXM 80 GB: 1 of 2 is free."
    assert rows[1].reason.lower().startswith(BEHIND)
    assert clock.now() < rows[0].starts_by <= clock.now() + timedelta(minutes=61)
    assert rows[1].starts_by is None, "the one before it has no deadline"
    assert "not known" in shown
    assert "What is free" in shown
    assert "train" not in [row.name for row in rows]


def test_it_is_found_from_the_list_and_from_each_job(
    alice_at: Client, room: Workspace, waiting: tuple[Job, Job, Job], project: Project
) -> None:
    link = f'href="{url_of(room)}"'
    listed = alice_at.get(reverse("frontend:jobs", args=[project.slug]))
    assert link in listed.content.decode()
    assert "2 waiting" in words(listed)
    page = alice_at.get(reverse("frontend:job", args=[project.slug, waiting[1].pk]))
    assert link in page.content.decode()


def test_it_is_narrowed_and_the_file_has_all_of_it(
    alice_at: Client, room: Workspace, waiting: tuple[Job, Job, Job]
) -> None:
    low = alice_at.get(url_of(room), {"priority": "low"})
    assert [(row.name, row.position) for row in low.context["list"].rows] == [("evening", 2)]
    file = b"".join(alice_at.get(url_of(room), {"csv": "1"})).decode("utf-8-sig")
    assert [(row["position"], row["name"]) for row in csv.DictReader(io.StringIO(file))] == [
        ("1", "second"),
        ("2", "evening"),
    ]


def test_one_that_waits_in_the_queue_of_the_site_says_so(alice_at: Client, room: Workspace) -> None:
    reason = "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu"
    row_in(room, "admitted", state=JobState.STARTING, holding=True, waiting=reason)
    row = alice_at.get(url_of(room)).context["list"].rows[0]
    assert (row.position, row.name) == ("at the site", "admitted")
    assert reason[1:] in row.reason


def test_without_one_it_says_what_it_is_for(alice_at: Client, room: Workspace, project: Project) -> None:
    assert "No job waits" in words(alice_at.get(url_of(room)))
    assert "Queues" not in words(alice_at.get(reverse("frontend:jobs", args=[project.slug])))


def test_who_may_see_it(dora: User, charlie_at: Client, room: Workspace) -> None:
    """dora only views; charlie is of another project."""
    row_in(room, "hers")
    assert "hers" in words(signed_in(dora).get(url_of(room)))
    assert charlie_at.get(url_of(room)).status_code == 404


def test_it_costs_the_same_at_any_length(alice_at: Client, room: Workspace) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as found:
            assert alice_at.get(url_of(room)).status_code == 200
        return len(found)

    row_in(room)
    queries()
    one = queries()
    for number in range(3):
        row_in(room, f"more-{number}")
    assert queries() == one


def test_what_waits_is_read_without_what_it_runs(
    alice_at: Client, as_alice: Actor, room: Workspace, project: Project, site: Site
) -> None:
    """Thousands may wait, and each may have a long script; and guests that start elsewhere name their place at no further cost."""
    lender = lender_ready(as_alice, project, site)
    last = row_in(room, "last")

    def queries() -> list[str]:
        with CaptureQueriesContext(connection) as found:
            assert alice_at.get(url_of(room)).status_code == 200
            starts_by(last)
        return [each["sql"] for each in found]

    guest = {"state": JobState.STARTING, "waiting": "for a node", "place": lender, "placed_at": clock.now()}
    asked = []
    for number in range(2):
        row_in(room, f"n-{number}")
        row_in(room, f"guest-{number}", holding=True, **guest)
        queries()  # what is asked once is not counted
        asked.append(queries())
    assert not [sql for sql in asked[-1] if '"jobs_job"."command"' in sql]
    assert len(asked[0]) == len(asked[1])


def test_the_choice_of_workspaces_reads_each_once(
    alice_at: Client, room: Workspace, project: Project
) -> None:
    """However many jobs ended in it."""
    for number in range(3):
        row_in(room, f"ended-{number}", state=JobState.SUCCEEDED)
    with CaptureQueriesContext(connection) as found:
        assert "ended-0" in words(alice_at.get(reverse("frontend:jobs", args=[project.slug])))
    (choices,) = [each["sql"] for each in found if 'AS "workspace__name" FROM' in each["sql"]]
    assert choices.startswith("SELECT DISTINCT ")
    assert " LIMIT " in choices
