"""The account: one's own tokens of all projects, and nobody else's."""

import re
from datetime import timedelta

import pytest
from django.core import mail
from django.test import Client
from django.urls import reverse

from gpuaas.core import clock
from tenants.actors import Actor
from tenants.models import ApiToken, Organization, Project, User
from tenants.selectors import tokens_of
from tenants.services import project_create, token_create

pytestmark = pytest.mark.django_db


def token(actor: Actor, project: Project, name: str) -> ApiToken:
    until = clock.now() + timedelta(days=3)
    made, _ = token_create(actor=actor, project=project, name=name, scopes=["project:view"], expires_at=until)
    return made


def test_tokens_of_all_projects_that_work(
    alice_at: Client, charlie_at: Client, as_alice: Actor, as_olga: Actor, project: Project, bob: User
) -> None:
    organization: Organization = project.organization
    project_create(actor=as_olga, organization=organization, slug="second", name="Second")
    second = Project.objects.get(slug="second")
    ours = [token(as_alice, project, "laptop"), token(as_alice, second, "pipeline")]
    gone = token(as_alice, project, "revoked-one")
    ApiToken.objects.filter(pk=gone.pk).update(revoked_at=clock.now())
    ApiToken.objects.create(
        project=project, user=bob, name="of-bob", prefix="b", secret_hash="x", expires_at=ours[0].expires_at
    )
    page = reverse("frontend:account")
    text = alice_at.get(page).content.decode()
    assert all(name in text for name in ("laptop", "pipeline"))
    assert not any(name in text for name in ("revoked-one", "of-bob"))
    revoke = reverse("frontend:own_token_revoke", args=[ours[1].pk])
    rows = text[text.index("<tbody>", text.index(">API tokens</h2>")) :].partition("</tbody>")[0]
    assert f'action="{revoke}"' in rows, "a row that is fetched brings its dialog"
    assert charlie_at.post(revoke).status_code == 404
    assert Client().post(revoke)["Location"].startswith("/accounts/login/")
    assert alice_at.post(revoke)["Location"] == page
    ours[1].refresh_from_db()
    assert ours[1].revoked_at is not None
    foreign = reverse("frontend:own_token_revoke", args=[ApiToken.objects.get(name="of-bob").pk])
    assert alice_at.post(foreign).status_code == 404
    assert [row.name for row in tokens_of(actor=as_alice, now=clock.now())] == ["laptop"]


def test_a_site_is_renamed(olga: User, as_olga: Actor, site: object) -> None:
    del as_olga, site
    browser = Client()
    browser.force_login(olga)
    rename, page = (
        reverse(f"frontend:{name}", args=["ber-1"]) for name in ("operator_site_rename", "operator_site")
    )
    assert browser.post(rename, {"name": "Berlin one"})["Location"] == page
    text = browser.get(page).content.decode()
    assert "ber-1 is called Berlin one now." in text
    assert 'value="Berlin one"' in text
    for nonsense in ("", "x" * 101):
        said = browser.post(rename, {"name": nonsense})
        assert said.status_code == 422
        assert 'id="rename"' in said.content.decode().partition(" open>")[0][-400:]
    assert "Berlin one" in browser.get(page).content.decode()


def test_a_forgotten_password_is_set_anew_in_the_words_of_the_house(alice: User) -> None:
    """allauth brings pages of its own, which speak otherwise: of each of them there is ours."""
    client, door, new = Client(), reverse("account_reset_password"), "another horse of another stable"
    assert "The portal mails you a link" in client.get(door).content.decode()
    refused = client.post(door, {"email": "no address"}).content.decode()
    assert 'aria-invalid="true"' in refused
    assert "Enter an address such as ada@example.org." in refused
    assert "Enter the address of your account." in client.post(door, {"email": ""}).content.decode()
    assert "placeholder" not in refused
    sent = client.post(door, {"email": alice.email}, follow=True).content.decode()
    assert "a link to set a new password is on its way" in sent
    letter = mail.outbox[-1]
    assert letter.subject.endswith("Set a new password")
    assert f"a new password of the account {alice.username}" in letter.body
    link = re.search(r"http://[^/]+(/accounts/password/reset/key/\S+)", str(letter.body))
    assert link
    form = client.get(link[1], follow=True)
    assert "<h1>Set a new password</h1>" in form.content.decode()
    at = form.redirect_chain[-1][0]
    for words in ("New password, once more", "At least 12 characters, not a common password"):
        assert words in form.content.decode()
    assert "placeholder" not in form.content.decode()
    assert "Enter a new password." in client.post(at, {"password1": "", "password2": ""}).content.decode()
    assert 'aria-invalid="true"' in client.post(at, {"password1": new, "password2": "x"}).content.decode()
    done = client.post(at, {"password1": new, "password2": new}, follow=True).content.decode()
    assert "<h1>The password is set</h1>" in done
    assert client.login(username=alice.username, password=new)
    assert "This link does not work any more" in Client().get(link[1], follow=True).content.decode()


def test_a_disabled_account_says_who_enables_it(client: Client) -> None:
    assert (
        "An operator of the portal can enable it" in client.get(reverse("account_inactive")).content.decode()
    )
