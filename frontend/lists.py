"""Lists that are filtered, sorted and read page by page: what the address asks for, and the rows that follow from it."""

from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime
from typing import Any, TypeVar

from django.core.paginator import Page, Paginator
from django.db.models import Model, QuerySet, TextChoices
from django.http import HttpRequest

from billing.months import month_of, month_parse
from gpuaas.core.errors import Invalid

M = TypeVar("M", bound=Model)
T = TypeVar("T")
ROWS, TYPED, OFFERED = 50, 100, 100
SORT, ALL = "sort", "all"


class Query(dict[str, str]):
    """What is asked of a list, by name, as it was typed; nonsense filters nothing (a page is not an API)."""

    @property
    def filtered(self) -> bool:
        return any(text for name, text in self.items() if name != SORT)

    @property
    def shown(self) -> dict[str, Any]:
        """What the filter bar of a page draws."""
        return {"query": self, "filtered": self.filtered}

    def one_of(self, name: str, known: Collection[str]) -> str:
        return self[name] if self[name] in known else ""


def query_of(request: HttpRequest, *names: str) -> Query:
    return Query((name, request.GET.get(name, "").replace("\x00", "").strip()[:TYPED]) for name in names)


def narrowed(rows: QuerySet[M], query: Query, columns: Mapping[str, str]) -> QuerySet[M]:
    """By every filter of `columns` that something was typed for."""
    return rows.filter(**{column: query[name] for name, column in columns.items() if query[name]})


def sorted_by(rows: QuerySet[M], query: Query, columns: Mapping[str, str]) -> QuerySet[M]:
    """`-name` turns it round; what is no column leaves the rows as they come."""
    asked = query[SORT]
    column = columns.get(asked.lstrip("-"))
    if not column:
        return rows
    return rows.order_by(f"-{column}" if asked.startswith("-") else column, "-pk")


def states_of(query: Query, states: type[TextChoices], live: Collection[Any]) -> list[Any]:
    """The one that is named; else what is not deleted, unless everything is asked for."""
    asked = query["state"]
    if asked in states.values:
        return [states(asked)]
    return list(states) if asked == ALL else list(live)


def state_choices(states: type[TextChoices]) -> list[tuple[str, str]]:
    return [(state.value, str(state.label)) for state in states] + [(ALL, "with deleted ones")]


def paged(
    request: HttpRequest, rows: QuerySet[M, Any] | Sequence[T], size: int = ROWS, parameter: str = "page"
) -> Page[Any]:
    return Paginator(rows, size).get_page(request.GET.get(parameter))


def page_asked(request: HttpRequest) -> int:
    """The page that the address asks of rows which are read a page at a time; nonsense is the first."""
    number = request.GET.get("page", "")
    return int(number) if number.isdecimal() and 0 < int(number[:9]) < 10**6 else 1


def page_of(number: int, count: int, size: int = ROWS) -> Page[int]:
    """Of so many rows, none of which it has."""
    return Paginator(range(count), size).get_page(number)


def offered(choices: QuerySet[M, T] | Sequence[T]) -> list[T] | None:
    """What a filter lets choose from; None where that is too much to be drawn, so that it is typed."""
    found = list(choices[: OFFERED + 1])
    return found if len(found) <= OFFERED else None


def month_asked(request: HttpRequest, now: datetime) -> date:
    """The month of the query; the running one where it says nothing, nonsense or the future."""
    try:
        return min(month_parse(request.GET.get("month", "")), month_of(now))
    except Invalid:
        return month_of(now)
