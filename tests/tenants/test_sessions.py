"""The life of a session and of a token: how each begins, and that each ends at once with what it stands on."""

from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.conf import settings as django_settings
from django.contrib.sessions.models import Session
from django.test import Client
from django.urls import reverse

from gpuaas.core import clock
from tenants.actors import SYSTEM
from tenants.models import ApiToken, Project, User
from tenants.services import token_revoke, user_activate, user_deactivate
from tests.api.caller import Caller, token_for

PASSWORD, OTHER = "correct horse battery staple", "another horse of another stable"
DOOR = "/accounts/login/"


@pytest.fixture(autouse=True)
def _password(alice: User) -> None:
    alice.set_password(PASSWORD)
    alice.save()


def sign_in(client: Client, password: str = PASSWORD) -> Any:
    return client.post(DOOR, {"login": "alice", "password": password})


def session_of(client: Client) -> str:
    return client.cookies[django_settings.SESSION_COOKIE_NAME].value


def is_in(client: Client) -> bool:
    return client.get(reverse("frontend:account")).status_code == 200


def test_a_session_that_was_planted_is_not_the_one_signed_in() -> None:
    client = Client()
    planted = client.session
    planted["planted"] = True
    planted.save()
    client.cookies[django_settings.SESSION_COOKIE_NAME] = str(planted.session_key)
    assert sign_in(client).status_code == 302
    assert session_of(client) != planted.session_key
    assert not Session.objects.filter(session_key=planted.session_key).exists()
    assert is_in(client)


def test_signing_out_ends_the_session_and_not_only_the_cookie() -> None:
    client, thief = Client(), Client()
    sign_in(client)
    thief.cookies[django_settings.SESSION_COOKIE_NAME] = session_of(client)
    assert is_in(thief)
    client.post(reverse("account_logout"))
    assert not is_in(thief)
    assert not is_in(client)


def test_looking_at_the_sign_out_page_signs_nobody_out() -> None:
    client = Client()
    sign_in(client)
    client.get(reverse("account_logout"))
    assert is_in(client)


def test_a_new_password_ends_the_other_sessions() -> None:
    mine, elsewhere = Client(), Client()
    sign_in(mine)
    sign_in(elsewhere)
    change = {"oldpassword": PASSWORD, "password1": OTHER, "password2": OTHER}
    assert mine.post(reverse("account_change_password"), change).status_code == 302
    assert is_in(mine)
    assert not is_in(elsewhere)


def test_a_session_ends_after_its_time() -> None:
    client = Client()
    sign_in(client)
    with time_machine.travel(clock.now() + timedelta(seconds=django_settings.SESSION_COOKIE_AGE + 1)):
        assert not is_in(client)
    assert django_settings.SESSION_COOKIE_AGE <= 12 * 3600


def test_a_disabled_account_is_out_at_once(alice: User, project: Project) -> None:
    client, program = Client(), Caller(token=token_for(alice, project))
    sign_in(client)
    place = reverse("api:workspaces", args=[project.slug])
    assert program.get(place).status == 200
    user_deactivate(actor=SYSTEM, user=alice)
    assert not is_in(client)
    assert (program.get(place).status, program.get(place).code) == (401, "unauthorized")
    assert sign_in(Client()).url == reverse("account_inactive")
    user_activate(actor=SYSTEM, user=alice)
    assert not is_in(client), "what was signed in before"
    assert program.get(place).status == 200


def test_a_revoked_token_is_refused_at_once(alice: User, project: Project) -> None:
    program = Caller(token=token_for(alice, project))
    place = reverse("api:workspaces", args=[project.slug])
    assert program.get(place).status == 200
    token_revoke(actor=SYSTEM, token=ApiToken.objects.get())
    assert (program.get(place).status, program.get(place).code) == (401, "unauthorized")


def test_who_is_unknown_is_told_what_who_errs_is_told() -> None:
    known, unknown = sign_in(Client(), "wrong"), Client().post(DOOR, {"login": "nobody", "password": "wrong"})
    words = "are not correct"
    assert words in known.content.decode()
    assert words in unknown.content.decode()
