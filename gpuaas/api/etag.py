"""Versions as ETags: a detail answers with `ETag: "<version>"`, and a change may ask `If-Match` that it still holds."""

import re

from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.core.errors import Invalid, StaleVersion

FORM = re.compile(r'\A(?:W/)?"(\d{1,18})"\Z')


def etag(version: int) -> str:
    return f'"{version}"'


def answer(request: Request, *, version: int, data: object) -> Response:
    """200 with the version, or 304 where If-None-Match already has it."""
    known = [part.strip() for part in request.headers.get("If-None-Match", "").split(",")]
    if etag(version) in known or f"W/{etag(version)}" in known:
        return Response(status=304, headers={"ETag": etag(version)})
    return Response(data, headers={"ETag": etag(version)})


def wanted_version(request: Request) -> int | None:
    """The version that If-Match names; None where the header is absent or `*`. One version, not a list."""
    given = request.headers.get("If-Match", "").strip()
    if given in {"", "*"}:
        return None
    match = FORM.match(given)
    if match is None:
        raise Invalid('If-Match must be an ETag of this resource, such as "3"')
    return int(match.group(1))


def require_version(request: Request, *, version: int) -> None:
    """Raises StaleVersion where If-Match names another one."""
    wanted = wanted_version(request)
    if wanted is not None and wanted != version:
        raise StaleVersion(
            "it has changed since you read it; read it again and decide anew",
            detail={"version": version, "if_match": wanted},
        )
