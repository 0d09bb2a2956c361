"""The page of who may open an environment, who reads its log, the order's choice, and the entrance for guests."""

from typing import Any

import pytest
from django.test import Client, override_settings

from gpuaas.core.clock import now
from gpuaas.environments.models import DoorKey, DoorPass, Environment, EnvironmentLog, EnvironmentUse
from gpuaas.environments.services import (
    environment_access_set,
    environment_create,
    environment_stop,
    key_create,
    kind_create,
)
from gpuaas.workspaces.models import Workspace
from tenants.actors import SYSTEM, Actor
from tenants.models import Project, User
from tests.environments.stage import SHELL, kind, ready, settle
from tests.factories.tenants import ProjectFactory, ProjectMembershipFactory, UserFactory
from tests.frontend.markup import words
from tests.frontend.pages.conftest import signed_in
from tests.frontend.pages.test_environments import at, entrance, order, room
from tests.lasting import lasting

__all__ = ["room"]
pytestmark = pytest.mark.django_db


@pytest.fixture
@lasting
def notebook(as_alice: Actor, room: Workspace) -> Environment:
    """Of a kind that allows all, for its workspace."""
    kind(access=["workspace", "private", "organization", "public"])
    return ready(as_alice, room, gpus=0)


@pytest.fixture
def nina_at(project: Project) -> Client:
    """Of another project of the same organization."""
    nina: User = UserFactory.create(username="nina")
    other = ProjectFactory.create(organization=project.organization, slug="ice")
    ProjectMembershipFactory.create(project=other, user=nina, role="viewer")
    return signed_in(nina)


def test_the_order_offers_what_the_kind_allows(alice_at: Client, room: Workspace, project: Project) -> None:
    slug = kind(access=["organization", "private"]).slug
    page = words(alice_at.get(at("environment_order", project, slug)))
    assert "Organization: they, and all its members" in page
    assert "Public with a key" not in page
    refused = alice_at.post(at("environment_order", project, slug), order(room, access="public"))
    assert (refused.status_code, "Choose one of those" in words(refused)) == (422, True)
    assert (
        alice_at.post(at("environment_order", project, slug), order(room, access="private")).status_code
        == 302
    )
    assert Environment.objects.get().access == "private"


@override_settings(DOOR_DOMAIN="apps.test")
def test_a_key_is_shown_once(alice_at: Client, notebook: Environment, project: Project) -> None:
    page, made = at("environment_access", project, notebook.pk), at("environment_keys", project, notebook.pk)
    before = words(alice_at.get(page))
    assert ("New key" in before, "change who may open it first" in before) == (False, True)
    refused = alice_at.post(made, {"name": "ci"})
    assert (refused.status_code, DoorKey.objects.exists()) == (422, False)
    assert (
        alice_at.post(at("environment_access_set", project, notebook.pk), {"access": "public"}).status_code
        == 302
    )
    assert alice_at.post(made, {"name": " "}).status_code == 422
    answer = alice_at.post(made, {"name": "<b>ci</b>"})
    assert (answer.status_code, "no-store" in answer["Cache-Control"]) == (200, True)
    key = DoorKey.objects.get()
    text = answer.content.decode()
    assert f"https://{notebook.label}.apps.test/.gpuaas/key#gpk_{key.prefix}_" in text
    assert "<b>ci" not in text
    assert f'href="{page}?csv=1"' in text, "the list beside it is no file of the form's address"
    file = alice_at.get(page, {"csv": 1}).getvalue().decode()
    assert (key.prefix in file, key.secret_hash in file) == (True, False)
    again = alice_at.get(page).content.decode()
    assert (key.prefix in again, f"gpk_{key.prefix}" in again) == (True, False)
    revoked = at("environment_key_revoke", project, notebook.pk, key.pk)
    assert alice_at.post(revoked).status_code == 302
    assert key.prefix not in words(alice_at.get(page))
    assert "Who may open it</dt><dd>Public with a key" in words(
        alice_at.get(at("environment", project, notebook.pk))
    )


def test_what_may_not_be_public_says_why_it_has_no_keys(
    alice_at: Client, as_alice: Actor, room: Workspace, project: Project
) -> None:
    kind(access=["workspace"])
    notebook = ready(as_alice, room, gpus=0)
    page = words(alice_at.get(at("environment_access", project, notebook.pk)))
    assert "does not allow this kind of environment to be public" in page


def test_somebody_elses_private_one(
    alice_at: Client, notebook: Environment, project: Project, bob: User
) -> None:
    Environment.objects.filter(pk=notebook.pk).update(created_by=bob, access="private")
    page = words(alice_at.get(at("environment_access", project, notebook.pk)))
    assert "It is private: only bob can change that" in page
    refused = alice_at.post(at("environment_access_set", project, notebook.pk), {"access": "workspace"})
    assert (refused.status_code, "only bob can open it" in words(refused)) == (403, True)
    assert Environment.objects.get().access == "private"


