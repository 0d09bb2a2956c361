"""Sign-in: by password, limited, closed to strangers; OIDC by environment."""

from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import RequestFactory

from tenants.adapter import AccountAdapter, SocialAccountAdapter
from tenants.signin import oidc_origins, oidc_providers


@pytest.mark.parametrize("opened", ["true", "false"])
def test_allauth_makes_no_account(monkeypatch: pytest.MonkeyPatch, opened: str) -> None:
    """Whom the provider authenticates gets one by a service of ours (test_entering.py)."""
    request = RequestFactory().get("/")
    monkeypatch.setenv("GPUAAS_OIDC_SIGNUP", opened)
    assert not AccountAdapter().is_open_for_signup(request)
    assert not SocialAccountAdapter().is_open_for_signup(request, None)


def test_oidc_is_off_without_an_issuer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPUAAS_OIDC_ISSUER", raising=False)
    assert oidc_providers() == {}
    assert oidc_origins() == []


def test_oidc_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s3cret\n")
    monkeypatch.setenv("GPUAAS_OIDC_ISSUER", "https://id.example.org")
    monkeypatch.setenv("GPUAAS_OIDC_CLIENT_SECRET_FILE", str(secret))
    with pytest.raises(ImproperlyConfigured, match="GPUAAS_OIDC_CLIENT_ID"):
        oidc_providers()
    monkeypatch.setenv("GPUAAS_OIDC_CLIENT_ID", "portal")
    (app,) = oidc_providers()["openid_connect"]["APPS"]
    assert (app["client_id"], app["secret"]) == ("portal", "s3cret")
    assert oidc_origins() == ["https://id.example.org"]  # the form of the sign-in is redirected there
    assert app["settings"]["server_url"] == "https://id.example.org"
