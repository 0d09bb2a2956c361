"""The sign-in at a real provider, with sign-up on and off, mail configured or not: who is invited enters their account, once."""

from collections.abc import Iterator

import pytest
import requests
from allauth.socialaccount.models import SocialAccount

from tenants.actors import SYSTEM
from tenants.models import AuditEntry, User
from tenants.services import user_create
from tests.web.process import web_process
from tests.web.provider import LIMIT, Person, Provider, provider

pytestmark = pytest.mark.django_db(transaction=True)
PASSWORD = "correct horse battery"


@pytest.fixture(scope="module")
def there() -> Iterator[Provider]:
    with provider() as found:
        yield found


@pytest.mark.parametrize("mail", ["true", "false"])
@pytest.mark.parametrize("signup", ["true", "false"])
def test_who_enters_which_account(there: Provider, signup: str, mail: str) -> None:
    for name in ("dora", "emil", "fred", "gina", "hans"):
        user_create(
            actor=SYSTEM,
            username=name,
            email=f"{name}@example.org",
            password=PASSWORD if name == "hans" else None,
        )
    User.objects.filter(username="fred").update(is_active=False)
    run = f"{signup}-{mail}-"  # subjects are new to each portal
    variables = {**there.variables(), "GPUAAS_OIDC_SIGNUP": signup, "GPUAAS_TEST_MAILS": mail}
    with web_process(**variables) as web:

        def enters(
            sub: str, address: str, verified: object = True, query: str = ""
        ) -> tuple[str, requests.Response]:
            there.knows(run + sub, email=address, email_verified=verified)
            person = Person(web.url)
            answer = person.enters(run + sub, query)
            return person.is_in(), answer

        # the invited one, by any spelling, and again
        assert enters("1", "Dora@Example.ORG")[0] == "dora"
        assert enters("1", "dora@example.org")[0] == "dora"
        # somebody else with the same address
        name, answer = enters("2", "dora@example.org")
        assert (name, answer.status_code) == ("", 403)
        assert "already enters the account with your address" in answer.text
        # whose address is not verified, also if a text says so
        for number, verified in enumerate((False, "true", None)):
            name, answer = enters(f"3{number}", "emil@example.org", verified)
            assert (name, answer.status_code) == ("", 403)
            assert "has not confirmed that your e-mail address is yours" in answer.text
        assert enters("3", "emil@example.org")[0] == "emil"
        # a disabled account
        name, answer = enters("4", "fred@example.org")
        assert (name, answer.url) == ("", f"{web.url}/accounts/inactive/")
        # who is asked to connect gets a sign-in
        assert enters("5", "gina@example.org", query="?process=connect")[0] == "gina"
        # who has a password keeps it
        assert enters("6", "hans@example.org")[0] == "hans"
        assert User.objects.get(username="hans").check_password(PASSWORD)
        # who is not invited
        name, answer = enters("7", "ina@example.org")
        if signup == "true":
            assert name == "ina"
            assert User.objects.get(username="ina").email == "ina@example.org"
        else:
            assert (name, answer.status_code) == ("", 403)
            assert "no account has the address ina@example.org" in answer.text.lower()
        # the page for who forgot the password
        page = requests.get(f"{web.url}/accounts/password/reset/", timeout=LIMIT)
        assert page.status_code == 200
        assert ("This portal sends no mail" in page.text) == (mail == "false")

    people = {"dora", "emil", "fred", "gina", "hans"} | ({"ina"} if signup == "true" else set())
    assert set(User.objects.values_list("username", flat=True)) == people
    assert set(SocialAccount.objects.values_list("user__username", flat=True)) == people - {"fred"}
    entered = AuditEntry.objects.filter(action="user.enter")
    assert sorted(entered.values_list("actor", flat=True)) == ["dora", "emil", "gina", "hans"]
    assert set(entered.values_list("ip", flat=True)) == {"127.0.0.1"}
