"""While a form is filled in, its page asks what would be refused: the answer is the service's, and nothing is written."""

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse

from billing.models import Budget
from gpuaas.catalog.models import Site
from gpuaas.core import clock
from gpuaas.environments.models import DoorKey, Environment
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import ApiToken, AuditEntry, Project
from tests.environments.stage import kind, workspace_ready
from tests.environments.stage import ready as environment_ready
from tests.frontend.markup import words
from tests.frontend.pages.test_budgets import FORM as BUDGET
from tests.frontend.pages.test_environments import order
from tests.lasting import lasting

pytestmark = pytest.mark.django_db
TOKEN = {"name": "ci", "expires_at": "", "scopes": ["project:view"]}


@pytest.fixture
@lasting
def room(as_alice: Actor, project: Project, site: Site) -> Workspace:
    """Of two GPUs."""
    return workspace_ready(as_alice, project, site, h100s=2)


def token(days: int, **changes: object) -> dict[str, object]:
    return {**TOKEN, "expires_at": f"{clock.now() + timedelta(days=days):%Y-%m-%dT%H:%M}", **changes}


def ask(client: Client, url: str, form: dict[str, object]) -> tuple[str, dict[str, str]]:
    """What stands beside the button, and what is red beside fields."""
    before = AuditEntry.objects.count()
    answer = client.post(f"{url}?check", form)
    assert answer.status_code == 200
    assert AuditEntry.objects.count() == before
    why, *helps = words(answer).split("<p ")
    named = (each.partition('id="id_')[2].partition("-help") for each in helps if "invalid-feedback" in each)
    return why.strip(), {name: text.partition("<span>")[2].partition("</span>")[0] for name, _, text in named}


def test_the_order_of_an_environment(
    alice_at: Client, charlie_at: Client, room: Workspace, project: Project
) -> None:
    url = reverse("frontend:environment_order", args=[project.slug, kind().slug])
    assert "data-why" in words(alice_at.get(url))
    assert ask(alice_at, url, order(room)) == ("", {})
    why, red = ask(alice_at, url, order(room, gpus="3"))
    assert list(red) == ["gpus"]
    assert why == f"GPUs: {red['gpus'].strip()}"
    assert "2 are free" in why
    why, red = ask(alice_at, url, order(room, name=""))
    assert (why, red) == ("Name: Enter a name.", {}), "nothing is red that is not written yet"
    why, red = ask(alice_at, url, order(room, name="No Name", vcpus="many"))
    assert list(red) == ["name", "vcpus"], "what cannot be read, and what the service finds"
    assert charlie_at.post(f"{url}?check", order(room)).status_code == 404
    assert not Environment.objects.exists()
    assert alice_at.post(url, order(room)).status_code == 302
    why, red = ask(alice_at, url, order(room))
    assert list(red) == ["name"]
    assert "already has an environment called" in why


def test_a_clone_and_a_key_of_an_environment(
    alice_at: Client, as_alice: Actor, room: Workspace, project: Project
) -> None:
    row = environment_ready(as_alice, room)
    url = reverse("frontend:environment_clone", args=[project.slug, row.pk])
    why, _ = ask(alice_at, url, {"name": row.name})
    assert f"already has an environment called {row.name}" in why
    assert ask(alice_at, url, {"name": "other"})[0] == ""
    assert Environment.objects.count() == 1
    keys = reverse("frontend:environment_keys", args=[project.slug, row.pk])
    assert "public" in ask(alice_at, keys, {"name": "ci"})[0]
    assert not DoorKey.objects.exists()


def test_a_token(alice_at: Client, project: Project) -> None:
    url = reverse("frontend:tokens", args=[project.slug])
    assert "data-why" in words(alice_at.get(url))
    assert ask(alice_at, url, token(days=30)) == ("", {})
    why, red = ask(alice_at, url, token(days=500))
    assert list(red) == ["expires_at"]
    assert "at most 365 days" in why
    assert ask(alice_at, url, token(days=30, scopes=[])) == ("Scopes: Choose at least one scope.", {})
    assert not ApiToken.objects.exists()


def test_a_budget(alice_at: Client, limited: Project) -> None:
    url = reverse("frontend:budget_new", args=[limited.slug])
    form: dict[str, object] = {**BUDGET}
    assert "data-why" in words(alice_at.get(url))
    assert ask(alice_at, url, form) == ("", {})
    why, red = ask(alice_at, url, {**form, "amount": "1e5", "percent_1": "1001"})
    assert set(red) == {"amount", "percent_1"}
    assert why.startswith("Amount: Write the number out in digits")
    assert not Budget.objects.exists()
    alice_at.post(url, form)
    assert list(ask(alice_at, url, form)[1]) == ["name"]
    row = Budget.objects.get()
    own = reverse("frontend:budget", args=[limited.slug, row.pk])
    assert ask(alice_at, own, {**form, "amount": "-1", "version": "1"})[1]
    assert Budget.objects.get().amount == row.amount


def test_a_project_and_a_public_key(alice_at: Client, project: Project) -> None:
    url = reverse("frontend:project_new", args=[project.organization.slug])
    assert list(ask(alice_at, url, {"slug": project.slug, "name": "Again"})[1]) == ["slug"]
    assert ask(alice_at, url, {"slug": "another", "name": "Another"}) == ("", {})
    assert Project.objects.filter(slug="another").count() == 0
    keys = reverse("frontend:keys")
    assert list(ask(alice_at, keys, {"name": "laptop", "public_key": "what"})[1]) == ["public_key"]


def test_a_service_account(alice_at: Client, room: Workspace, project: Project) -> None:
    url = reverse("frontend:workspace_robots", args=[project.slug, room.pk])
    assert ask(alice_at, url, {"name": "ci", "role": "edit"})[0] == ""
    assert ask(alice_at, url, {"name": "No Name", "role": "edit"})[0].startswith("Name: ")
    assert not room.robots.exists()
