"""Pages that name a person by a key in their address: only people of the place are found, the directory stays shut."""

from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse

from gpuaas.catalog.models import Site
from gpuaas.workspaces.services import credential_issue
from tenants.actors import Actor
from tenants.models import AuditEntry, Project, User
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


def test_who_holds_a_credential_is_found(
    alice_at: Client, alice: User, project: Project, site: Site, as_alice: Actor
) -> None:
    workspace = ready(as_alice, project, site)
    credential_issue(actor=as_alice, workspace=workspace)
    place = reverse("frontend:workspace_access_revoke", args=[project.slug, workspace.pk, alice.pk])
    assert alice_at.post(place).status_code == 302
    assert workspace.grants.get().revoke_due_at is not None
