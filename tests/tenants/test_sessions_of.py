"""Sessions: listed for whose they are, ended by them or by an operator, and nobody else's with them."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from gpuaas.core import clock
from gpuaas.core.errors import NotFound
from tenants.models import AuditEntry, Project, User
from tenants.roles import TOKEN_SCOPES
from tenants.selectors import actor_for, actor_for_token, sessions_of
from tenants.services import sessions_end, token_create
from tests.factories.tenants import UserFactory

pytestmark = pytest.mark.django_db
PASSWORD = "correct horse battery"
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"


def browser(name: str, **headers: str) -> Client:
    made = Client(headers=headers)
    sent = {"login": name, "password": PASSWORD}
    assert made.post(reverse("account_login"), sent).status_code == 302
    return made


def is_in(client: Client) -> bool:
    return client.get(reverse("frontend:account")).status_code == 200


def test_the_account_lists_them_and_ends_them(alice: User, bob: User) -> None:
    here, there, third = browser("alice", **{"user-agent": FIREFOX}), browser("alice"), browser("alice")
    other = browser("bob")
    text = here.get(reverse("frontend:account")).content.decode()
    assert text.count("this one") == 1
    assert "Firefox on Linux" in text
    rows = sessions_of(actor=actor_for(user=alice), user=alice, now=clock.now())
    assert len(rows) == 3
    key = there.cookies["sessionid"].value
    end = reverse("frontend:sessions_end")
    number = next(row.pk for row in rows if row.session_key == key)
    assert here.post(end, {"session": number}).status_code == 302
    assert [is_in(each) for each in (here, there, third, other)] == [True, False, True, True]
    for nonsense in ("", "x", "999999999", str(number)):
        here.post(end, {"session": nonsense})
    assert is_in(third)
    here.post(end)
    assert [is_in(each) for each in (here, third, other)] == [True, False, True]
    entries = AuditEntry.objects.filter(action="user.sign_out").values_list("actor", "target_name", "after")
    assert list(entries.order_by("pk")) == [("alice", "alice", {"sessions": 1})] * 2


def test_nobody_ends_those_of_others(alice: User, bob: User, charlie: User, project: Project) -> None:
    hers = browser("alice")
    (row,) = sessions_of(actor=actor_for(user=alice), user=alice, now=clock.now())
    browser("charlie").post(reverse("frontend:sessions_end"), {"session": row.pk})
    for person in (bob, charlie):
        with pytest.raises(NotFound):
            sessions_end(actor=actor_for(user=person), user=alice)
        with pytest.raises(NotFound):
            sessions_of(actor=actor_for(user=person), user=alice, now=clock.now())
    every = sorted(scope.value for scope in TOKEN_SCOPES)
    given: dict[str, Any] = {"scopes": every, "expires_at": clock.now() + timedelta(days=1)}
    token, _ = token_create(actor=actor_for(user=alice), project=project, name="all", **given)
    with pytest.raises(NotFound):
        sessions_end(actor=actor_for_token(token=token), user=alice)
    assert is_in(hers)


def test_an_operator_signs_a_person_out(alice: User, olga: User) -> None:
    hers, forced = browser("alice"), Client()
    forced.force_login(alice)  # is in no list, as one from before an upgrade
    operator = Client()
    operator.force_login(olga)
    page = reverse("frontend:operator_person", args=[alice.pk])
    assert "Sign out everywhere" in operator.get(page).content.decode()
    said = operator.post(reverse("frontend:operator_person_sign_out", args=[alice.pk]), follow=True)
    assert "alice is signed out everywhere." in said.content.decode()
    assert not is_in(hers)
    assert not is_in(forced)
    assert AuditEntry.objects.get(action="user.sign_out").actor == "olga"
    own = reverse("frontend:operator_person_sign_out", args=[olga.pk])
    assert "signed in nowhere" in operator.post(own, follow=True).content.decode()


def test_an_auditor_sees_and_ends_nothing(alice: User) -> None:
    ada: User = UserFactory.create(username="ada", platform_role="auditor")
    hers, auditor = browser("alice"), Client()
    auditor.force_login(ada)
    text = auditor.get(reverse("frontend:operator_person", args=[alice.pk])).content.decode()
    assert "Sign out everywhere" not in text
    assert auditor.post(reverse("frontend:operator_person_sign_out", args=[alice.pk])).status_code == 403
    assert is_in(hers)


def test_sessions_that_a_new_password_ended_are_not_shown(alice: User) -> None:
    browser("alice")
    alice.set_password("another horse battery")
    alice.save()
    assert sessions_of(actor=actor_for(user=alice), user=alice, now=clock.now()) == []
