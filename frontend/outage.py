"""While the database does not answer: every page says so with 503, asks again by itself, and gives back what was sent."""

import re
import sys
from collections.abc import Callable
from typing import Any

from django.core.exceptions import SuspiciousOperation
from django.core.signals import got_request_exception
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, HttpResponseBase, UnreadablePostError
from django.http.multipartparser import MultiPartParserError
from django.template.loader import render_to_string
from django.utils.cache import add_never_cache_headers
from django.utils.http import escape_leading_slashes

from frontend.context import THEMES
from frontend.doors import LOOKS, is_piece
from gpuaas.core.schema_form import fields_of
from gpuaas.providers.registry import site_kinds

SECONDS = "5"
SECRET = re.compile(r"pass(word|phrase)|secret|credential|kubeconfig|^code$", re.IGNORECASE)


def outage_note(*, request: HttpRequest | None = None, **given: Any) -> None:
    """Wherever in view or middleware it was; what answers the error knows no more than that there was one."""
    del given
    if request is not None and isinstance(sys.exc_info()[1], OperationalError | InterfaceError):
        vars(request)["outage"] = True


got_request_exception.connect(outage_note)


class OutageMiddleware:
    """Outside of everything that asks the database, and inside of what gives answers their headers."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        if response.status_code != 500 or not getattr(request, "outage", False):
            return response
        page = "" if is_piece(request) else _page(request)
        answer = HttpResponse(page, status=503, headers={"Retry-After": SECONDS})
        if page and request.method in LOOKS:
            answer["Refresh"] = SECONDS
        add_never_cache_headers(answer)
        return answer


def _page(request: HttpRequest) -> str:
    """Drawn without the request: what its context asks for is in the database."""
    theme = request.COOKIES.get("theme", "")
    context = {
        "theme": theme if theme in THEMES else "",
        "address": escape_leading_slashes(request.get_full_path()),
        "looked_at": request.method in LOOKS,
        "kept": _kept(request),
    }
    return render_to_string("503.html", context)


def _kept(request: HttpRequest) -> list[tuple[str, str]]:
    """Name and value of all that was sent but files and secrets. Its token against forgery is among them, as it was sent: the
    page makes none, so that a form of another site gets none."""
    try:
        sent = list(request.POST.lists())
    except (SuspiciousOperation, UnreadablePostError, MultiPartParserError):
        return []
    secrets = {leaf.name for kind in site_kinds() for leaf in fields_of(kind.credentials) if leaf.secret}
    return [
        (name, value)
        for name, values in sent
        for value in values
        if not SECRET.search(name) and name not in secrets
    ]
