"""allauth's hooks: there is no sign-up; accounts are invited, or created by the provider's OIDC."""

from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from django.http import HttpRequest

from gpuaas.core.crypto import decrypt_json, encrypt_json, is_sealed
from gpuaas.core.request import current_request
from tenants.models import User
from tenants.services import session_changed, signed_in, try_return, try_take
from tenants.signin import oidc_signup_open


class AccountAdapter(DefaultAccountAdapter):
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
    """If GPUAAS_OIDC_SIGNUP is set, anybody whom the provider authenticates gets an account; it has no role anywhere
    yet."""

    def is_open_for_signup(self, request: HttpRequest, sociallogin: Any) -> bool:
        del request, sociallogin
        return oidc_signup_open()


class SecondFactorAdapter(DefaultMFAAdapter):
    """Keys of second factors are sealed at rest; those stored before that are still read."""

    def encrypt(self, text: str) -> str:
        return encrypt_json({"text": text})

    def decrypt(self, encrypted_text: str) -> str:
        return str(decrypt_json(encrypted_text)["text"]) if is_sealed(encrypted_text) else encrypted_text
