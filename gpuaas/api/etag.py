"""Versions as ETags: a detail answers with `ETag: "<version>-<digest of the answer>"`, a change with `ETag: "<version>"`; a change
may require the version of either by `If-Match`."""

import hashlib
import re

from django.db.models import Model
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.core.errors import Invalid, StaleVersion

DIGEST = 16  # letters
FORM = re.compile(rf'\A(?:W/)?"(\d{{1,18}})(?:-[0-9a-f]{{{DIGEST}}})?"\Z')


def etag(version: int) -> str:
    return f'"{version}"'


def answer(request: Request, *, version: int, data: object) -> Response:
    """200, or 304 if If-None-Match names this very answer: what is observed of a row changes without its version."""
    digest = hashlib.sha256(JSONRenderer().render(data)).hexdigest()[:DIGEST]
    headers = {"ETag": f'"{version}-{digest}"'}
    known = request.headers.get("If-None-Match", "").split(",")
    if headers["ETag"] in (part.strip().removeprefix("W/") for part in known):
        return Response(status=304, headers=headers)
    return Response(data, headers=headers)


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
