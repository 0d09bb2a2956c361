"""Submissions, rounds of the queue and ends at the same moment, on real connections: never more than fits."""

from collections.abc import Callable

import pytest

from gpuaas.catalog.models import Site
from gpuaas.environments.services import environment_create
from gpuaas.jobs.models import DataCredential, Job, JobTemplate
from gpuaas.jobs.services import job_cancel, job_create, job_retry, queue_start
from gpuaas.providers.sandbox.models import SandboxPod
from gpuaas.workspaces.room import room_of
from gpuaas.workspaces.services import workspace_suspend
from tenants.actors import Actor
from tenants.models import Project
from tests.environments.stage import kind
from tests.jobs.stage import (
    LONG,
    credential,
    fresh,
    row_in,
    running,
    settle,
    submitted,
    template,
    workspace_ready,
)
from tests.workspaces import stage as workspaces
from tests.workspaces.test_races import at_once

pytestmark = pytest.mark.django_db(transaction=True)


def test_rounds_at_once_start_no_more_than_fits(as_alice: Actor, project: Project, site: Site) -> None:
    workspace = workspace_ready(as_alice, project, site)
    rows = [submitted(as_alice, workspace, f"n-{number}", gpus=1) for number in range(8)]
    answers = at_once(8, lambda _: queue_start(workspace_id=workspace.pk))
    assert answers == {"done": 8}
    assert [fresh(row).state for row in rows] == ["provisioning"] * 4 + ["requested"] * 4


def test_rounds_at_once_count_all_tasks_of_an_array_and_of_those_together(
    as_alice: Actor, project: Project, site: Site
) -> None:
    workspace = workspace_ready(as_alice, project, site)
    kinds = ({"tasks": 9, "at_once": 2}, {"tasks": 2, "together": True})
    rows = [submitted(as_alice, workspace, f"n-{n}", gpus=1, command=LONG, **kinds[n % 2]) for n in range(6)]
    assert at_once(8, lambda _: queue_start(workspace_id=workspace.pk)) == {"done": 8}
    assert [fresh(row).state for row in rows] == ["provisioning"] * 2 + ["requested"] * 4
    (gpus,) = room_of(workspace=workspace).pools.values()
    assert (gpus.taken, gpus.bought) == (4, 4)
    settle(rows[0], "ready")
    settle(rows[1], "ready")
    live = SandboxPod.objects.filter(namespace__name=workspace.external_name, finished_at=None)
    assert sum(pod.gpus for pod in live) == 4


def test_jobs_and_environments_at_once(as_alice: Actor, project: Project, site: Site) -> None:
    workspace, slug = workspace_ready(as_alice, project, site), kind().slug

    def deed(number: int) -> object:
        if number % 2:
            return environment_create(
                actor=as_alice, workspace=workspace, kind=slug, name=f"n-{number}", gpus=2
            )
        job_create(actor=as_alice, workspace=workspace, name=f"n-{number}", image="train:1", gpus=2)
        return queue_start(workspace_id=workspace.pk)

    answers = at_once(8, deed)
    assert set(answers) <= {"done", "quota_exceeded"}
    (gpus,) = room_of(workspace=workspace).pools.values()
    assert (gpus.taken, gpus.bought) == (4, 4)


def test_a_cancellation_and_the_round_that_starts_it(as_alice: Actor, project: Project, site: Site) -> None:
    """In every order: it is cancelled in the end, and nothing is held for it."""
    workspace = workspace_ready(as_alice, project, site)
    row = submitted(as_alice, workspace, gpus=4, command=LONG)
    deeds: list[Callable[[], object]] = [
        lambda: job_cancel(actor=as_alice, job=row),
        lambda: queue_start(workspace_id=workspace.pk),
    ]
    answers = at_once(6, lambda number: deeds[number % 2]())
    assert set(answers) == {"done"}
    found = fresh(row)
    row = settle(row) if found.state != "suspended" else found
    assert (row.state, row.holding) == ("suspended", False)


def test_the_workspace_is_suspended_while_jobs_end_and_start(
    as_alice: Actor, project: Project, site: Site
) -> None:
    workspace = workspace_ready(as_alice, project, site)
    runs = running(as_alice, workspace, gpus=1)
    waits = submitted(as_alice, workspace, "waits", gpus=1, command=LONG)
    deeds: list[Callable[[], object]] = [
        lambda: workspace_suspend(actor=as_alice, workspace=workspace),
        lambda: job_cancel(actor=as_alice, job=runs),
        lambda: queue_start(workspace_id=workspace.pk),
    ]
    answers = at_once(6, lambda number: deeds[number % 3]())
    assert set(answers) == {"done"}
    assert settle(runs).state == "suspended"
    if fresh(waits).state != "requested":
        assert settle(waits).state == "suspended"
    assert workspaces.settle(workspace).state == "suspended"
    assert not Job.objects.filter(holding=True).exists()


def test_the_last_template_and_the_last_credential_are_given_once(
    as_alice: Actor, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuaas.jobs.services.templates.TEMPLATES_MOST", 2)
    monkeypatch.setattr("gpuaas.jobs.services.credentials.CREDENTIALS_MOST", 2)
    answers = at_once(6, lambda number: template(as_alice, project, f"t-{number}"))
    assert answers == {"done": 2, "conflict": 4}
    answers = at_once(6, lambda number: credential(as_alice, project, f"c-{number}"))
    assert answers == {"done": 2, "conflict": 4}
    assert (JobTemplate.objects.count(), DataCredential.objects.count()) == (2, 2)


def test_the_last_jobs_of_a_workspace_are_submitted_or_moved_again(
    as_alice: Actor, project: Project, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuaas.jobs.services.changes.MOST", 2)
    workspace = workspace_ready(as_alice, project, site)
    unmoved = {"state": "failed", "outcome": "failed", "staging": "in"}
    rows = [row_in(workspace, f"n-{number}", **unmoved) for number in range(3)]
    deeds: list[Callable[[int], object]] = [
        lambda number: job_retry(actor=as_alice, job=rows[number // 2]),
        lambda number: submitted(as_alice, workspace, f"new-{number}"),
    ]
    answers = at_once(6, lambda number: deeds[number % 2](number))
    assert answers == {"done": 2, "conflict": 4}
