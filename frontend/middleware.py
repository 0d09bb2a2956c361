"""Where the reader stands, on every request of a signed-in person; and refusals turned into answers, in one place."""

from collections.abc import Callable
from math import ceil
from typing import Any
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

import structlog
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import logout
from django.db import DataError
from django.http import Http404, HttpRequest, HttpResponseBase
from django.middleware.gzip import GZipMiddleware
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.defaults import page_not_found

from frontend import toasts
from frontend.doors import CONSOLE, page_instead, page_of, signed_out
from frontend.place import place_for
from gpuaas.core.errors import Forbidden, GpuaasError, Invalid, NotFound, TooManyTries, Unauthorized
from tenants.models import User
from tenants.selectors import actor_for

log = structlog.get_logger(__name__)
NOT_STORED = "nothing was changed: a character of a text, a number or a date cannot be stored"
UNSAFE = frozenset({"POST", "PUT", "PATCH", "DELETE"})
CODES = frozenset({"mfa_authenticate", "mfa_reauthenticate"})  # of who has a second factor


class CompressionMiddleware(GZipMiddleware):
    """Compresses pages: a fifth of their bytes are left. Django pads each against BREACH.

    Downloads are sent as they are read, and answers of the API keep their strong entity tags.
    """

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if response.streaming or not response.headers.get("Content-Type", "").startswith("text/html"):
            return response
        return super().process_response(request, response)


class ConsoleMiddleware:
    """Adds `request.place` and `request.console` to pages of the console; other rooms pay nothing for it."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        try:
            response = self.get_response(request)
        finally:
            timezone.deactivate()
        if (
            request.session.accessed
        ):  # what depends on who asks stays in no cache, nor in the browser after a sign-out
            response.headers.setdefault("Cache-Control", "private, no-store")
        return page_instead(request, signed_out(request, response))

    def process_view(
        self, request: HttpRequest, view: Any, args: Any, kwargs: dict[str, Any]
    ) -> HttpResponseBase | None:
        del view, args
        match = request.resolver_match
        user = request.user
        if match is None or not isinstance(user, User) or not CONSOLE & set(match.namespaces):
            return None
        try:
            actor = actor_for(user=user)
        except Unauthorized:
            logout(request)
            return redirect("account_login")
        vars(request)["place"] = place_for(request=request, user=user, actor=actor, kwargs=kwargs)
        timezone.activate(ZoneInfo(user.time_zone))
        return None

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponseBase | None:
        """Outsiders get 404 with no word on why; everybody else gets the sentence of the refusal."""
        if isinstance(error, DataError):
            log.warning("not_stored", path=request.path, error=str(error))
            error = Invalid(NOT_STORED)
        if not isinstance(error, GpuaasError):
            return None
        if isinstance(error, NotFound):
            return page_not_found(request, Http404(error.message))
        if request.headers.get("HX-Request"):
            return toasts.answer(tone="bad", title=error.message, status=error.status)
        if isinstance(error, TooManyTries):
            return _too_many(request, error)
        if isinstance(error, Forbidden) or request.method not in UNSAFE:
            template = "403.html" if isinstance(error, Forbidden) else "refused.html"
            response = render(request, template, {"exception": error.message}, status=error.status)
            if wait := getattr(error, "retry_after", None):
                response["Retry-After"] = str(wait)
            return response
        messages.error(request, error.message)
        return redirect(urlsplit(page_of(request)).path)  # without the query, which may be what was refused


def _too_many(request: HttpRequest, error: TooManyTries) -> HttpResponseBase:
    context = {
        "exception": error,
        "minutes": ceil(error.retry_after / 60),
        "mails": settings.MAILS_ENABLED,
        "code": request.resolver_match is not None and request.resolver_match.view_name in CODES,
    }
    response = render(request, "429.html", context, status=error.status)
    response["Retry-After"] = str(error.retry_after)
    return response
