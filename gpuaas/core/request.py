"""Who made the request, as far as the transport knows. Kept in a context variable, so that services need no request
object."""

from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True)
class RequestInfo:
    request_id: str = ""
    ip: str | None = None


current_request: ContextVar[RequestInfo] = ContextVar("current_request", default=RequestInfo())  # noqa: B039  frozen
