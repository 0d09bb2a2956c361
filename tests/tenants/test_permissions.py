"""The permission table: each role × permission, the document made of it, and what outsiders find: nothing."""

import uuid
from collections.abc import Callable
from types import FunctionType
from typing import Any

import pytest

from gpuaas.core import clock
from gpuaas.core.errors import NotFound
from tenants import selectors
from tenants.actors import Actor
from tenants.models import Project, User
from tenants.roles import (
    ORGANIZATION_PERMISSIONS,
    PLATFORM_PERMISSIONS,
    PROJECT_PERMISSIONS,
    Permission,
)
from tenants.selectors import actor_for, project_require, projects_for
from tests.factories.tenants import (
    OrganizationMembershipFactory,
    ProjectMembershipFactory,
    UserFactory,
)

ROLES: list[tuple[str, str, frozenset[Permission]]] = [
    *(("project", role, held) for role, held in PROJECT_PERMISSIONS.items()),
    *(("organization", role, held) for role, held in ORGANIZATION_PERMISSIONS.items()),
    *(("platform", role, held) for role, held in PLATFORM_PERMISSIONS.items() if role),
]


def with_role(scope: str, role: str, project: Project) -> Actor:
    user = UserFactory.create(platform_role=role if scope == "platform" else "")
    if scope == "project":
        ProjectMembershipFactory.create(project=project, user=user, role=role)
    if scope == "organization":
        OrganizationMembershipFactory.create(organization=project.organization, user=user, role=role)
    return actor_for(user=user)


@pytest.mark.parametrize("permission", list(Permission), ids=str)
@pytest.mark.parametrize(("scope", "role", "held"), ROLES, ids=lambda value: str(value)[:12])
def test_every_role_and_permission(
    scope: str, role: str, held: frozenset[Permission], permission: Permission, project: Project
) -> None:
    actor = with_role(scope, role, project)
    allowed = permission in held
    assert (permission in actor.on_project(project.pk, project.organization_id)) is allowed
    assert projects_for(actor=actor, permission=permission).filter(pk=project.pk).exists() is allowed
    if allowed:
        project_require(actor=actor, project=project, permission=permission)


def member_of(project: Project) -> User:
    user: User = ProjectMembershipFactory.create(
        project=project, user=UserFactory.create(), role="member"
    ).user
    return user


Reading = Callable[[Actor, Project], Any]
READINGS: dict[str, Reading] = {
    "project_get_for": lambda actor, project: selectors.project_get_for(actor=actor, slug=project.slug),
    "project_require": lambda actor, project: project_require(
        actor=actor, project=project, permission=Permission.PROJECT_VIEW
    ),
    "organization_get_for": lambda actor, project: selectors.organization_get_for(
        actor=actor, slug=project.organization.slug
    ),
    "organization_require": lambda actor, project: selectors.organization_require(
        actor=actor, organization=project.organization, permission=Permission.ORGANIZATION_VIEW
    ),
    "project_members": lambda actor, project: selectors.project_members(actor=actor, project=project),
    "project_member_get": lambda actor, project: selectors.project_member_get(
        actor=actor, project=project, username="charlie"
    ),
    "project_person_get": lambda actor, project: selectors.project_person_get(
        actor=actor, project=project, user_id=uuid.uuid4()
    ),
    "organization_members": lambda actor, project: selectors.organization_members(
        actor=actor, organization=project.organization
    ),
    "tokens_for": lambda actor, project: selectors.tokens_for(actor=actor, project=project),
    "token_get_for": lambda actor, project: selectors.token_get_for(
        actor=actor, project=project, token_id=uuid.uuid4()
    ),
    "audit_for": lambda actor, project: selectors.audit_for(actor=actor, project_id=project.pk),
    "audit_choices": lambda actor, project: selectors.audit_choices(actor=actor, column="actor", most=1),
    "users_for": lambda actor, project: selectors.users_for(actor=actor),
    "tries_for": lambda actor, project: selectors.tries_for(actor=actor),
    "person_require": lambda actor, project: selectors.person_require(actor=actor, user=member_of(project)),
    "links_of": lambda actor, project: selectors.links_of(actor=actor, user=member_of(project)),
    "second_factor_of": lambda actor, project: selectors.second_factor_of(
        actor=actor, user=member_of(project)
    ),
    "sessions_of": lambda actor, project: selectors.sessions_of(
        actor=actor, user=member_of(project), now=clock.now()
    ),
    "platform_require": lambda actor, project: selectors.platform_require(actor=actor),
}
LISTS: dict[str, Reading] = {
    "projects_for": lambda actor, project: selectors.projects_for(actor=actor).filter(pk=project.pk),
    "organizations_for": lambda actor, project: selectors.organizations_for(actor=actor).filter(
        pk=project.organization_id
    ),
    "tokens_of": lambda actor, project: selectors.tokens_of(actor=actor, now=clock.now()).filter(
        project=project
    ),
}
NOT_ABOUT_TENANTS = {
    "actor_for",
    "actors_for",
    "actor_for_token",
    "token_find",
    "user_find",
    "personal_require",
}


@pytest.mark.parametrize("reading", READINGS.values(), ids=READINGS.keys())
def test_an_outsider_finds_nothing(reading: Reading, as_charlie: Actor, project: Project) -> None:
    with pytest.raises(NotFound):
        reading(as_charlie, project)


@pytest.mark.parametrize("reading", LISTS.values(), ids=LISTS.keys())
def test_an_outsiders_lists_are_empty(reading: Reading, as_charlie: Actor, project: Project) -> None:
    assert not reading(as_charlie, project).exists()


def test_people_are_seen_by_who_shares_a_project_with_them(
    as_alice: Actor, as_charlie: Actor, bob: User
) -> None:
    assert [row for row, _ in selectors.people_seen(actor=as_alice, search="bo", most=9)] == [bob]
    assert selectors.people_seen(actor=as_charlie, search="bo", most=9) == []


def test_no_selector_is_forgotten() -> None:
    public = {
        name
        for name, value in vars(selectors).items()
        if isinstance(value, FunctionType)
        and getattr(value, "__module__", "") == selectors.__name__
        and name[0] != "_"
    }
    assert public == {*READINGS, *LISTS, *NOT_ABOUT_TENANTS, "people_seen"}
