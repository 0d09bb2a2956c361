"""Who people are to a site's own sign-in: only where that is the portal's, and only what was verified."""

from typing import Any

import pytest
from allauth.socialaccount.models import SocialAccount
from pytest_django import Settings

from gpuaas.catalog.models import Site
from gpuaas.catalog.services import site_update
from gpuaas.core.errors import Invalid
from gpuaas.workspaces.identity import identities_of
from gpuaas.workspaces.spec import spec_of
from tenants.actors import Actor
from tenants.models import Project, User
from tenants.services import entering, link_remove, user_enter
from tests.workspaces.stage import ready

pytestmark = pytest.mark.django_db
ISSUER = "https://login.example.org"
OIDC = {"issuer_url": f"{ISSUER}/", "client_id": "kubectl", "username_prefix": "oidc:"}


@pytest.fixture(autouse=True)
def _signed_in(settings: Settings, alice: User) -> None:
    app = {"provider_id": "oidc", "settings": {"server_url": f"{ISSUER}/.well-known/openid-configuration"}}
    settings.SOCIALACCOUNT_PROVIDERS = {"openid_connect": {"APPS": [app]}}
    claims = {"email": "alice@example.org", "email_verified": True}
    SocialAccount.objects.create(user=alice, provider="oidc", uid="4f1c", extra_data={"id_token": claims})


def known(site: Site, alice: User, **oidc: Any) -> str:
    site.options = {"oidc": {**OIDC, **oidc}}
    return identities_of(site, [alice.pk]).get(alice.pk, "")


def test_by_sub_or_by_a_verified_address(site: Site, alice: User) -> None:
    assert known(site, alice) == "oidc:4f1c"
    assert known(site, alice, username_claim="email", username_prefix="") == "alice@example.org"
    SocialAccount.objects.update(extra_data={"userinfo": {"email": "root@example.org"}})
    assert known(site, alice, username_claim="email", username_prefix="") == ""


def test_a_sub_of_another_issuer_is_another_person(site: Site, alice: User) -> None:
    assert known(site, alice, issuer_url="https://other.example.org") == ""
    SocialAccount.objects.update(provider="another")
    assert known(site, alice) == ""


def test_the_site_is_told_and_told_again_when_it_changes(
    as_alice: Actor, as_olga: Actor, project: Project, site: Site
) -> None:
    workspace = ready(as_alice, project, site)
    site_update(actor=as_olga, site=site, options={"oidc": {**OIDC, "groups_prefix": "portal:"}})
    workspace.site.refresh_from_db()
    spec = spec_of(workspace)
    assert [member.identity for member in spec.members] == ["oidc:4f1c"]
    assert spec.groups["edit"] == "portal:climate/weather-lm/edit"


def test_an_identity_that_comes_or_goes_is_told_to_the_site_at_once(
    as_alice: Actor,
    as_olga: Actor,
    alice: User,
    project: Project,
    site: Site,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not at the next periodic look: who has lost it must not use it any more."""
    site_update(actor=as_olga, site=site, options={"oidc": OIDC})
    workspace = ready(as_alice, project, site)
    sent: list[tuple[str, ...]] = []
    monkeypatch.setattr(entering, "poke", lambda *words: sent.append(words))
    sync = ("workspaces.person_sync", str(alice.pk))

    link_remove(actor=as_olga, link=SocialAccount.objects.get())
    assert sent == [sync]
    assert [member.identity for member in spec_of(workspace).members] == [""]

    claims = {"email": alice.email, "email_verified": True}
    user_enter(link=SocialAccount(provider="oidc", uid="5", extra_data=claims), signup=False)
    assert sent == [sync, sync]
    assert [member.identity for member in spec_of(workspace).members] == ["oidc:5"]


@pytest.mark.parametrize(
    ("oidc", "words"),
    [
        ("yes", "object of strings"),
        ({**OIDC, "secret": "s"}, "secret"),
        ({**OIDC, "issuer_url": "http://login.example.org"}, "https"),
        ({**OIDC, "client_id": ""}, "client_id"),
        ({**OIDC, "client_id": "--exec"}, "client_id"),
        ({**OIDC, "username_claim": "name"}, "username_claim"),
        ({**OIDC, "username_prefix": "system:"}, "system:"),
        ({**OIDC, "groups_prefix": "system:"}, "system:"),
        ({**OIDC, "username_prefix": ""}, "username_prefix"),
    ],
)
def test_options_that_would_let_in_the_wrong_people_are_refused(
    as_olga: Actor, site: Site, oidc: Any, words: str
) -> None:
    with pytest.raises(Invalid, match=words) as refused:
        site_update(actor=as_olga, site=site, options={"oidc": oidc})
    assert "options" in refused.value.fields
