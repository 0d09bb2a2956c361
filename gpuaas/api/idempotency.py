"""Idempotency-Key: the same request sent twice is executed once and gets the same answer.

Only successful work is remembered; a refused request changed nothing and may be repeated with the same key.
"""

import hashlib
import json
import re
from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from django.db import OperationalError, connection, transaction
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.models import IdempotencyKey
from gpuaas.core import clock
from gpuaas.core.errors import Conflict, GpuaasError, Invalid
from gpuaas.core.rows import one_or_none
from tenants.models import ApiToken

HEADER = "Idempotency-Key"
KEPT = timedelta(hours=24)
WAIT_SECONDS = 10
UNDER_WAY = "a request with this Idempotency-Key is still running"
FORM = re.compile(r"\A[\x21-\x7e]{1,128}\Z")
REMEMBERED_HEADERS = ("Location", "ETag")
MARK = "handles_idempotency"
LONGEST_REQUEST = timedelta(minutes=5)


class Permitting(Protocol):
    """A view that refuses a repetition, which is answered without its handler, to callers who may not do that any more."""

    def permit(self) -> None: ...


V = TypeVar("V", bound=Permitting)
P = ParamSpec("P")
Handler = Callable[Concatenate[V, Request, P], Response]


class InProgress(Conflict):
    code = "idempotency_in_progress"
    retry_after = 1


class Interrupted(Conflict):
    """Its process ended in the middle: whether the work was done, a program cannot know, so it must not try on by itself."""

    code = "idempotency_interrupted"


class Replayed(Conflict):
    """The first answer contained a secret, which is shown once and never stored."""

    code = "idempotency_replayed"


class Reused(GpuaasError):
    """The key was used before with another body: an error of the caller."""

    code = "idempotency_key_reused"
    status = 422


def idempotent(handler: Handler[V, P]) -> Handler[V, P]:
    """For POSTs whose whole effect is in the database: the key, the work and the answer share one transaction."""

    @wraps(handler)
    def wrapped(self: V, request: Request, /, *args: P.args, **kwargs: P.kwargs) -> Response:
        key = key_of(request)
        if key is None:
            return handler(self, request, *args, **kwargs)
        with transaction.atomic():
            row, first = _take(request, key, secret=False)
            if not first:
                self.permit()
                return _replay(request, row)
            response = handler(self, request, *args, **kwargs)
            _remember(row, response, body=response.data)
            return response

    setattr(wrapped, MARK, True)
    return wrapped


def idempotent_secret(handler: Handler[V, P]) -> Handler[V, P]:
    """For POSTs that answer with a secret (a new token, a kubeconfig): a repetition is refused, not answered.

    No transaction is open around the work, because it may call a site.
    """

    @wraps(handler)
    def wrapped(self: V, request: Request, /, *args: P.args, **kwargs: P.kwargs) -> Response:
        key = key_of(request)
        if key is None:
            return handler(self, request, *args, **kwargs)
        row, first = _take(request, key, secret=True)
        if not first:
            self.permit()
            return _replay(request, row)
        try:
            response = handler(self, request, *args, **kwargs)
        except BaseException:
            row.delete()
            raise
        _remember(row, response, body=None)
        return response

    setattr(wrapped, MARK, True)
    return wrapped


def key_of(request: Request) -> str | None:
    given = request.headers.get(HEADER)
    if given is None:
        return None
    if not FORM.match(given):
        raise Invalid(f"{HEADER} must be 1 to 128 printable ASCII characters without spaces")
    return given


def _caller(request: Request) -> str:
    if isinstance(request.auth, ApiToken):
        return f"token:{request.auth.pk}"
    return f"user:{request.user.pk}"


def _fingerprint(request: Request) -> str:
    """Hash of the parsed request, so that spaces and the order of fields do not matter."""
    text = json.dumps([request.method, request.path, request.data], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _take(request: Request, key: str, *, secret: bool) -> tuple[IdempotencyKey, bool]:
    """The row, and whether this request is the first with the key. Waits for a first request that is still running."""
    caller, now = _caller(request), clock.now()
    fresh = IdempotencyKey(
        caller=caller, key=key, fingerprint=_fingerprint(request), secret=secret, expires_at=now + KEPT
    )
    IdempotencyKey.objects.filter(caller=caller, key=key, expires_at__lte=now).delete()
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL lock_timeout = '{WAIT_SECONDS}s'")
            IdempotencyKey.objects.bulk_create([fresh], ignore_conflicts=True)
            cursor.execute("SET LOCAL lock_timeout TO DEFAULT")
    except OperationalError as error:
        raise InProgress(UNDER_WAY) from error
    row = one_or_none(IdempotencyKey.objects.filter(caller=caller, key=key))
    if row is None:
        raise InProgress(UNDER_WAY)
    return row, row.pk == fresh.pk


def keys_forget() -> int:
    """Those that have expired, with their answers. Returns how many."""
    return IdempotencyKey.objects.filter(expires_at__lte=clock.now()).delete()[0]


def _remember(row: IdempotencyKey, response: Response, *, body: Any) -> None:
    row.status = response.status_code
    row.headers = {name: response[name] for name in REMEMBERED_HEADERS if response.has_header(name)}
    row.body = json.loads(JSONRenderer().render(body)) if body is not None else None
    row.save()


def _replay(request: Request, row: IdempotencyKey) -> Response:
    if row.fingerprint != _fingerprint(request):
        raise Reused("this Idempotency-Key was used for another request; use a new key")
    if row.status is None:
        if clock.now() - (row.expires_at - KEPT) > LONGEST_REQUEST:
            raise Interrupted("the request with this Idempotency-Key was interrupted; use a new key")
        raise InProgress("a request with this Idempotency-Key is still running")
    if row.secret:
        raise Replayed(
            "this request was already executed and its secret shown once; use a new key to create another"
        )
    return Response(row.body, status=row.status, headers={**row.headers, "Idempotency-Replayed": "true"})
