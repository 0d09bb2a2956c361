"""By the provider to the account that was invited with the address, and to no other; with the provider itself in
tests/web/test_provider.py."""

import threading
from contextlib import suppress
from importlib import import_module
from typing import Any

import pytest
from allauth.account.models import EmailAddress
from allauth.socialaccount.models import SocialAccount
from django.apps import apps
from django.conf import settings as django_settings
from django.core import mail
from django.db import connection
from django.test import Client
from django.urls import NoReverseMatch, reverse
from pytest_django import Settings

from gpuaas.core.errors import Forbidden, Invalid
from tenants.actors import SYSTEM
from tenants.models import AuditEntry, User
from tenants.services import user_create, user_enter

DORA = "dora@example.org"


def claims(**changes: Any) -> dict[str, Any]:
    return {"sub": "1", "email": DORA, "email_verified": True, **changes}


def entered(data: dict[str, Any], *, uid: str = "1", signup: bool = False) -> User:
    return user_enter(link=SocialAccount(provider="oidc", uid=uid, extra_data=data), signup=signup)


@pytest.fixture
def dora(db: None) -> User:
    return user_create(actor=SYSTEM, username="dora", email=DORA)


@pytest.mark.parametrize("signup", [False, True])
@pytest.mark.parametrize(
    "data",
    [
        claims(),
        claims(email="Dora@Example.ORG"),
        {"userinfo": claims()},
        {"id_token": claims()},
        {"userinfo": claims(), "id_token": claims()},
        {"userinfo": {"sub": "1", "email": DORA}, "id_token": claims()},
        {"userinfo": claims(), "id_token": {"sub": "1"}},
    ],
)
def test_a_verified_address_enters_the_invited_account_once(
    dora: User, data: dict[str, Any], signup: bool
) -> None:
    assert entered(data, signup=signup) == dora
    link = SocialAccount.objects.get()
    assert (link.user, link.uid) == (dora, "1")
    entry = AuditEntry.objects.get(action="user.enter")
    assert (entry.actor, entry.target_name, entry.after) == (
        "dora",
        "dora",
        {"provider": "oidc", "address": DORA},
    )
    with pytest.raises(Forbidden, match="already enters"):
        entered(data, uid="2", signup=signup)
    assert entered(data, signup=signup) == dora
    assert (User.objects.count(), SocialAccount.objects.count()) == (1, 1)


@pytest.mark.parametrize("signup", [False, True])
@pytest.mark.parametrize(
    "data",
    [
        claims(email_verified=False),
        claims(email_verified="true"),
        claims(email_verified="false"),
        claims(email_verified=1),
        claims(email_verified=None),
        {"sub": "1", "email": DORA},
        {"userinfo": claims(), "id_token": claims(email_verified=False)},
        {"userinfo": claims(email_verified=False), "id_token": claims()},
        {"userinfo": {"sub": "1", "email": DORA}, "id_token": {"sub": "1", "email_verified": True}},
        {"userinfo": claims(), "id_token": claims(email="other@example.org")},
    ],
)
def test_an_unverified_one_never_does(dora: User, data: dict[str, Any], signup: bool) -> None:
    if data.get("id_token", {}).get("email") != "other@example.org":  # of two addresses neither is hers
        with pytest.raises(Forbidden, match="has not confirmed"):
            entered(data, signup=signup)
    else:
        with suppress(Forbidden):
            assert entered(data, signup=signup) != dora
    assert not SocialAccount.objects.filter(user=dora).exists()
    assert User.objects.filter(email__iexact=DORA).get() == dora


@pytest.mark.parametrize("signup", [False, True])
@pytest.mark.parametrize(
    "look_alike", ["dora@g\u0131tlab.com", "dora@gitla\u212a.com", "dora@gitla\u017f.com"]
)
def test_an_address_that_only_looks_alike_enters_nobodys_account(
    db: None, look_alike: str, signup: bool
) -> None:
    """A domain with a dotless i is somebody else's, and in capitals it is the same to the database."""
    plain = look_alike.replace("\u0131", "i").replace("\u212a", "k").replace("\u017f", "s")
    dora = user_create(actor=SYSTEM, username="dora", email=plain)
    with suppress(Forbidden):
        assert entered(claims(email=look_alike), signup=signup) != dora
    assert not SocialAccount.objects.filter(user=dora).exists()
    assert entered(claims(email=plain.upper(), sub="2"), uid="2") == dora


def test_a_disabled_account_stays_shut(dora: User) -> None:
    User.objects.filter(pk=dora.pk).update(is_active=False)
    assert not entered(claims(), signup=True).is_active
    assert not SocialAccount.objects.exists()
    assert not AuditEntry.objects.filter(action="user.enter").exists()


