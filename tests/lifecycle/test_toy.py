"""A third kind costs little: a notebook lives a whole life by what `gpuaas/lifecycle` gives, and every wall holds for it."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import time_machine
from django.db import connection
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from gpuaas.catalog.models import Site
from gpuaas.core.clock import now
from gpuaas.core.errors import Conflict, NotFound, Permanent, Unavailable
from gpuaas.lifecycle.actions import Begin, Finish, Rest, Restart
from gpuaas.lifecycle.lease import lease_extend
from quotas.selectors import reservations_held
from tenants.actors import Actor
from tenants.models import AuditEntry, Project, User
from tests.architecture.budget import code_of
from tests.factories.quotas import counters_must_match, limits_give
from tests.lifecycle.toy import driver, life, models
from tests.lifecycle.toy.life import NOTEBOOK
from tests.lifecycle.toy.models import CHANGING, Notebook, NotebookState

COST = 250  # lines of code, as the budget of rooms counts them
TABLES = (models.Notebook, models.NotebookTransition, models.NotebookOperation, models.NotebookStep)


def test_a_third_kind_costs_little() -> None:
    files = sorted(Path(models.__file__).parent.iterdir())
    assert sum(len(code_of(file)) for file in files if file.is_file()) <= COST


@pytest.fixture
def desk(db: None) -> Iterator[None]:
    with connection.schema_editor() as editor:
        for table in TABLES:
            editor.create_model(table)
    yield
    driver.LIMITS.clear()
    driver.OPENED.clear()
    driver.REFUSALS.clear()


@pytest.fixture
def notebook(desk: None, as_alice: Actor, project: Project, site: Site) -> Notebook:
    limits_give(project)
    return life.notebook_request(actor=as_alice, project=project, site=site, name="draft", vcpus=4)


def run_now(row: Notebook) -> Notebook:
    NOTEBOOK.rows.filter(pk=row.pk).update(due_at=now())
    life.run(row.pk)
    row.refresh_from_db()
    return row


def held(row: Notebook) -> dict[str, int]:
    return reservations_held(holder_kind="notebook", holder_id=row.pk)


def log(row: Notebook) -> list[tuple[str, str]]:
    """The steps of its last operation."""
    steps = models.NotebookStep._default_manager.order_by("-operation", "position")
    newest = steps.filter(operation__notebook=row).values_list("operation").first()
    return list(steps.filter(operation__in=newest or ()).values_list("key", "state"))


def test_a_whole_life(notebook: Notebook, as_alice: Actor) -> None:
    assert (notebook.state, held(notebook)) == ("requested", {"vcpu": 4})
    assert run_now(notebook).state == "ready"
    assert log(notebook) == [("admission", "done"), ("limit", "done"), ("open", "done")]
    assert driver.LIMITS == {"draft": 4}

    life.notebook_suspend(actor=as_alice, notebook=notebook)
    assert run_now(notebook).state == "suspended"
    assert (held(notebook), driver.OPENED) == ({}, set())
    life.notebook_resume(actor=as_alice, notebook=notebook)
    assert run_now(notebook).state == "ready"
    assert (held(notebook), driver.OPENED) == ({"vcpu": 4}, {"draft"})

    _expires(notebook, as_alice)

    assert (held(notebook), driver.LIMITS, driver.OPENED) == ({}, {}, set())
    assert log(notebook) == [("close", "done"), ("clear", "done"), ("proof", "done")]
    states = list(models.NotebookTransition._default_manager.values_list("new", flat=True))
    assert states == [
        *("provisioning", "ready", "suspending", "suspended", "resuming", "ready"),
        *("suspending", "suspended", "deleting", "deleted"),
    ]
    told = AuditEntry.objects.filter(target_id=str(notebook.pk)).order_by("pk").values_list("action", "actor")
    deeds = ("request", "suspend", "resume", "extend")
    assert list(told)[:4] == [(f"notebook.{deed}", "alice") for deed in deeds]
    assert [action for action, _ in list(told)[4:]] == ["notebook.suspend", "notebook.delete"]
    counters_must_match()


def _expires(row: Notebook, actor: Actor) -> None:
    """Warned, extended, suspended at the end, deleted after the grace period."""
    with time_machine.travel(row.lease_ends_at - timedelta(days=1), tick=False) as clock:
        assert life.leases_enforce(now=now()) == 1
        row.refresh_from_db()
        assert "the notebook is deleted 7 days later" in row.conditions["LeaseEnding"]["message"]
        lease_extend(NOTEBOOK, actor, row, ends_at=now() + timedelta(days=9))
        clock.shift(timedelta(days=10))
        assert life.leases_enforce(now=now()) == 1
        assert run_now(row).state == "suspended"
        clock.shift(timedelta(days=7))
        assert life.leases_enforce(now=now()) == 1
        assert run_now(row).state == "deleted"


def test_what_it_shares_with_every_kind(notebook: Notebook, as_alice: Actor, as_charlie: Actor) -> None:
    with pytest.raises(NotFound, match="notebook"):
        life.notebook_delete(actor=as_charlie, notebook=notebook)
    with pytest.raises(Conflict, match="while the notebook is requested"):
        life.notebook_suspend(actor=as_alice, notebook=notebook)

    driver.REFUSALS += [Permanent("the desk is full")] * 3 + [Unavailable("nobody is at the desk")]
    assert run_now(notebook).conditions["Reachable"]["status"] == "False"
    for _ in range(3):
        run_now(notebook)
    assert (notebook.state, log(notebook)[1]) == ("failed", ("limit", "failed"))
    assert held(notebook) == {"vcpu": 4}, "until it is retried or deleted"

    life.notebook_delete(actor=as_alice, notebook=notebook)
    driver.LIMITS["draft"] = 1  # a late answer
    assert run_now(notebook).state == "deleted"
    assert (held(notebook), driver.LIMITS) == ({}, {})


def test_its_page(notebook: Notebook, client: Client, alice: User, charlie: User, settings: object) -> None:
    settings.ROOT_URLCONF = "tests.lifecycle.toy.pages"  # type: ignore[attr-defined]
    run_now(notebook)
    address = f"/p/{notebook.project.slug}/books/{notebook.pk}/"
    client.force_login(alice)
    page = client.get(address).content.decode()
    for text in (
        "Ready",
        "https://desk.example/draft",
        "Set the limit: Done",
        'name="suspend"',
        'name="delete"',
    ):
        assert text in page
    assert 'name="resume"' not in page
    client.force_login(charlie)
    assert client.get(address).status_code == 404


@given(
    state=st.sampled_from(NotebookState),
    steps=st.lists(st.sampled_from("abc"), unique=True),
    exists=st.booleans(),
)
def test_every_plan_comes_to_rest(state: NotebookState, steps: list[str], exists: bool) -> None:
    """Where steps do what they say; a change whose steps are done, and whose end the site does not show, starts anew."""
    pending = steps
    for _ in range(10):
        match life.plan(state, pending, exists=exists):
            case Rest():
                assert state not in CHANGING
                return
            case Begin():
                state = NotebookState.PROVISIONING
            case Finish(state=after):
                assert exists == (state != NotebookState.DELETING)
                state = after
            case Restart():
                pending = ["again"]
            case step:
                pending = [each for each in pending if each != step]
                exists = state != NotebookState.DELETING
    raise AssertionError("it never rests")
