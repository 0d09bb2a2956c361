"""Adds a request id to every request, its answer, its logs and its audit rows."""

import re
import uuid
from collections.abc import Callable

import structlog
from django.http import HttpRequest, HttpResponse

from gpuaas.core.request import RequestInfo, current_request

ACCEPTED = re.compile(r"[A-Za-z0-9._-]{8,64}")


class RequestIdMiddleware:
    """Uses X-Request-ID if it is well formed, else creates an id. Services read it through `current_request`."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        given = request.headers.get("X-Request-ID", "")
        request_id = given if ACCEPTED.fullmatch(given) else uuid.uuid4().hex
        info = RequestInfo(request_id=request_id, ip=request.META.get("REMOTE_ADDR") or None)
        token = current_request.set(info)
        vars(request)["request_id"] = request_id
        structlog.contextvars.bind_contextvars(request_id=request_id)
        try:
            response = self.get_response(request)
        finally:
            structlog.contextvars.unbind_contextvars("request_id")
            current_request.reset(token)
        response["X-Request-ID"] = request_id
        return response