def test_its_log_is_for_those_who_use_its_workspace(
    alice_at: Client,
    bob_at: Client,
    dora_at: Client,
    as_alice: Actor,
    notebook: Environment,
    project: Project,
) -> None:
    """Also of one that is stopped: nobody fetches its log then, but what was fetched can be read."""
    EnvironmentLog.objects.create(environment=notebook, text="a line of hers", taken_at=now())
    settle(environment_stop(actor=as_alice, environment=notebook))
    page = at("environment", project, notebook.pk)
    assert "a line of hers" in words(alice_at.get(page))
    for other in (bob_at, dora_at):
        shown = words(other.get(page))
        assert "You can only view it" in shown
        assert "a line of hers" not in shown
        assert "log-title" not in shown


def test_its_keys_are_for_those_who_use_its_workspace(
    alice_at: Client, bob_at: Client, as_alice: Actor, notebook: Environment, project: Project
) -> None:
    environment_access_set(actor=as_alice, environment=notebook, access="public")
    key_create(actor=as_alice, environment=notebook, name="for-the-papers")
    page = at("environment_access", project, notebook.pk)
    assert "for-the-papers" in words(alice_at.get(page))
    wrong = bob_at.post(at("environment_access_set", project, notebook.pk), {"access": "everybody"})
    for refused in (bob_at.get(page), wrong):
        assert (refused.status_code, "for-the-papers" in words(refused)) == (403, False)


@override_settings(DOOR_DOMAIN="apps.test")
def test_guests_open_it_and_start_nothing(nina_at: Client, as_alice: Actor, notebook: Environment) -> None:
    assert nina_at.get(entrance(notebook)).status_code == 404
    environment_access_set(actor=as_alice, environment=notebook, access="organization")
    there: Any = nina_at.get(entrance(notebook))
    assert there.headers["Location"].startswith(f"https://{notebook.label}.apps.test/.gpuaas/enter?ticket=")
    assert DoorPass.objects.get().user
    row = settle(environment_stop(actor=as_alice, environment=notebook))
    EnvironmentUse.objects.filter(pk=row.pk).update(stopped_at=now())
    refused = nina_at.get(entrance(row))
    assert (refused.status_code, "does not run now" in words(refused)) == (403, True)
    assert Environment.objects.get().state == "suspended"


@override_settings(DOOR_DOMAIN="apps.test")
def test_what_a_person_stops_before_it_is_ready_again_stays_stopped(
    alice_at: Client, as_alice: Actor, notebook: Environment, project: Project
) -> None:
    row = settle(environment_stop(actor=as_alice, environment=notebook))
    EnvironmentUse.objects.filter(pk=row.pk).update(stopped_at=now())
    alice_at.get(entrance(row))
    assert Environment.objects.get().state == "resuming"
    row = settle(environment_stop(actor=as_alice, environment=row))
    assert alice_at.get(entrance(row)).headers["Location"] == at("environment", project, row.pk)
    assert Environment.objects.get().state == "suspended"
    assert "for want of use" not in words(alice_at.get(at("environment", project, row.pk)))


@override_settings(DOOR_DOMAIN="apps.test")
def test_a_private_one_is_not_started_by_others(
    alice_at: Client, as_alice: Actor, notebook: Environment, bob: User
) -> None:
    row = settle(environment_stop(actor=as_alice, environment=notebook))
    EnvironmentUse.objects.filter(pk=row.pk).update(stopped_at=now())
    Environment.objects.filter(pk=notebook.pk).update(created_by=bob, access="private")
    assert alice_at.get(entrance(row)).status_code == 403
    assert Environment.objects.get().state == "suspended"


def test_one_without_a_port_is_entered_by_ssh_or_kubectl(
    alice_at: Client, as_alice: Actor, room: Workspace, project: Project, settings: Any
) -> None:
    settings.DOOR_DOMAIN = "apps.test"
    kind_create(actor=SYSTEM, slug="shell", name="Shell", document=SHELL)
    row = settle(environment_create(actor=as_alice, workspace=room, kind="shell", name="sh"))
    page = at("environment", project, row.pk)
    shown = words(alice_at.get(page))
    assert f"exec -it {row.external_name} -- sh -l" in shown
    assert "Then open this address" not in shown
    assert "is entered by SSH or kubectl, so it has no guests" in words(
        alice_at.get(at("environment_access", project, row.pk))
    )
    settings.DOOR_SSH = ("ssh.test", 22)
    shown = words(alice_at.get(page))
    assert f"ssh {row.label}@ssh.test" in shown
    assert "kubectl" not in shown
    assert alice_at.get(entrance(row)).status_code == 404
    row = settle(environment_stop(actor=as_alice, environment=row))
    EnvironmentUse.objects.filter(pk=row.pk).update(stopped_at=now())
    assert "Its home is kept" in words(alice_at.get(page))
