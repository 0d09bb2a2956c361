"""Cursor pagination: forward only, by a unique key, so that rows added or removed between pages shift nothing.

The cursor is signed and bound to the address: it can neither be forged nor be used for another list.
"""

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from django.core import signing
from django.db.models import Model, QuerySet
from rest_framework.pagination import BasePagination
from rest_framework.request import Request
from rest_framework.utils.urls import replace_query_param

from gpuaas.core.errors import Invalid

PAGE_SIZE = 50


class Cursor(BasePagination):
    """`key` is a unique attribute (dots written `__`); a leading "-" puts the newest first."""

    def __init__(
        self, request: Request, *, key: str, size: int = PAGE_SIZE, cursor: str | None = None
    ) -> None:
        self.request = request
        self.name = key.lstrip("-")
        self.key = key
        self.falling = key.startswith("-")
        self.size = size
        self.cursor = cursor

    def page(self, rows: QuerySet[Any] | Sequence[Any]) -> tuple[list[Any], str | None]:
        """The rows of this page, and the address of the next one; None on the last page."""
        position = self._position()
        rows_of_page = (
            self._query(rows, position) if isinstance(rows, QuerySet) else self._cut(rows, position)
        )
        page = rows_of_page[: self.size]
        more = len(rows_of_page) > self.size
        return page, self._link(self._value(page[-1])) if more else None

    def _query(self, rows: QuerySet[Model], position: str | None) -> list[Any]:
        if position is not None:
            rows = rows.filter(**{f"{self.name}__{'lt' if self.falling else 'gt'}": position})
        return list(rows.order_by(self.key)[: self.size + 1])

    def _cut(self, rows: Sequence[Any], position: str | None) -> list[Any]:
        """For selectors that return computed rows: few, and already in memory."""
        ordered = sorted(rows, key=self._value, reverse=self.falling)
        if position is not None:
            ordered = [
                row
                for row in ordered
                if (self._value(row) < position if self.falling else self._value(row) > position)
            ]
        return ordered[: self.size + 1]

    def _value(self, row: Any) -> str:
        for name in self.name.split("__"):
            row = getattr(row, name)
        return str(row)

    @property
    def _salt(self) -> str:
        return f"cursor:{urlsplit(self.request.path).path}:{self.key}"

    def _position(self) -> str | None:
        if self.cursor is None:
            return None
        try:
            return str(signing.loads(self.cursor, salt=self._salt))
        except signing.BadSignature as error:
            raise Invalid.field(
                "cursor", "this cursor does not belong to this list; start without it"
            ) from error

    def _link(self, position: str) -> str:
        cursor = signing.dumps(position, salt=self._salt)
        return str(replace_query_param(self.request.build_absolute_uri(), "cursor", cursor))
