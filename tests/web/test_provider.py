"""The sign-in at a real provider, with sign-up on and off, mail configured or not: who is invited enters their account, once."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import requests
from allauth.socialaccount.models import SocialAccount
from django.test import Client

from tenants.actors import SYSTEM
from tenants.models import AuditEntry, User
from tenants.services import link_remove, user_create
from tests.web.process import web_process
from tests.web.provider import LIMIT, Person, Provider, provider

pytestmark = pytest.mark.django_db(transaction=True)
PASSWORD = "correct horse battery"


@pytest.fixture(scope="module")
def there() -> Iterator[Provider]:
    with provider() as found:
        yield found


@dataclass(frozen=True)
class Doors:
    """A portal and the provider; `run`: subjects are new to each portal."""

    provider: Provider
    url: str
    run: str

    def enters(
        self, sub: str, address: str, verified: object = True, query: str = ""
    ) -> tuple[str, requests.Response]:
        """Who the portal takes the person for, "" for nobody, and the last page."""
        self.provider.knows(self.run + sub, email=address, email_verified=verified)
        person = Person(self.url)
        answer = person.enters(self.run + sub, query)
        return person.is_in(), answer


@pytest.mark.parametrize("mail", ["true", "false"])
@pytest.mark.parametrize("signup", ["true", "false"])
def test_who_enters_which_account(there: Provider, signup: str, mail: str) -> None:
    for name in ("dora", "emil", "fred", "gina", "hans"):
        password = PASSWORD if name == "hans" else None
        user_create(actor=SYSTEM, username=name, email=f"{name}@example.org", password=password)
    User.objects.filter(username="fred").update(is_active=False)
    variables = {**there.variables(), "GPUAAS_OIDC_SIGNUP": signup, "GPUAAS_TEST_MAILS": mail}
    with web_process(**variables) as web:
        doors = Doors(there, web.url, f"{signup}-{mail}-")
        who_is_invited_enters(doors)
        who_is_not_verified_or_disabled_does_not(doors)
        who_is_not_invited(doors, signup=signup == "true")
        page = requests.get(f"{web.url}/accounts/password/reset/", timeout=LIMIT)
        assert page.status_code == 200
        assert ("This portal sends no mail" in page.text) == (mail == "false")
    people = {"dora", "emil", "fred", "gina", "hans"} | ({"ina"} if signup == "true" else set())
    assert set(User.objects.values_list("username", flat=True)) == people
    assert set(SocialAccount.objects.values_list("user__username", flat=True)) == people - {"fred"}
    entered = AuditEntry.objects.filter(action="user.enter")
    assert sorted(entered.values_list("actor", flat=True)) == ["dora", "emil", "gina", "hans"]
    assert set(entered.values_list("ip", flat=True)) == {"127.0.0.1"}


def who_is_invited_enters(doors: Doors) -> None:
    assert doors.enters("1", "Dora@Example.ORG")[0] == "dora"
    assert doors.enters("1", "dora@example.org")[0] == "dora", "by any spelling, and again"
    name, answer = doors.enters("2", "dora@example.org")
    assert (name, answer.status_code) == ("", 403), "somebody else with the same address"
    assert "already enters the account with your address" in answer.text
    assert doors.enters("5", "gina@example.org", query="?process=connect")[0] == "gina", (
        "a sign-in all the same"
    )
    assert doors.enters("6", "hans@example.org")[0] == "hans"
    assert User.objects.get(username="hans").check_password(PASSWORD), "who has a password keeps it"


def who_is_not_verified_or_disabled_does_not(doors: Doors) -> None:
    for number, verified in enumerate((False, "true", None)):
        name, answer = doors.enters(f"3{number}", "emil@example.org", verified)
        assert (name, answer.status_code) == ("", 403)
        assert "has not confirmed that your e-mail address is yours" in answer.text
    assert doors.enters("3", "emil@example.org")[0] == "emil"
    name, answer = doors.enters("4", "fred@example.org")
    assert (name, answer.url) == ("", f"{doors.url}/accounts/inactive/")


def who_is_not_invited(doors: Doors, *, signup: bool) -> None:
    name, answer = doors.enters("7", "ina@example.org")
    if signup:
        assert name == "ina"
        assert User.objects.get(username="ina").email == "ina@example.org"
    else:
        assert (name, answer.status_code) == ("", 403)
        assert "no account has the address ina@example.org" in answer.text.lower()


def test_who_entered_by_an_identity_is_out_when_it_is_taken_off(there: Provider) -> None:
    """Such as somebody who now has the address that was dora's, and is at her account."""
    dora = user_create(actor=SYSTEM, username="dora", email="dora@example.org", password=PASSWORD)
    with web_process(**there.variables()) as web:
        there.knows("off-1", email="dora@example.org", email_verified=True)
        hers, theirs = Client(), Person(web.url)
        hers.post("/accounts/login/", {"login": "dora", "password": PASSWORD})
        theirs.enters("off-1")
        assert theirs.is_in() == "dora"
        link_remove(actor=SYSTEM, link=SocialAccount.objects.get(user=dora))
        assert theirs.is_in() == ""
        assert hers.get("/api/v1/me").json()["username"] == "dora"
    assert AuditEntry.objects.get(action="user.sign_out").after == {"sessions": 1}
