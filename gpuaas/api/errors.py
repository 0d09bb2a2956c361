"""One error shape for everything that can go wrong under /api/.

    {"error": {"code", "message", "detail", "fields"?, "request_id"}}

`code` is stable and for programs, `message` is a sentence for people, `detail` carries numbers, `fields` maps a field
of the input (dotted path, "" for the whole) to its sentences.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.core.exceptions import ValidationError as ModelInvalid
from django.core.signals import got_request_exception
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from rest_framework import exceptions
from rest_framework.response import Response

from gpuaas.core.errors import GpuaasError
from gpuaas.core.request import current_request

log = logging.getLogger(__name__)

CHALLENGE = 'Bearer realm="gpuaas"'
INTERNAL = "internal error; quote the request id when you report it"
MALFORMED = "the request is malformed"
NOTHING_HERE = "there is nothing at this address"
UNREACHABLE = "the portal cannot reach its database now; try again in a moment"

PLAIN: dict[int, tuple[str, str]] = {
    401: ("unauthorized", "authentication required: send an API token, or sign in"),
    403: ("forbidden", "this is not allowed"),
    404: ("not_found", NOTHING_HERE),
    405: ("method_not_allowed", "this address does not support the method"),
    406: ("not_acceptable", "this format is not available; see the Accept header"),
    413: ("too_large", "the request body is too large"),
    415: ("unsupported_media_type", "unsupported media type: send JSON"),
    429: ("throttled", "too many requests; try again in a moment"),
    503: ("unavailable", UNREACHABLE),
}

CODES: dict[type[exceptions.APIException], str] = {
    exceptions.ParseError: "malformed",
    exceptions.AuthenticationFailed: "unauthorized",
    exceptions.NotAuthenticated: "unauthorized",
    exceptions.PermissionDenied: "forbidden",
    exceptions.NotFound: "not_found",
    exceptions.MethodNotAllowed: "method_not_allowed",
    exceptions.NotAcceptable: "not_acceptable",
    exceptions.UnsupportedMediaType: "unsupported_media_type",
    exceptions.Throttled: "throttled",
}


class CsrfRefused(exceptions.PermissionDenied):
    """A browser session without the CSRF token; programs use API tokens and need none."""


CODES[CsrfRefused] = "csrf_failed"


class TooLarge(exceptions.APIException):
    status_code = 413
    default_detail = "the request body is too large"


CODES[TooLarge] = "too_large"


def body(
    code: str,
    message: str,
    *,
    detail: Mapping[str, Any] | None = None,
    fields: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, Any]:
    error: dict[str, Any] = {"code": code, "message": message, "detail": dict(detail or {})}
    if fields is not None:
        error["fields"] = {name: list(texts) for name, texts in fields.items()}
    error["request_id"] = current_request.get().request_id
    return {"error": error}


def exception_handler(exc: Exception, context: Mapping[str, Any]) -> Response:
    """DRF's exception hook. It answers every exception, so nothing under /api/ ever renders Django's HTML."""
    response = _answer(exc)
    if response.status_code >= 500 and not isinstance(exc, GpuaasError):
        request = context.get("request")
        log.error("api_failed", exc_info=exc)
        got_request_exception.send(sender=None, request=getattr(request, "_request", request))
    if response.status_code == 401:
        response["WWW-Authenticate"] = CHALLENGE
    return response


def _answer(exc: Exception) -> Response:
    if isinstance(exc, GpuaasError):
        return _domain(exc)
    if isinstance(exc, exceptions.ValidationError):
        return _invalid(fields_of(exc.detail))
    if isinstance(exc, exceptions.APIException):
        return _framework(exc)
    if isinstance(exc, ModelInvalid):
        return _invalid(exc.message_dict if hasattr(exc, "error_dict") else {"": exc.messages})
    if isinstance(exc, Http404):
        return Response(body("not_found", NOTHING_HERE), status=404)
    if isinstance(exc, PermissionDenied):
        return Response(body("forbidden", "this is not allowed"), status=403)
    if isinstance(exc, RequestDataTooBig):
        return _framework(TooLarge())
    if isinstance(exc, SuspiciousOperation):
        return Response(body("malformed", MALFORMED), status=400)
    if isinstance(exc, OperationalError | InterfaceError):
        return Response(body("unavailable", UNREACHABLE), status=503, headers={"Retry-After": "5"})
    return Response(body("internal_error", INTERNAL), status=500)


def _domain(exc: GpuaasError) -> Response:
    detail = {key: value for key, value in exc.detail.items() if key != "fields"}
    retry_after = getattr(exc, "retry_after", None)
    headers = {"Retry-After": str(retry_after)} if retry_after else {}
    return Response(
        body(exc.code, exc.message, detail=detail, fields=exc.fields or None),
        status=exc.status,
        headers=headers,
    )


def _framework(exc: exceptions.APIException) -> Response:
    code = next((CODES[kind] for kind in type(exc).__mro__ if kind in CODES), "error")
    headers: dict[str, str] = {}
    wait = getattr(exc, "wait", None)  # of Throttled
    if wait is not None:
        headers["Retry-After"] = str(max(1, round(wait)))
    return Response(body(code, str(exc.detail)), status=exc.status_code, headers=headers)


def _invalid(fields: Mapping[str, Sequence[str]]) -> Response:
    names = ", ".join(name for name in fields if name)
    message = f"the input is not valid: {names}" if names else "the input is not valid"
    return Response(body("invalid", message, fields=fields), status=400)


def fields_of(detail: Any, path: str = "") -> dict[str, list[str]]:
    """DRF's nested errors as dotted paths: {"items.0.count": ["…"]}."""
    if isinstance(detail, dict):
        found: dict[str, list[str]] = {}
        for key, value in detail.items():
            own = str(key) if key != "non_field_errors" else ""
            found.update(fields_of(value, ".".join(part for part in (path, own) if part)))
        return found
    if isinstance(detail, list | tuple):
        if all(isinstance(text, str) for text in detail):
            return {path: [str(text) for text in detail]} if detail else {}
        nested: dict[str, list[str]] = {}
        for index, value in enumerate(detail):
            nested.update(fields_of(value, f"{path}.{index}" if path else str(index)))
        return nested
    return {path: [str(detail)]}


def body_of_status(status: int) -> dict[str, Any]:
    """Error body for a refusal made outside our views, where only the HTTP status is known."""
    if status in PLAIN:
        return body(*PLAIN[status])
    return body("internal_error", INTERNAL) if status >= 500 else body("malformed", MALFORMED)


@csrf_exempt
def not_found(request: HttpRequest, *args: Any, **kwargs: Any) -> JsonResponse:
    """The last route of /api/: answers 404 to every path that no other route matched, for any method and any caller."""
    return JsonResponse(body_of_status(404), status=404)


def csrf_refused(request: HttpRequest, reason: str = "") -> JsonResponse:
    """`CSRF_FAILURE_VIEW`: without a session there is nobody to protect; the caller lacks credentials, so it is a
    401."""
    if not request.user.is_authenticated:
        return JsonResponse(body_of_status(401), status=401, headers={"WWW-Authenticate": CHALLENGE})
    return JsonResponse(body("csrf_failed", f"CSRF Failed: {reason}"), status=403)
