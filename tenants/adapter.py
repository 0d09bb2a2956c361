"""allauth's hooks: nobody signs up by themselves; accounts are invited, or come from the provider's OIDC."""

from allauth.account.adapter import DefaultAccountAdapter
from django.http import HttpRequest


class AccountAdapter(DefaultAccountAdapter):
    def is_open_for_signup(self, request: HttpRequest) -> bool:
        del request
        return False
