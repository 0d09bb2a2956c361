"""API tokens."""

import re
from datetime import timedelta

import pytest
import time_machine

from gpuaas.core import clock
from gpuaas.core.errors import Forbidden, Invalid, NotFound, Unauthorized
from tenants.actors import Actor
from tenants.models import ApiToken, AuditEntry, Project, User
from tenants.roles import Permission
from tenants.selectors import (
    actor_for,
    actor_for_token,
    projects_for,
    token_find,
    token_get_for,
    tokens_for,
    user_find,
)
from tenants.services import (
    project_member_remove,
    project_member_set,
    token_create,
    token_revoke,
    token_touch,
    user_deactivate,
)
from tests.factories.tenants import ProjectMembershipFactory

DAY = timedelta(days=1)
SCOPES = ["workspace:view", "workspace:create"]


def make(actor: Actor, project: Project, **changes: object) -> tuple[ApiToken, str]:
    asked = {"name": "ci", "scopes": SCOPES, "expires_at": clock.now() + DAY, **changes}
    return token_create(actor=actor, project=project, **asked)  # type: ignore[arg-type]  # changed on purpose


def test_token_is_shown_once_and_found_again(as_alice: Actor, project: Project) -> None:
    token, raw = make(as_alice, project)
    assert re.fullmatch(r"gpa_[0-9a-f]{12}_[0-9A-Za-z]{43}", raw)
    assert raw.rpartition("_")[2] not in str(ApiToken.objects.values())
    assert raw.rpartition("_")[2] not in str(AuditEntry.objects.values())
    assert token_find(raw=raw, now=clock.now()) == token


def test_token_acts_within_scopes_and_project(
    as_alice: Actor, project: Project, other_project: Project
) -> None:
    token, _ = make(as_alice, project)
    actor = actor_for_token(token=token)
    held = actor.on_project(project.pk, project.organization_id)
    assert held == {Permission.WORKSPACE_VIEW, Permission.WORKSPACE_CREATE}
    assert not actor.on_project(other_project.pk, other_project.organization_id)
    assert not actor.on_organization(project.organization_id)
    assert list(projects_for(actor=actor, permission=Permission.WORKSPACE_VIEW)) == [project]
    assert not projects_for(actor=actor).exists()


def test_lost_role_is_lost_to_the_token_at_once(as_alice: Actor, bob: User, project: Project) -> None:
    project_member_set(actor=as_alice, project=project, user=bob, role="admin")
    token, _ = make(actor_for(user=bob), project)
    project_member_remove(actor=as_alice, project=project, user=bob)
    token.refresh_from_db()
    assert not actor_for_token(token=token).on_project(project.pk, project.organization_id)


def test_expired_revoked_and_made_up_tokens_are_refused(as_alice: Actor, project: Project) -> None:
    token, raw = make(as_alice, project)
    for wrong in ("", "x", "gpa_1_2", raw[:-1] + "!", raw + "_x", raw.replace("gpa", "gpb"), "gpa__"):
        with pytest.raises(Unauthorized):
            token_find(raw=wrong, now=clock.now())
    with pytest.raises(Unauthorized, match="expired"):
        token_find(raw=raw, now=clock.now() + DAY)
    token_revoke(actor=as_alice, token=token)
    token_revoke(actor=as_alice, token=token)
    with pytest.raises(Unauthorized, match="revoked"):
        token_find(raw=raw, now=clock.now())
    assert AuditEntry.objects.filter(action="token.revoke").count() == 1


def test_disabled_maker_disables_the_token(
    as_alice: Actor, as_olga: Actor, alice: User, project: Project
) -> None:
    token, _ = make(as_alice, project)
    user_deactivate(actor=as_olga, user=alice)
    token = ApiToken.objects.select_related("user").get(pk=token.pk)
    with pytest.raises(Unauthorized, match="disabled"):
        actor_for_token(token=token)


@pytest.mark.parametrize(
    "change",
    [
        {"name": ""},
        {"name": "x" * 101},
        {"name": "a\nb"},
        {"scopes": []},
        {"scopes": ["everything"]},
        {"scopes": ["platform:manage"]},
        {"expires_at": clock.now() - DAY},
        {"expires_at": clock.now() + 400 * DAY},
    ],
    ids=[
        "no name",
        "long name",
        "two lines",
        "no scope",
        "unknown scope",
        "platform scope",
        "past",
        "too late",
    ],
)
def test_bad_tokens_are_not_made(as_alice: Actor, project: Project, change: dict[str, object]) -> None:
    with pytest.raises(Invalid):
        make(as_alice, project, **change)
    assert not ApiToken.objects.exists()