def test_who_is_not_invited(db: None) -> None:
    with pytest.raises(Forbidden, match=f"no account has the address {DORA}"):
        entered(claims())
    assert not User.objects.exists()


@pytest.mark.parametrize("taken", [False, True])
def test_where_sign_up_is_open_nothing_is_asked(db: None, taken: bool) -> None:
    if taken:
        user_create(actor=SYSTEM, username="dora", email="other@example.org")
    made = entered(claims(preferred_username="dora", given_name="Dora", family_name=["no text"]), signup=True)
    assert made.username.startswith("dora")
    assert (made.email, made.first_name, made.last_name) == (DORA, "Dora", "")
    assert not made.has_usable_password()
    assert AuditEntry.objects.get(action="user.sign_up").actor == made.username
    with pytest.raises(Invalid):
        user_create(actor=SYSTEM, username="another", email="DORA@example.org")


@pytest.mark.parametrize(
    "data", [{"sub": "1"}, claims(email="nonsense"), claims(email=7), claims(email_verified=False)]
)
def test_an_unverified_address_is_nobodys(db: None, data: dict[str, Any]) -> None:
    assert entered(data, signup=True).email == ""
    assert entered({**data, "sub": "2"}, uid="2", signup=True).email == ""
    assert user_create(actor=SYSTEM, username="invited", email=DORA).email == DORA


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("invited", [True, False])
def test_two_at_once_enter_one_account(invited: bool) -> None:
    if invited:
        user_create(actor=SYSTEM, username="dora", email=DORA)
    outcomes: list[str] = []
    start = threading.Barrier(4)

    def one(uid: str) -> None:
        start.wait()
        try:
            outcomes.append(entered(claims(sub=uid), uid=uid, signup=True).username)
        except Forbidden:
            outcomes.append("refused")
        finally:
            connection.close()

    threads = [threading.Thread(target=one, args=(uid,)) for uid in ("1", "1", "2", "2")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["dora", "dora", "refused", "refused"]
    assert (User.objects.count(), SocialAccount.objects.count()) == (1, 1)


@pytest.mark.django_db(transaction=True)
def test_of_several_at_once_one_gets_the_address() -> None:
    outcomes: list[str] = []
    start = threading.Barrier(4)

    def one(name: str, address: str) -> None:
        start.wait()
        try:
            outcomes.append(user_create(actor=SYSTEM, username=name, email=address).email)
        except Invalid as refused:
            outcomes.append(",".join(refused.fields))
        finally:
            connection.close()

    asked = [("a", DORA), ("b", "DORA@EXAMPLE.ORG"), ("c", "Dora@Example.org"), ("d", DORA)]
    threads = [threading.Thread(target=one, args=each) for each in asked]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == [DORA, "email", "email", "email"]
    assert User.objects.count() == 1
    for name in ("third", "fourth"):
        assert user_create(actor=SYSTEM, username=name, email="").email == ""


def test_mixed_case_is_one_address(client: Client, db: None) -> None:
    made = user_create(
        actor=SYSTEM, username="dora", email="Dora.Smith@Example.org", password="correct horse battery"
    )
    assert made.email == "dora.smith@example.org"
    for typed in ("Dora.Smith@Example.org", "dora.smith@example.org", "DORA.SMITH@EXAMPLE.ORG"):
        sent = {"login": typed, "password": "correct horse battery"}
        assert Client().post(reverse("account_login"), sent).status_code == 302
    client.post(reverse("account_reset_password"), {"email": "Dora.Smith@example.org"})
    assert [one.to for one in mail.outbox] == [["dora.smith@example.org"]]


@pytest.mark.parametrize(
    "path",
    ["email/", "confirm-email/", "3rdparty/", "3rdparty/signup/", "social/signup/", "social/connections/"],
)
def test_pages_on_which_addresses_were_taken_are_gone(alice: User, path: str) -> None:
    browser = Client()
    browser.force_login(alice)
    sent = {"email": "bob@example.org", "action_add": "", "action_primary": "", "username": "x"}
    for answer in (browser.get(f"/accounts/{path}"), browser.post(f"/accounts/{path}", sent)):
        assert answer.status_code == 404
    assert not EmailAddress.objects.filter(email="bob@example.org").exists()


def test_the_names_of_those_pages_are_gone() -> None:
    for name in ("account_email", "socialaccount_connections", "socialaccount_signup"):
        with pytest.raises(NoReverseMatch):
            reverse(name)


def test_without_mail_a_forgotten_password_is_answered_in_words(settings: Settings, alice: User) -> None:
    settings.MAILS_ENABLED = False
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    door = reverse("account_reset_password")
    for answer in (
        Client().get(door),
        *(Client().post(door, {"email": one}) for one in (alice.email, "x@example.org")),
    ):
        assert answer.status_code == 200
        assert "This portal sends no mail" in answer.content.decode()


def test_a_mail_server_that_is_away_is_said_and_tells_nothing_of_accounts(
    settings: Settings, alice: User
) -> None:
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 9
    door = reverse("account_reset_password")
    answers = [Client().post(door, {"email": one}) for one in (alice.email, "x@example.org")]
    assert [one.status_code for one in answers] == [503, 503]
    assert answers[0].content == answers[1].content


def test_strangers_get_no_mail(client: Client, db: None) -> None:
    assert client.post(reverse("account_reset_password"), {"email": "x@example.org"}).status_code == 302
    assert mail.outbox == []


def test_an_operator_invites_without_a_password(olga: User, settings: Settings) -> None:
    browser, page = Client(), reverse("frontend:operator_people")
    browser.force_login(olga)
    sent = {"username": "dora", "email": "Dora@example.org", "without_password": "on"}
    settings.MAILS_ENABLED = False
    assert browser.post(page, sent).status_code == 422
    settings.SOCIALACCOUNT_PROVIDERS = {"openid_connect": {"APPS": []}}
    answer = browser.post(page, sent)
    assert answer.status_code == 201
    assert "There is none." in answer.content.decode()
    made = User.objects.get(username="dora")
    assert not made.has_usable_password()
    assert entered(claims()) == made


@pytest.mark.django_db(transaction=True)
def test_accounts_with_one_address_are_put_apart() -> None:
    assert django_settings.AUTH_USER_MODEL == "tenants.User"
    first = User.objects.create(username="first", email="Dora@example.org")
    second = User.objects.create(username="second", email=DORA)
    EmailAddress.objects.create(user=first, email="bob@example.org")
    EmailAddress.objects.create(user=first, email=DORA, primary=True)
    import_module("tenants.migrations.0005_addresses_apart").put_apart(apps, None)
    first.refresh_from_db()
    second.refresh_from_db()
    assert (first.email, second.email) == (DORA, "")
    assert list(EmailAddress.objects.values_list("email", flat=True)) == [DORA]
    entry = AuditEntry.objects.get(action="user.address_clear")
    assert (entry.target_name, entry.before) == ("second", {"email": DORA})


def linked(user: User, uid: str = "1") -> SocialAccount:
    found: SocialAccount = SocialAccount.objects.create(user=user, provider="oidc", uid=uid)
    return found


def test_a_person_takes_a_link_off_where_something_else_lets_them_in(alice: User, bob: User) -> None:
    link, browser = linked(alice), Client()
    browser.force_login(alice)
    page, remove = reverse("frontend:account"), reverse("frontend:link_remove", args=[link.pk])
    assert f'action="{remove}"' in browser.get(page).content.decode()
    other = Client()
    other.force_login(bob)
    assert other.post(remove).status_code == 404
    assert browser.get(remove).status_code in {302, 405}
    assert browser.post(remove)["Location"] == page
    assert not SocialAccount.objects.exists()
    entry = AuditEntry.objects.get(action="user.unlink")
    assert (entry.actor, entry.before) == ("alice", {"provider": "oidc", "identity": "1"})
    alice.set_unusable_password()
    alice.save()
    browser.force_login(alice)
    last = reverse("frontend:link_remove", args=[linked(alice).pk])
    assert "your only way in" in browser.post(last, follow=True).content.decode()
    assert SocialAccount.objects.count() == 1
    linked(alice, "2")
    browser.post(last)
    assert [row.uid for row in SocialAccount.objects.all()] == ["2"]


def test_an_operator_takes_it_off_and_the_next_identity_enters(dora: User, olga: User) -> None:
    assert entered(claims()) == dora
    with pytest.raises(Forbidden):
        entered(claims(sub="2"), uid="2")
    browser, link = Client(), SocialAccount.objects.get()
    browser.force_login(olga)
    person = reverse("frontend:operator_person", args=[dora.pk])
    assert "Remove identity " in browser.get(person).content.decode()
    elsewhere = reverse("frontend:operator_person_unlink", args=[olga.pk, link.pk])
    assert browser.post(elsewhere).status_code == 404
    browser.post(reverse("frontend:operator_person_unlink", args=[dora.pk, link.pk]))
    assert entered(claims(sub="2"), uid="2") == dora


def test_the_sign_in_offers_one_way_to_a_new_password(client: Client, db: None) -> None:
    text = client.get(reverse("account_login")).content.decode()
    assert text.count("Forgot") == 1
    assert text.count(reverse("account_reset_password")) == 1
