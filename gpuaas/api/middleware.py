"""Gives the one error shape to refusals that are made in front of the views of /api/.

The framework, its middleware and the URL resolver refuse in HTML: an unknown host, a missing CSRF token, a session
that has ended, a failure outside a view. Programs get JSON for all of them.
"""

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase, JsonResponse
from django.shortcuts import resolve_url

from gpuaas.api.errors import CHALLENGE, body, body_of_status

PREFIX = "/api/"
DATA = "/api/v1/"
SHAPE = "application/json"
# of the answer that is given anew; everything else, such as what browsers may do with it, holds for the new one
DROPPED_HEADERS = frozenset(
    {"content-type", "content-length", "content-language", "content-disposition", "location"}
)
REDIRECTS = frozenset({301, 302, 303, 307, 308})
HTTPS = "this was sent without TLS, so nothing was done; send it to the same address by https"


class ApiAnswersMiddleware:
    """Placed outside everything that may refuse, and inside the middleware that assigns the request id."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        if not is_api(request.path):
            return response
        if request.path.startswith(DATA):
            response.headers.setdefault("Cache-Control", "no-store")
        if _loses_its_body(request, response):
            return answer(403, like=response, said=body("https_required", HTTPS))
        status = 401 if _asks_to_sign_in(response) else response.status_code
        if status < 400 or response.headers.get("Content-Type", "").partition(";")[0] == SHAPE:
            return response
        return answer(status, like=response)


def is_api(path: str) -> bool:
    return f"{path}/" == PREFIX or path.startswith(PREFIX)


def answer(
    status: int, *, like: HttpResponseBase | None = None, said: dict[str, Any] | None = None
) -> JsonResponse:
    """The one error shape for a bare status, with the headers of `like` that do not describe its body."""
    shown = JsonResponse(said or body_of_status(status), status=status)
    for name, value in like.items() if like is not None else ():
        if name.lower() not in DROPPED_HEADERS:
            shown[name] = value
    if status == 401:
        shown["WWW-Authenticate"] = CHALLENGE
    if like is not None:
        shown.cookies.update(like.cookies)
        like.close()
    return shown


def _asks_to_sign_in(response: HttpResponseBase) -> bool:
    if response.status_code not in REDIRECTS:
        return False
    return urlsplit(response.headers.get("Location", "")).path == resolve_url(settings.LOGIN_URL)


def _loses_its_body(request: HttpRequest, response: HttpResponseBase) -> bool:
    """A redirect to https, which clients follow by a GET without what they had sent."""
    if response.status_code not in REDIRECTS or request.method in {"GET", "HEAD"} or request.is_secure():
        return False
    return response.headers.get("Location", "").startswith("https:")
