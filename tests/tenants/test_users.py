"""People: invited, disabled, given roles of the platform."""

import re
import threading
from collections.abc import Callable

import pytest
from allauth.account.models import EmailAddress
from django.core import mail
from django.db import DatabaseError, connection
from django.test import Client
from django.urls import reverse

from gpuaas.core.errors import Conflict, Invalid, NotFound, Unauthorized
from tenants.actors import SYSTEM, Actor
from tenants.models import AuditEntry, User
from tenants.roles import Permission
from tenants.selectors import actor_for, users_for
from tenants.services import user_activate, user_create, user_deactivate, user_platform_role_set, user_update
from tests.factories.tenants import UserFactory
from tests.frontend.markup import words

ROUNDS = 5


def test_operator_invites(as_olga: Actor) -> None:
    user = user_create(actor=as_olga, username="dora", email="Dora@Example.org")
    assert not user.has_usable_password()
    assert not actor_for(user=user).on_platform()
    assert AuditEntry.objects.get(action="user.create").target_name == "dora"
    with pytest.raises(Invalid, match="address already exists"):
        user_create(actor=as_olga, username="dora2", email="dora@example.ORG")
    for name in ("dora", "DORA"):
        with pytest.raises(Invalid) as refused:
            user_create(actor=as_olga, username=name, email="other@example.org")
        assert refused.value.fields == {"username": ["an account with this name already exists"]}


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


def change(user: User, **wanted: str) -> None:
    given = {name: getattr(user, name) for name in ("username", "email", "first_name", "last_name")}
    user_update(actor=SYSTEM, user=user, **given | wanted)


def test_a_person_is_renamed(alice: User, client: Client) -> None:
    EmailAddress.objects.create(user=alice, email=alice.email, primary=True)
    old = {name: getattr(alice, name) for name in ("username", "email")}
    change(alice, username="alice.smith", email="Alice.Smith@Example.org")
    assert (alice.username, alice.email) == ("alice.smith", "alice.smith@example.org")
    entry = AuditEntry.objects.get(action="user.update")
    assert entry.before == old
    assert entry.after == {"username": "alice.smith", "email": "alice.smith@example.org"}
    change(alice)
    assert AuditEntry.objects.filter(action="user.update").count() == 1
    for typed, status in ((old["username"], 200), (old["email"], 200), ("ALICE.SMITH@example.org", 302)):
        sent = {"login": typed, "password": "correct horse battery"}
        assert client.post(reverse("account_login"), sent).status_code == status
    client.logout()
    client.post(reverse("account_reset_password"), {"email": old["email"]})
    assert mail.outbox == []


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("username", "bob"),
        ("username", "BOB"),
        ("email", "BOB@example.org"),
        ("username", ""),
        ("username", "a b"),
        ("email", "x"),
    ],
)
def test_a_name_or_address_of_somebody_else_is_refused(alice: User, bob: User, field: str, text: str) -> None:
    User.objects.filter(pk=bob.pk).update(email="bob@example.org")
    before = User.objects.values().get(pk=alice.pk)
    with pytest.raises(Invalid) as refused:
        change(alice, **{field: text})
    assert field in refused.value.fields
    assert User.objects.values().get(pk=alice.pk) == before


def test_of_two_operators_who_rename_the_later_one_is_told(alice: User, olga: User, client: Client) -> None:
    client.force_login(olga)
    page = reverse("frontend:operator_person", args=[alice.pk])
    read = dict(re.findall(r'name="(\w+)"\s+value="([^"]*)"', client.get(page).content.decode()))
    typed = {"username": "alice", "email": alice.email, "version": read["version"]}
    assert client.post(page, {**typed, "last_name": "Smith"}).status_code == 302
    later = client.post(page, {**typed, "last_name": "Brown"})
    assert later.status_code == 422
    assert "has changed since you read it" in later.content.decode()
    assert 'value="Brown"' in words(later)
    alice.refresh_from_db()
    assert alice.last_name == "Smith"
    again = {**typed, "version": str(alice.version), "last_name": "Brown"}
    assert client.post(page, again).status_code == 302


def test_only_operators_rename(alice: User, as_alice: Actor) -> None:
    with pytest.raises(NotFound):
        user_update(
            actor=as_alice, user=alice, username="x", email="x@example.org", first_name="", last_name=""
        )


@pytest.mark.django_db(transaction=True)
def test_of_several_who_take_one_address_at_once_one_gets_it() -> None:
    people = [user_create(actor=SYSTEM, username=name, email=f"{name}@example.org") for name in "abc"]
    outcomes: list[str] = []
    start = threading.Barrier(3)

    def one(user: User) -> None:
        start.wait()
        try:
            change(user, email="New@example.org")
            outcomes.append("taken")
        except Invalid as refused:
            outcomes.append(",".join(refused.fields))
        finally:
            connection.close()

    threads = [threading.Thread(target=one, args=(user,)) for user in people]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["email", "email", "taken"]
    assert User.objects.filter(email="new@example.org").count() == 1


def demoted(actor: Actor, user: User) -> None:
    user_platform_role_set(actor=actor, user=user, platform_role="")


def disabled(actor: Actor, user: User) -> None:
    user_deactivate(actor=actor, user=user)


@pytest.mark.parametrize("one", [demoted, disabled])
@pytest.mark.parametrize("other", [demoted, disabled])
@pytest.mark.django_db(transaction=True)
def test_of_two_operators_who_remove_each_other_at_once_one_stays(
    one: Callable[[Actor, User], None], other: Callable[[Actor, User], None]
) -> None:
    both = [UserFactory.create(username=name, platform_role="operator") for name in ("olga", "oscar")]
    start = threading.Barrier(2)
    refused: list[type[Exception]] = []

    def remove(takes: Callable[[Actor, User], None], who: User, whom: User) -> None:
        actor = actor_for(user=who)
        for _ in range(ROUNDS):
            start.wait()
            try:
                takes(actor, whom)
            except (Conflict, DatabaseError) as error:
                refused.append(type(error))
            if start.wait() == 0:
                User.objects.update(platform_role="operator", is_active=True)
        connection.close()

    asked = ((one, *both), (other, *reversed(both)))
    threads = [threading.Thread(target=remove, args=each) for each in asked]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert refused == [Conflict] * ROUNDS
