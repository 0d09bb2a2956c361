"""The rows of a list, wherever they come from: sorted by what the address asks, and cut into pages."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.core.paginator import Page, Paginator
from django.db.models import QuerySet


@dataclass(frozen=True)
class Cut:
    """Rows that their selector sorts and cuts: `read(order, most, skipped)` gives `most` of them, None for all, and how many there are,
    which may be 0 where nothing is after `skipped`. `order`: of a column, with a minus in front turned round; empty as they come."""

    read: Callable[[str, int | None, int], tuple[Sequence[Any], int]]
    order: str = ""

    def page(self, number: int, size: int) -> Page[Any]:
        """The last one where there are not so many, or the first where it does not say how many there are."""
        rows, count = self.read(self.order, size, (number - 1) * size)
        if not rows and number > 1:
            return self.page(max(1, -(-count // size)), size)
        return Page(rows, number, Paginator(range(count), size))

    def __iter__(self) -> Iterator[Any]:
        return iter(self.read(self.order, None, 0)[0])

    def __len__(self) -> int:
        return self.read(self.order, 1, 0)[1]


Rows = QuerySet[Any, Any] | Sequence[Any] | Cut


def ordered(rows: Rows, asked: str, columns: Mapping[str, str]) -> Rows:
    """`-key` turns it round; what is equal or no column stays as it comes. Nothing is after everything."""
    column, down = columns.get(asked.lstrip("-"), ""), asked.startswith("-")
    if not column:
        return rows
    if isinstance(rows, Cut):
        return Cut(rows.read, f"-{column}" if down else column)
    if isinstance(rows, QuerySet):
        last = () if rows.query.distinct else ("-pk",)
        return rows.order_by(f"-{column}" if down else column, *last)

    def key(row: Any) -> tuple[bool, Any]:
        value = reached(row, column, "__")
        return (value is None, 0 if value is None else value.casefold() if isinstance(value, str) else value)

    return sorted(rows, key=key, reverse=down)


def reached(row: Any, path: str, mark: str) -> Any:
    """What the names of `path` lead to, attributes, keys or places; None where one before the last is None."""
    for name in path.split(mark):
        if row is not None:
            row = (
                row[int(name)]
                if name.isdecimal()
                else row[name]
                if isinstance(row, Mapping)
                else getattr(row, name)
            )
    return row
