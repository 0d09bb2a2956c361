"""The one error tree. Services, selectors and drivers raise these; API and pages each translate them in one place.

`code` is stable and machine readable, the message is a sentence for the person who sees it, `detail` contains the
numbers (JSON values only), `status` is the HTTP status of the API.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from math import ceil
from types import TracebackType
from typing import Any, Final

UNKNOWN: Final = "unknown field"


class GpuaasError(Exception):
    code = "error"
    status = 500

    def __init__(
        self,
        message: str,
        *,
        detail: Mapping[str, Any] | None = None,
        fields: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """fields: the messages by the name of the field that they are about ('' for the input itself)."""
        super().__init__(message)
        self.message = message
        self.detail: dict[str, Any] = dict(detail or {})
        self.fields: dict[str, list[str]] = {name: list(texts) for name, texts in (fields or {}).items()}


class Invalid(GpuaasError):
    """Input that can never be accepted."""

    code = "invalid"
    status = 400

    def __init__(self, message: str, *, fields: Mapping[str, Sequence[str]] | None = None) -> None:
        super().__init__(message, detail={"fields": dict(fields)} if fields else None, fields=fields)

    @classmethod
    def field(cls, name: str, message: str) -> "Invalid":
        return cls(message, fields={name: [message]})


class Unauthorized(GpuaasError):
    """Missing or invalid credentials; from a driver: the site refuses our credentials."""

    code = "unauthorized"
    status = 401


class Unusable(Unauthorized):
    """From a driver: the credentials name no site that could be asked, so nothing is known about the site."""


class Forbidden(GpuaasError):
    """The actor knows of it, but the role or token scope does not allow this. An outsider gets NotFound instead."""

    code = "forbidden"
    status = 403


class NotFound(GpuaasError):
    code = "not_found"
    status = 404


class Conflict(GpuaasError):
    """The present state does not allow this."""

    code = "conflict"
    status = 409


class QuotaRefused(Conflict):
    """A limit would be exceeded. detail: scope, scope_name, resource, limit, used, asked, left."""

    code = "quota_exceeded"


class NoCapacity(Conflict):
    """The site does not have room for it now. detail: site, resource, limit (sellable), used, asked, left."""

    code = "no_capacity"


class OnHold(Conflict):
    """Nothing more is given here for now, whatever the limits. detail: scope, scope_name, reason."""

    code = "on_hold"


class StaleVersion(GpuaasError):
    """If-Match named a version that is no longer current."""

    code = "precondition_failed"
    status = 412


class TooManyTries(GpuaasError):
    """Wrong passwords or codes, until this moment. detail: until."""

    code = "throttled"
    status = 429

    def __init__(self, until: datetime, *, now: datetime) -> None:
        self.until = until
        self.retry_after = max(1, ceil((until - now).total_seconds()))
        super().__init__(
            "too many tries to sign in were wrong; wait before the next one",
            detail={"until": until.isoformat()},
        )


class TooManyDownloads(GpuaasError):
    """Each holds a connection to the database, or a file in memory, for as long as its client reads."""

    code = "throttled"
    status = 429
    retry_after = 30


class Unavailable(GpuaasError):
    """A site or service does not answer now; try again after `retry_after` seconds."""

    code = "unavailable"
    status = 503

    def __init__(
        self, message: str, *, retry_after: int = 5, detail: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message, detail=detail)
        self.retry_after = retry_after


class Unconfirmed(Unavailable):
    """Nothing may be changed at a site until an operator has confirmed it, as after a restore of the database."""

    code = "site_unconfirmed"

    def __init__(self, site: str) -> None:
        super().__init__(
            f"the portal changes nothing at {site} until an operator has confirmed the site",
            retry_after=30,
            detail={"next": "An operator compares the site with the portal, and confirms it on its page."},
        )


class Permanent(GpuaasError):
    """The site refuses for good: trying the same again cannot succeed."""

    code = "site_refused"
    status = 502


# The same call may succeed later: the site is away, or its credentials are being changed.
PASSING = (Unavailable, Unauthorized)


class Mistakes:
    """All that is wrong with an input, so that it is named at once. Each `with mistakes:` block may be refused at a field, and
    what follows it is judged as well."""

    def __init__(self) -> None:
        self.found: list[GpuaasError] = []

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not isinstance(error, Invalid | Conflict) or not error.fields:
            return False
        self.found.append(error)
        return True

    @property
    def fields(self) -> dict[str, list[str]]:
        fields: dict[str, list[str]] = {}
        for error in self.found:
            for name, texts in error.fields.items():
                fields.setdefault(name, []).extend(texts)
        return fields

    def refuse(self) -> None:
        """Raises what was found, if anything: Invalid, unless each of them only conflicts with the present state."""
        if not self.found:
            return
        words, first = "; ".join(error.message for error in self.found), self.found[0]
        if any(isinstance(error, Invalid) for error in self.found):
            raise Invalid(words, fields=self.fields) from first
        raise type(first)(words, detail=first.detail, fields=self.fields) from first
