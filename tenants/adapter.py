"""allauth's hooks: nobody signs up by themselves; accounts are invited, or come from the provider's OIDC."""

from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from django.http import HttpRequest

from tenants.signin import oidc_signup_open


class AccountAdapter(DefaultAccountAdapter):
    def is_open_for_signup(self, request: HttpRequest) -> bool:
        del request
        return False


class SocialAccountAdapter(DefaultSocialAccountAdapter):
    """Whom the provider knows may get an account where GPUAAS_OIDC_SIGNUP says so; it has no role anywhere yet."""

    def is_open_for_signup(self, request: HttpRequest, sociallogin: Any) -> bool:
        del request, sociallogin
        return oidc_signup_open()
