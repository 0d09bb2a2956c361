"""allauth's hooks: there is no sign-up; accounts are invited, or made at the first sign-in by the provider's OIDC."""

from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.providers.base.constants import AuthProcess
from django.http import HttpRequest
from django.shortcuts import render

from gpuaas.core.crypto import decrypt_json, encrypt_json, is_sealed
from gpuaas.core.errors import Forbidden
from gpuaas.core.request import current_request
from tenants.models import User
from tenants.services import session_changed, signed_in, try_return, try_take, user_enter
from tenants.signin import oidc_signup_open


class AccountAdapter(DefaultAccountAdapter):
    error_messages = {
        **DefaultAccountAdapter.error_messages,
        "enter_current_password": "This is not your current password.",
        "rate_limited": "You have asked for this too often. Try again in a few minutes.",
    }

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        del request
        return False

    def pre_authenticate(self, request: HttpRequest, **credentials: Any) -> None:
        """Instead of allauth's own counters, which are by what was typed and lie in a cache that forgets."""
        del request
        self._taken = try_take(login=credentials.get("username") or credentials.get("email") or "")

    def authenticate(self, request: HttpRequest, **credentials: Any) -> Any:
        user = super().authenticate(request, **credentials)
        if user is not None:
            try_return(self._taken)
        return user

    def login(self, request: HttpRequest, user: Any) -> None:
        super().login(request, user)
        signed_in(user)

    def get_client_ip(self, request: HttpRequest) -> str:
        """A client without an address may sign in as well."""
        del request
        return current_request.get().ip or "0.0.0.0"  # noqa: S104  nobody listens here

    def logout(self, request: HttpRequest) -> None:
        user = request.user
        super().logout(request)
        if isinstance(user, User):
            session_changed(user)


class SocialAccountAdapter(DefaultSocialAccountAdapter):
    """Whom the provider authenticates enters the account that was invited with their address; if GPUAAS_OIDC_SIGNUP is set,
    anybody else gets an account, which has no role anywhere yet. allauth itself makes none, and asks for nothing."""

    def pre_social_login(self, request: HttpRequest, sociallogin: Any) -> None:
        sociallogin.state["process"] = AuthProcess.LOGIN  # and never `connect`, which an address may ask for
        if sociallogin.is_existing:
            return
        try:
            sociallogin.user = user_enter(link=sociallogin.account, signup=oidc_signup_open())
        except Forbidden as error:
            page = render(
                request, "account/not_entered.html", {"exception": error.message}, status=error.status
            )
            raise ImmediateHttpResponse(page) from error

    def populate_user(self, request: HttpRequest, sociallogin: Any, data: dict[str, Any]) -> Any:
        """Claims that are no texts are none."""
        texts = {name: value for name, value in data.items() if isinstance(value, str)}
        return super().populate_user(request, sociallogin, texts)

    def is_open_for_signup(self, request: HttpRequest, sociallogin: Any) -> bool:
        del request, sociallogin
        return False


class SecondFactorAdapter(DefaultMFAAdapter):
    """Keys of second factors are sealed at rest; those stored before that are still read."""

    def encrypt(self, text: str) -> str:
        return encrypt_json({"text": text})

    def decrypt(self, encrypted_text: str) -> str:
        return str(decrypt_json(encrypted_text)["text"]) if is_sealed(encrypted_text) else encrypted_text
