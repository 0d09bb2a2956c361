"""People: invited, disabled, given roles of the platform."""

import pytest

from gpuaas.core.errors import Conflict, Invalid, NotFound, Unauthorized
from tenants.actors import Actor
from tenants.models import AuditEntry, User
from tenants.roles import Permission
from tenants.selectors import actor_for, users_for
from tenants.services import user_activate, user_create, user_deactivate, user_platform_role_set


def test_operator_invites(as_olga: Actor) -> None:
    user = user_create(actor=as_olga, username="dora", email="Dora@Example.org")
    assert not user.has_usable_password()
    assert not actor_for(user=user).on_platform()
    assert AuditEntry.objects.get(action="user.create").target_name == "dora"
    with pytest.raises(Invalid, match="address already exists"):
        user_create(actor=as_olga, username="dora2", email="dora@example.ORG")
    with pytest.raises(Invalid) as refused:
        user_create(actor=as_olga, username="dora", email="other@example.org")
    assert "username" in refused.value.fields


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("username", ""),
        ("username", "a b"),
        ("email", "none"),
        ("password", "short"),
        ("platform_role", "root"),
    ],
)
def test_bad_invitations(as_olga: Actor, field: str, value: str) -> None:
    asked = {"username": "dora", "email": "dora@example.org", field: value}
    with pytest.raises(Invalid) as refused:
        user_create(actor=as_olga, **asked)
    assert field in refused.value.fields
    assert not User.objects.filter(email="dora@example.org").exists()


def test_only_operators_invite(as_alice: Actor) -> None:
    with pytest.raises(NotFound):
        user_create(actor=as_alice, username="dora", email="dora@example.org")
    with pytest.raises(NotFound):
        users_for(actor=as_alice)


def test_disabled_account_is_refused_until_enabled(as_olga: Actor, olga: User, bob: User) -> None:
    user_deactivate(actor=as_olga, user=bob)
    with pytest.raises(Unauthorized):
        actor_for(user=bob)
    user_activate(actor=as_olga, user=bob)
    assert actor_for(user=bob).user_id == bob.pk
    with pytest.raises(Conflict):
        user_deactivate(actor=as_olga, user=olga)


def test_auditor_looks_and_changes_nothing(as_olga: Actor, olga: User, bob: User) -> None:
    user_platform_role_set(actor=as_olga, user=bob, platform_role="auditor")
    held = actor_for(user=bob).on_platform()
    assert Permission.PLATFORM_VIEW in held
    assert Permission.PLATFORM_MANAGE not in held
    assert users_for(actor=actor_for(user=bob)).count() == 2
    with pytest.raises(Conflict):
        user_platform_role_set(actor=as_olga, user=olga, platform_role="")
