"""The key of our tables; a row of them that has to be there, and as it was read."""

import re
from typing import TypeVar

from django.db import models
from django.db.models.functions import Cast, Substr
from django.db.models.lookups import StartsWith

from gpuaas.core.errors import NotFound, StaleVersion
from gpuaas.core.ids import uuid7, uuids_from

Row = TypeVar("Row", bound=models.Model)
# names of ours at a site have the short id (core/ids.py) in them, which are the last digits of the id as text
AT_SITE = re.compile(r"(?:gpu|c|env|job)-([0-9a-f]{8}(?=-)|[0-9a-f]{4,8}$)")
SHORT_AT = 29


class Identified(models.Model):
    """Rows that are named by an id of ours, the newest last."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)

    class Meta:
        abstract = True


def one_or_none(rows: models.QuerySet[Row]) -> Row | None:
    """Of rows that are named by a key. `first()` would sort them, for which Django compares every column that it reads: half of
    what such a statement costs."""
    return next(iter(rows.order_by()[:1]), None)


def first_of(rows: models.QuerySet[Row], noun: str) -> Row:
    """Raises NotFound where there is none."""
    row = one_or_none(rows)
    if row is None:
        raise NotFound(f"there is no such {noun}")
    return row


def version_require(version: int, expected: int | None, noun: str) -> None:
    """Raises StaleVersion if a row with this `version` is not the one that the caller read; None: it does not matter."""
    if expected not in {None, version}:
        raise StaleVersion(
            f"the {noun} has changed since you read it; read it again", detail={"version": version}
        )


def id_begins(search: str) -> models.Q:
    between = uuids_from(search)
    return models.Q(pk__range=between) if between else models.Q(pk=None)


def searched(
    rows: models.QuerySet[Row], search: str, *, also: models.Q | None = None
) -> models.QuerySet[Row]:
    """Rows whose name contains `search`, or whose id or name at the site begins with it, or that are `also` meant."""
    meant = models.Q(name__icontains=search) | id_begins(search)
    if also is not None:
        meant |= also
    if at_site := AT_SITE.match(search):
        meant |= models.Q(StartsWith(Substr(Cast("pk", models.TextField()), SHORT_AT), at_site[1]))
    return rows.filter(meant)
