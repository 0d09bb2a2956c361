"""Members and roles."""

import threading
from collections.abc import Callable

import pytest
from django.db import connection
from pytest_django import DjangoAssertNumQueries

from gpuaas.core.errors import Conflict, Forbidden, Invalid, NotFound
from tenants.actors import Actor
from tenants.models import AuditEntry, Organization, OrganizationMembership, Project, User
from tenants.roles import Permission
from tenants.selectors import actor_for, organization_members, project_members, projects_for, user_find
from tenants.services import (
    organization_member_remove,
    organization_member_set,
    project_member_remove,
    project_member_set,
    user_deactivate,
)
from tests.factories.tenants import OrganizationMembershipFactory, UserFactory


def test_project_member_comes_changes_and_goes(as_alice: Actor, charlie: User, project: Project) -> None:
    project_member_set(actor=as_alice, project=project, user=charlie, role="viewer")
    assert project in projects_for(actor=actor_for(user=charlie))
    project_member_set(actor=as_alice, project=project, user=charlie, role="member")
    project_member_set(actor=as_alice, project=project, user=charlie, role="member")
    project_member_remove(actor=as_alice, project=project, user=charlie)
    assert project not in projects_for(actor=actor_for(user=charlie))
    changes = AuditEntry.objects.filter(target_id=str(charlie.pk)).order_by("pk")
    assert [(row.before, row.after) for row in changes] == [
        ({"role": None}, {"role": "viewer"}),
        ({"role": "viewer"}, {"role": "member"}),
        ({"role": "member"}, {"role": None}),
    ]
    with pytest.raises(NotFound):
        project_member_remove(actor=as_alice, project=project, user=charlie)


def test_members_cannot_change_members_but_may_leave(
    as_bob: Actor, bob: User, charlie: User, project: Project
) -> None:
    with pytest.raises(Forbidden):
        project_member_set(actor=as_bob, project=project, user=bob, role="admin")
    with pytest.raises(Forbidden):
        project_member_remove(actor=as_bob, project=project, user=charlie)
    project_member_remove(actor=as_bob, project=project, user=bob)


@pytest.mark.parametrize("role", ["", "owner", "ADMIN", None, 7])
def test_unknown_roles_are_refused(as_alice: Actor, bob: User, project: Project, role: str) -> None:
    with pytest.raises(Invalid):
        project_member_set(actor=as_alice, project=project, user=bob, role=role)


def test_last_owner_stays(as_alice: Actor, alice: User, bob: User, project: Project) -> None:
    with pytest.raises(Conflict, match="last owner"):
        organization_member_remove(actor=as_alice, organization=project.organization, user=alice)
    with pytest.raises(Conflict, match="last owner"):
        organization_member_set(actor=as_alice, organization=project.organization, user=alice, role="billing")
    organization_member_set(actor=as_alice, organization=project.organization, user=bob, role="owner")
    organization_member_remove(actor=as_alice, organization=project.organization, user=alice)
    assert not projects_for(actor=actor_for(user=alice)).exists()


def test_an_owner_who_is_disabled_is_none(
    as_alice: Actor, as_olga: Actor, alice: User, charlie: User, project: Project
) -> None:
    organization = project.organization
    organization_member_set(actor=as_alice, organization=organization, user=charlie, role="owner")
    user_deactivate(actor=as_olga, user=charlie)
    with pytest.raises(Conflict, match="last owner"):
        organization_member_remove(actor=as_alice, organization=organization, user=alice)
    organization_member_remove(actor=as_alice, organization=organization, user=charlie)


def removed(actor: Actor, whom: User, organization: Organization) -> None:
    organization_member_remove(actor=actor, organization=organization, user=whom)


def demoted(actor: Actor, whom: User, organization: Organization) -> None:
    organization_member_set(actor=actor, organization=organization, user=whom, role="billing")


@pytest.mark.parametrize("takes", [removed, demoted])
@pytest.mark.django_db(transaction=True)
def test_two_owners_cannot_take_the_role_from_each_other_at_once(
    takes: Callable[[Actor, User, Organization], None], alice: User, project: Project
) -> None:
    other = UserFactory.create(username="dora")
    OrganizationMembershipFactory.create(organization=project.organization, user=other, role="owner")
    start = threading.Barrier(2)
    refused: list[Exception] = []

    def take(who: User, whom: User) -> None:
        actor = actor_for(user=who)
        start.wait()
        try:
            takes(actor, whom, project.organization)
        except Conflict as error:
            refused.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=take, args=pair) for pair in ((alice, other), (other, alice))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 1
    assert OrganizationMembership.objects.filter(role="owner").count() == 1


def test_disabled_people_are_not_added(
    as_alice: Actor, as_olga: Actor, charlie: User, project: Project
) -> None:
    user_deactivate(actor=as_olga, user=charlie)
    with pytest.raises(Forbidden, match="disabled"):
        project_member_set(actor=as_alice, project=project, user=charlie, role="viewer")


def test_members_of_a_project_in_one_query(
    as_bob: Actor,
    alice: User,
    bob: User,
    charlie: User,
    project: Project,
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    with django_assert_num_queries(1):
        rows = list(project_members(actor=as_bob, project=project))
    assert [
        (row.username, row.__dict__["project_role"], row.__dict__["organization_role"]) for row in rows
    ] == [
        ("alice", "", "owner"),
        ("bob", "member", ""),
    ]


def test_organization_members_are_for_the_organization(
    as_alice: Actor, as_bob: Actor, project: Project
) -> None:
    rows = organization_members(actor=as_alice, organization=project.organization)
    assert [(row.user.username, row.role) for row in rows] == [("alice", "owner")]
    with pytest.raises(NotFound):
        organization_members(actor=as_bob, organization=project.organization)


def test_looking_people_up_needs_the_whole_name(as_alice: Actor, as_bob: Actor, charlie: User) -> None:
    assert user_find(actor=as_alice, text="charlie") == charlie
    assert user_find(actor=as_alice, text=" Charlie@Example.org ") == charlie
    for part in ("char", "charlie@", "%", "", "example.org"):
        with pytest.raises(NotFound):
            user_find(actor=as_alice, text=part)
    with pytest.raises(Forbidden):
        user_find(actor=as_bob, text="charlie")


def test_a_role_holds_until_it_is_taken(as_alice: Actor, bob: User, project: Project) -> None:
    project_member_set(actor=as_alice, project=project, user=bob, role="admin")
    held = actor_for(user=bob).on_project(project.pk, project.organization_id)
    assert Permission.PROJECT_MANAGE in held


def test_an_address_that_only_looks_alike_finds_nobody(as_alice: Actor, charlie: User) -> None:
    """Whoever signs up with a domain of their own, a dotless i in it, is not added in the place of somebody else."""
    User.objects.filter(pk=charlie.pk).update(email="dora@g\u0131tlab.com")
    with pytest.raises(NotFound):
        user_find(actor=as_alice, text="dora@gitlab.com")
    assert user_find(actor=as_alice, text="Dora@G\u0131tlab.com") == charlie
