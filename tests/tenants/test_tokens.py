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
from tenants.selectors import actor_for, actor_for_token, projects_for, token_find, token_get_for, tokens_for
from tenants.services import (
    project_member_remove,
    project_member_set,
    token_create,
    token_revoke,
    token_touch,
    user_deactivate,
)

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
    with pytest.raises(Forbidden, match="not by another token"):
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
