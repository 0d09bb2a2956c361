"""What a job ran is kept for a while after its end; when it ran and what it took stays, and so does what others have copied."""

import threading
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import Client
from pytest_django import Settings

from gpuaas.core import clock
from gpuaas.core.errors import Conflict
from gpuaas.jobs import tasks
from gpuaas.jobs.document import document_of
from gpuaas.jobs.models import Job, JobLog, TaskLog
from gpuaas.jobs.services import job_rerun, job_retry
from gpuaas.jobs.services.retention import jobs_empty
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import User
from tests.api.caller import Caller
from tests.frontend.markup import words
from tests.frontend.pages.conftest import signed_in
from tests.jobs.stage import row_in, submitted, template

pytestmark = pytest.mark.django_db
GIVEN: dict[str, Any] = {"command": ["sh", "-c", "train"], "arguments": ["x"], "variables": {"KEY": "secret"}}
STAYS = ("name", "image", "gpus", "created_at", "ready_at", "finished_at", "exit_code", "state")


def ended(workspace: Workspace, name: str = "old", *, days: int = 366, **more: Any) -> Job:
    moment = clock.now() - timedelta(days=days)
    return row_in(
        workspace,
        name,
        **{**GIVEN, "state": "succeeded", "outcome": "succeeded", "finished_at": moment, **more},
    )


def kept(row: Job) -> bool:
    row.refresh_from_db()
    has = {
        bool(each)
        for each in (row.command, row.arguments, row.variables, JobLog.objects.filter(job=row).exists())
    }
    assert len(has) == 1, "all of it or none"
    assert has == {row.emptied_at is None}
    return row.emptied_at is None


def test_a_year_after_its_end_it_is_emptied_and_the_row_stays(workspace: Workspace) -> None:
    old, young = ended(workspace), ended(workspace, "young", days=364)
    runs = ended(workspace, "runs", state="ready")
    gone = ended(
        workspace, "gone", state="deleted", finished_at=None, deleted_at=clock.now() - timedelta(days=366)
    )
    TaskLog.objects.create(job=old, task=3, text="lost", taken_at=clock.now())
    before = {name: getattr(old, name) for name in STAYS}
    tasks.sweep()
    assert [kept(each) for each in (old, young, runs, gone)] == [False, True, True, False]
    assert {name: getattr(old, name) for name in STAYS} == before
    assert not TaskLog.objects.exists()
    assert jobs_empty() == 0


def test_the_operator_says_for_how_long(workspace: Workspace, settings: Settings) -> None:
    row = ended(workspace, days=5000)
    settings.JOB_SCRIPT_DAYS = 0
    assert (jobs_empty(), kept(row)) == (0, True)
    settings.JOB_SCRIPT_DAYS = 36_500
    assert (jobs_empty(), kept(row)) == (0, True), "the most that the setting can be"
    settings.JOB_SCRIPT_DAYS = 5001
    assert (jobs_empty(), kept(row)) == (0, True)
    settings.JOB_SCRIPT_DAYS = 4999
    assert (jobs_empty(), kept(row)) == (1, False)


def test_what_was_copied_stays_and_nothing_runs_again_without_it(
    workspace: Workspace, as_alice: Actor
) -> None:
    old = ended(workspace, state="failed", outcome="failed", staging="in")
    copy = job_rerun(actor=as_alice, job=old)
    made = template(as_alice, workspace.project, order={"image": "train:1", **GIVEN})
    assert jobs_empty() == 1
    copy.refresh_from_db()
    made.refresh_from_db()
    assert copy.command == made.order["command"] == GIVEN["command"]
    old.refresh_from_db()
    for deed in (
        lambda: job_rerun(actor=as_alice, job=old),
        lambda: job_retry(actor=as_alice, job=old),
        lambda: document_of(old),
    ):
        with pytest.raises(Conflict, match="not kept any more"):
            deed()


@pytest.mark.django_db(transaction=True)
def test_one_that_is_being_moved_on_is_left_alone(workspace: Workspace, as_alice: Actor) -> None:
    """Files of an old job are moved again at the same moment: it will run, and with its own command."""
    old, other = ended(workspace, state="failed", outcome="failed", staging="in"), ended(workspace, "other")
    counts: list[int] = []

    def sweep() -> None:
        counts.append(jobs_empty())
        connection.close()

    with transaction.atomic():
        job_retry(actor=as_alice, job=old)
        meanwhile = threading.Thread(target=sweep)
        meanwhile.start()
        meanwhile.join(timeout=20)
    assert (counts, jobs_empty()) == ([1], 0)
    assert (kept(old), kept(other)) == (True, False)


def test_its_page_says_for_how_long_and_that_it_is_over(
    workspace: Workspace, alice: User, as_alice: Actor, settings: Settings
) -> None:
    row, alice_at = ended(workspace, days=100), signed_in(alice)
    address = f"/p/weather-lm/jobs/{row.pk}/"
    page = words(alice_at.get(address))
    assert "The script is kept for 365 days after a job has ended, with its variables and its log." in page
    settings.JOB_SCRIPT_DAYS = 90
    jobs_empty()
    page = words(alice_at.get(address))
    assert "The script and its variables and its log are not kept any more since" in page
    for absent in ("secret", "the image's own", "Run again", "Download as YAML", "Save as template"):
        assert absent not in page
    refused(alice_at, address)
    found = Caller(alice).get(f"/api/v1/projects/weather-lm/jobs/{row.pk}").json
    assert (found["command"], found["emptied_at"] is None) == ([], False)


def refused(client: Client, address: str) -> None:
    for deed in ("rerun/", "template/", "job.yaml"):
        answer = client.get(f"{address}{deed}")
        assert (answer.status_code, "not kept any more" in words(answer)) == (409, True), deed


def test_one_that_is_submitted_has_what_it_was_given(workspace: Workspace, as_alice: Actor) -> None:
    assert submitted(as_alice, workspace).emptied_at is None
