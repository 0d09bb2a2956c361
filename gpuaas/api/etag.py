"""Versions as ETags: a detail answers with `ETag: "<version>"`, and a change may require it by `If-Match`."""

import re

from django.db.models import Model
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.core.errors import Invalid, StaleVersion

FORM = re.compile(r'\A(?:W/)?"(\d{1,18})"\Z')


def etag(version: int) -> str:
    return f'"{version}"'


def answer(request: Request, *, version: int, data: object) -> Response:
    """200 with the version, or 304 if If-None-Match already names it."""
    known = [part.strip() for part in request.headers.get("If-None-Match", "").split(",")]
    if etag(version) in known or f"W/{etag(version)}" in known:
        return Response(status=304, headers={"ETag": etag(version)})
    return Response(data, headers={"ETag": etag(version)})


def wanted_version(request: Request) -> int | None:
    """The version that If-Match names; None if the header is absent or `*`. One version, not a list."""
    given = request.headers.get("If-Match", "").strip()
    if given in {"", "*"}:
        return None
    match = FORM.match(given)
    if match is None:
        raise Invalid('If-Match must be an ETag of this resource, such as "3"')
    return int(match.group(1))


def hold_version(request: Request, row: Model) -> None:
    """Lock the row for the caller's transaction and compare versions, for services that take no version themselves.

    Raises StaleVersion if If-Match names another version.
    """
    wanted = wanted_version(request)
    if wanted is None:
        return
    rows = type(row)._default_manager.select_for_update().filter(pk=row.pk)
    version = rows.values_list("version", flat=True).first()
    if wanted != version:
        raise StaleVersion(
            "it has changed since you read it; read it again, then decide",
            detail={"version": version, "if_match": wanted},
        )
