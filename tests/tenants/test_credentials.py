"""What people change of how they sign in is in the audit log: their password, and their second factor."""

import re
import time
from typing import Any

import pytest
import time_machine
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal.auth import TOTP, format_hotp_value, generate_totp_secret, hotp_value
from django.core import mail
from django.test import Client
from django.urls import reverse

from gpuaas.core import clock
from tenants.models import AuditEntry, User
from tests.factories.tenants import UserFactory

pytestmark = pytest.mark.django_db(transaction=True)
PASSWORD, OTHER = "correct horse battery", "another horse of another stable"


def told() -> list[tuple[str, str, Any]]:
    rows = AuditEntry.objects.filter(target_kind="user").order_by("pk")
    return [(row.action, row.actor, row.after) for row in rows]


def signed_in(password: str = PASSWORD) -> Client:
    browser = Client(REMOTE_ADDR="192.0.2.7")
    sent = {"login": "alice", "password": password}
    assert browser.post(reverse("account_login"), sent).status_code == 302
    return browser


def test_a_new_password_is_in_the_audit_log(alice: User) -> None:
    sent = {"oldpassword": PASSWORD, "password1": OTHER, "password2": OTHER}
    signed_in().post(reverse("account_change_password"), sent)
    assert told() == [("user.password_change", "alice", None)]
    assert AuditEntry.objects.get().ip == "192.0.2.7"
    assert OTHER not in str(AuditEntry.objects.values())


def test_a_password_that_was_reset_by_mail_is_too(alice: User, client: Client) -> None:
    client.post(reverse("account_reset_password"), {"email": alice.email})
    (link,) = re.findall(r"https?://[^/]+(/\S+/)", str(mail.outbox[0].body))
    form = client.get(link, follow=True).redirect_chain[-1][0]
    client.post(form, {"password1": OTHER, "password2": OTHER})
    assert told() == [("user.password_reset", "alice", None)]


def test_a_second_factor_that_comes_or_goes_is_too(alice: User) -> None:
    with time_machine.travel(clock.now(), tick=False):  # a code is good for half a minute
        browser = signed_in()
        browser.post(reverse("account_reauthenticate"), {"password": PASSWORD})
        page = browser.get(reverse("mfa_activate_totp")).content.decode()
        secret = re.findall(r"[A-Z2-7]{32}", page)[0]
        code = format_hotp_value(hotp_value(secret, int(time.time()) // 30))
        assert browser.post(reverse("mfa_activate_totp"), {"code": code}).status_code == 302
        browser.post(reverse("mfa_generate_recovery_codes"))
        browser.post(reverse("mfa_deactivate_totp"))
    assert ("user.second_factor_add", "alice", {"kind": "totp"}) in told()
    assert ("user.second_factor_renew", "alice", {"kind": "recovery_codes"}) in told()
    assert ("user.second_factor_remove", "alice", {"kind": "totp"}) in told()
    assert secret not in str(AuditEntry.objects.values())


def test_an_operator_takes_a_lost_second_factor_off(alice: User, olga: User) -> None:
    auditor = UserFactory.create(username="ada", platform_role="auditor")
    for person in (alice, olga):
        TOTP.activate(person, generate_totp_secret())
        RecoveryCodes.activate(person)
    remove = reverse("frontend:operator_person_second_factor_off", args=[alice.pk])
    page = reverse("frontend:operator_person", args=[alice.pk])
    outsider, reader, operator = Client(), Client(), Client()
    for browser, person in ((outsider, alice), (reader, auditor), (operator, olga)):
        browser.force_login(person)
    assert outsider.post(remove).status_code == 404
    assert reader.post(remove).status_code == 403
    assert "Remove second factor" not in reader.get(page).content.decode()
    assert Authenticator.objects.filter(user=alice).count() == 2
    assert "Remove second factor" in operator.get(page).content.decode()
    for _ in range(2):  # pressed twice
        said = operator.post(remove, follow=True).content.decode()
        assert "alice signs in without a second factor now." in said
    assert not Authenticator.objects.filter(user=alice).exists()
    entry = AuditEntry.objects.get(action="user.second_factor_remove")
    assert (entry.actor, entry.before) == ("olga", {"kinds": ["recovery_codes", "totp"]})
    assert "Second factor" not in operator.get(page).content.decode()
    signed_in()


def test_not_even_an_operator_takes_their_own_off_like_that(olga: User) -> None:
    """Who finds a browser in which somebody is signed in does not know the password, which the page of the account asks for."""
    TOTP.activate(olga, generate_totp_secret())
    operator = Client()
    operator.force_login(olga)
    remove = reverse("frontend:operator_person_second_factor_off", args=[olga.pk])
    assert "on the page of your account" in operator.post(remove, follow=True).content.decode()
    assert Authenticator.objects.filter(user=olga).count() == 1
