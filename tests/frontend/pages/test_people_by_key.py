"""Pages that name a person by a key in their address: only people of the place are found, the directory stays shut."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from gpuaas.catalog.models import Site
from gpuaas.workspaces.services import credential_issue
from tenants.actors import Actor
from tenants.models import AuditEntry, Project, User
from tests.factories.tenants import OrganizationMembershipFactory, ProjectMembershipFactory
from tests.frontend.markup import words
from tests.frontend.pages.conftest import signed_in
from tests.workspaces.stage import ready

pytestmark = pytest.mark.django_db

At = Callable[[User], str]


def test_a_stranger_is_neither_added_nor_named(
    alice_at: Client, charlie: User, bob: User, project: Project, site: Site, as_alice: Actor
) -> None:
    workspace = ready(as_alice, project, site)
    places: list[At] = [
        lambda user: reverse("frontend:member_role", args=[project.slug, user.pk]) + "?role=member",
        lambda user: reverse("frontend:organization_member_remove", args=["climate", user.pk]),
        lambda user: reverse("frontend:workspace_access_revoke", args=[project.slug, workspace.pk, user.pk]),
    ]
    before = AuditEntry.objects.count()
    for place in places:
        answer = alice_at.post(place(charlie))
        assert answer.status_code == 404, place(charlie)
        assert "charlie" not in answer.content.decode()
    assert not project.memberships.filter(user=charlie).exists()
    assert AuditEntry.objects.count() == before


def test_a_removal_is_taken_back(alice_at: Client, bob: User, project: Project) -> None:
    alice_at.post(reverse("frontend:member_remove", args=[project.slug, bob.pk]))
    assert not project.memberships.filter(user=bob).exists()
    back = reverse("frontend:member_role", args=[project.slug, bob.pk]) + "?role=member"
    assert alice_at.post(back).status_code == 302
    assert project.memberships.get(user=bob).role == "member"


def dialog_of(answer: Any, name: str) -> str:
    return words(answer).partition(f'id="{name}"')[2].partition("</dialog>")[0]


def test_ones_own_role_is_asked_for_before_it_is_lost(
    alice_at: Client, alice: User, bob: User, project: Project
) -> None:
    ProjectMembershipFactory.create(project=project, user=alice, role="admin")
    page = alice_at.get(reverse("frontend:members", args=[project.slug]))
    own, others = (
        'action="' + reverse("frontend:member_role", args=[project.slug, user.pk]) for user in (alice, bob)
    )
    assert "Without the role Admin you manage neither" in dialog_of(page, "own-role")
    assert own in dialog_of(page, "own-role")
    assert words(page).count(own) == 1
    assert words(page).count(others) == 1
    leave = reverse("frontend:member_remove", args=[project.slug, alice.pk])
    assert "still applies here" in dialog_of(page, f"leave-{alice.pk}")
    assert words(page).count(leave) == dialog_of(page, f"leave-{alice.pk}").count(leave) == 1
    organization = alice_at.get(reverse("frontend:projects", args=["climate"]))
    leave = reverse("frontend:organization_member_remove", args=["climate", alice.pk])
    assert "Only another owner or an operator" in dialog_of(organization, f"leave-{alice.pk}")
    assert words(organization).count(leave) == 1


def test_the_last_owner_stays_and_reads_why(alice_at: Client, alice: User, project: Project) -> None:
    where = reverse("frontend:organization_member_set", args=["climate"])
    refused = alice_at.post(where, {"user": "alice", "role": "billing"})
    assert refused.status_code == 422
    help_text = words(refused).partition('id="member_user-help"')[2].partition("</p>")[0]
    assert "Alice is the last owner of climate; make another member an owner first" in help_text
    away = reverse("frontend:organization_member_remove", args=["climate", alice.pk])
    assert "last owner of climate" in words(alice_at.post(away, follow=True))


def test_an_owner_who_leaves_lands_on_a_page_that_says_so(
    alice_at: Client, alice: User, bob: User, project: Project
) -> None:
    OrganizationMembershipFactory.create(organization=project.organization, user=bob, role="owner")
    leave = reverse("frontend:organization_member_remove", args=["climate", alice.pk])
    landed = alice_at.post(leave, follow=True)
    assert landed.status_code == 200
    assert f"You left {project.organization.name}." in words(landed)


@pytest.mark.parametrize("role", ["viewer", "member"])
def test_who_manages_nobody_may_leave(bob: User, alice: User, project: Project, role: str) -> None:
    project.memberships.filter(user=bob).update(role=role)
    client, page = signed_in(bob), reverse("frontend:members", args=[project.slug])
    leave, others = (reverse("frontend:member_remove", args=[project.slug, user.pk]) for user in (bob, alice))
    shown = client.get(page)
    assert leave in dialog_of(shown, f"leave-{bob.pk}")
    assert words(shown).count(leave) == 1
    assert others not in words(shown)
    assert "You left weather-lm." in words(client.post(leave, follow=True))
    assert client.get(page).status_code == 404
    assert client.post(leave).status_code == 404


def test_who_holds_a_credential_is_found(
    alice_at: Client, alice: User, project: Project, site: Site, as_alice: Actor
) -> None:
    workspace = ready(as_alice, project, site)
    credential_issue(actor=as_alice, workspace=workspace)
    place = reverse("frontend:workspace_access_revoke", args=[project.slug, workspace.pk, alice.pk])
    assert alice_at.post(place).status_code == 302
    assert workspace.grants.get().revoke_due_at is not None
