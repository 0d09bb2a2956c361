"""The key of our tables; a row of them that has to be there, and as it was read."""

from typing import TypeVar

from django.db import models

from gpuaas.core.errors import NotFound, StaleVersion
from gpuaas.core.ids import uuid7

Row = TypeVar("Row", bound=models.Model)


class Identified(models.Model):
    """Rows that are named by an id of ours, the newest last."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)

    class Meta:
        abstract = True


def first_of(rows: models.QuerySet[Row], noun: str) -> Row:
    """Raises NotFound where there is none."""
    row = rows.first()
    if row is None:
        raise NotFound(f"there is no such {noun}")
    return row


def version_require(version: int, expected: int | None, noun: str) -> None:
    """Raises StaleVersion if a row with this `version` is not the one that the caller read; None: it does not matter."""
    if expected not in {None, version}:
        raise StaleVersion(
            f"the {noun} has changed since you read it; read it again", detail={"version": version}
        )