def test_who_makes_tokens(
    as_alice: Actor, as_bob: Actor, as_charlie: Actor, as_olga: Actor, project: Project
) -> None:
    with pytest.raises(Forbidden):
        make(as_bob, project)
    with pytest.raises(NotFound):
        make(as_charlie, project)
    token, _ = make(as_alice, project, scopes=["token:manage"])
    with pytest.raises(Forbidden, match="not another token"):
        make(actor_for_token(token=token), project)


def test_scopes_stay_within_the_makers_role(as_alice: Actor, project: Project) -> None:
    narrowed = Actor(
        user_id=as_alice.user_id,
        name="alice",
        projects={project.pk: frozenset({Permission.TOKEN_MANAGE, Permission.PROJECT_VIEW})},
    )
    with pytest.raises(Forbidden, match="workspace:create"):
        make(narrowed, project)


def test_others_cannot_revoke_or_see(
    as_alice: Actor, as_bob: Actor, as_charlie: Actor, project: Project
) -> None:
    token, _ = make(as_alice, project)
    with pytest.raises(Forbidden):
        token_revoke(actor=as_bob, token=token)
    with pytest.raises(NotFound):
        token_revoke(actor=as_charlie, token=token)
    assert list(tokens_for(actor=as_alice, project=project)) == [token]
    assert not tokens_for(actor=as_bob, project=project).exists()
    with pytest.raises(NotFound):
        token_get_for(actor=as_bob, project=project, token_id=token.pk)


def test_a_token_without_the_scope_leaves_its_makers_things_alone(
    as_alice: Actor, alice: User, project: Project
) -> None:
    """To be the maker's own is no scope: not of tokens, not of the membership, not of what is listed."""
    ProjectMembershipFactory.create(project=project, user=alice, role="admin")
    pipeline, _ = make(as_alice, project, name="pipeline")
    leaked, _ = make(as_alice, project, name="leaked", scopes=["project:view"])
    thief = actor_for_token(token=leaked)
    for refused in (
        lambda: token_revoke(actor=thief, token=pipeline),
        lambda: tokens_for(actor=thief, project=project),
        lambda: project_member_remove(actor=thief, project=project, user=alice),
    ):
        with pytest.raises(Forbidden, match="this API token does not allow this; it needs the scope"):
            refused()
    pipeline.refresh_from_db()
    assert pipeline.revoked_at is None
    assert project.memberships.filter(user=alice).exists()
    assert not AuditEntry.objects.filter(token_prefix=leaked.prefix).exists()


@pytest.mark.parametrize("scopes", [["token:manage"], ["token:manage", "project:view"]])
def test_a_makers_own_need_no_more_than_any_role(
    as_alice: Actor, bob: User, project: Project, scopes: list[str]
) -> None:
    """Who made tokens as an admin ends them as a viewer: signed in, or by a token that has the scope."""
    project_member_set(actor=as_alice, project=project, user=bob, role="admin")
    mine = [make(actor_for(user=bob), project, scopes=scopes)[0] for _ in range(3)]
    others, _ = make(as_alice, project)
    project_member_set(actor=as_alice, project=project, user=bob, role="viewer")
    program = actor_for_token(token=mine[0])
    token_revoke(actor=actor_for(user=bob), token=mine[1])
    token_revoke(actor=program, token=mine[2])
    assert others not in tokens_for(actor=program, project=project)
    with pytest.raises((Forbidden, NotFound)):
        token_revoke(actor=program, token=others)
    others.refresh_from_db()
    assert others.revoked_at is None


def test_a_token_uses_no_role_that_its_maker_has_elsewhere(
    as_bob: Actor, bob: User, project: Project, other_project: Project
) -> None:
    """bob manages people elsewhere; the token of a project where he does not looks nobody up."""
    ProjectMembershipFactory.create(project=other_project, user=bob, role="admin")
    row = ApiToken(project=project, user=bob, scopes=["project:manage", "workspace:view"])
    program = actor_for_token(token=row)
    assert user_find(actor=actor_for(user=bob), text="bob") == bob
    with pytest.raises(Forbidden):
        user_find(actor=program, text="bob")
    assert program.projects.keys() == {project.pk}
    assert (program.organizations, program.platform) == ({}, frozenset())


def test_use_is_remembered_once_a_minute(as_alice: Actor, project: Project) -> None:
    token, _ = make(as_alice, project)
    with time_machine.travel("2027-11-21T10:00:00Z", tick=False) as travel:
        first = clock.now()
        for seconds in (0, 30, 20):
            travel.shift(seconds)
            token_touch(token=token, now=clock.now())
            token.refresh_from_db()
            assert token.last_used_at == first
        travel.shift(10)
        token_touch(token=token, now=clock.now())
        token.refresh_from_db()
        assert token.last_used_at == clock.now()
