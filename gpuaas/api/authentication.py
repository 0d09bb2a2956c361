"""Authentication: an API token of a project, or a signed-in browser session with its CSRF token."""

from rest_framework import authentication, exceptions
from rest_framework.request import Request

from gpuaas.api.errors import CHALLENGE, CsrfRefused
from gpuaas.core import clock
from gpuaas.core.errors import Unauthorized
from tenants.models import ApiToken, User
from tenants.selectors import token_find
from tenants.services import token_touch

SCHEME = "bearer"
LONGEST = 200


class TokenAuthentication(authentication.BaseAuthentication):
    """`Authorization: Bearer gpa_…`. A wrong token is refused even if a session would do: the caller meant to use the
    token."""

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        scheme, _, raw = request.headers.get("Authorization", "").partition(" ")
        if not scheme:
            return None
        raw = raw.strip()
        if scheme.lower() != SCHEME:
            raise exceptions.AuthenticationFailed("send `Authorization: Bearer <API token>`")
        if not raw.isascii() or not raw.isprintable() or len(raw) > LONGEST:
            raise exceptions.AuthenticationFailed("this is not a valid API token")
        now = clock.now()
        try:
            token = token_find(raw=raw, now=now)
        except Unauthorized as refused:
            raise exceptions.AuthenticationFailed(refused.message) from refused
        if not token.user.is_active:
            raise exceptions.AuthenticationFailed("this account is disabled")
        token_touch(token=token, now=now)
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        return CHALLENGE


class BrowserAuthentication(authentication.SessionAuthentication):
    """Sessions of our own pages; unsafe methods need the CSRF token."""

    def enforce_csrf(self, request: Request) -> None:
        try:
            super().enforce_csrf(request)
        except exceptions.PermissionDenied as refused:
            raise CsrfRefused(str(refused.detail)) from refused
