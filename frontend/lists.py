"""Lists that are filtered, sorted and read page by page: what the address asks for, and the rows that follow from it.

A list is declared once; `{% listing list %}` draws the bar, head, pages, the link to the file and what is said where nothing
matches, `list_page` answers the page or the file:

    LIST = Listing("tokens", columns=(Column("name", "Token", "name"), Column("made", "Made", "created_at")), filters=(FIND,))

    shown = LIST.of(request, lambda query: tokens_for(**here.given).filter(name__icontains=query["q"]))
    return list_page(request, "tokens/index.html", shown, {"crumbs": …})
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import islice
from operator import or_
from typing import Any, NamedTuple, TypeVar

from django.core.paginator import Page, Paginator
from django.db.models import Func, IntegerField, Model, Q, QuerySet, Subquery, TextChoices
from django.http import HttpRequest, HttpResponseBase

from billing.exports import rows_csv
from frontend.frame import draw_page, number_of
from frontend.rows import Cut, Rows, ordered, reached
from gpuaas.core.streams import csv_streamed

M = TypeVar("M", bound=Model)
T = TypeVar("T")
ROWS, TYPED, OFFERED, FEW, CHUNK = 50, 100, 100, 10, 1000
SORT, ALL, FILE = "sort", "all", "csv"
Choices = Iterable[Any] | None


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


def named(rows: QuerySet[M], text: str, *columns: str) -> QuerySet[M]:
    """Those with the text in one of the columns."""
    found = (Q(**{f"{column}__icontains": text}) for column in columns)
    return rows.filter(reduce(or_, found)) if text else rows


def saying(rows: Iterable[T], text: str, said: Callable[[T], str]) -> list[T]:
    """The same of rows that are no query."""
    return [row for row in rows if text.lower() in said(row).lower()]


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
    """Rows that all stand on the first page are not counted by a statement of their own."""
    pages = Paginator(rows, size)
    asked = request.GET.get(parameter, "1")
    if asked != "1" or not isinstance(rows, QuerySet):
        return pages.get_page(asked)
    found = list(rows[: size + 1])
    if len(found) <= size:
        pages.count = len(found)
    page = pages.page(1)
    page.object_list = found[:size]
    return page


def some_of(rows: QuerySet[M], most: int | None) -> tuple[list[M], int]:
    """The first rows, and how many there are; one query. Where there are more, the page says so and links to all of them."""
    if most is None:
        found = list(rows)
        return found, len(found)
    # a window would read every column of all rows, and those of what is joined, only to count them
    counted = rows.order_by().values(of_all=Func("pk", function="COUNT", output_field=IntegerField()))
    found = list(rows.annotate(of_all=Subquery(counted))[:most])
    return found, found[0].of_all if found else 0  # type: ignore[attr-defined]


def page_asked(request: HttpRequest, parameter: str = "page") -> int:
    """The page that the address asks of rows which are read a page at a time; nonsense is the first."""
    number = number_of(request.GET.get(parameter, ""))
    return number if number and number < 10**6 else 1


def offered(choices: QuerySet[M, T] | Sequence[T]) -> list[T] | None:
    """What a filter lets choose from; None where that is too much to be drawn, so that it is typed."""
    found = list(choices[: OFFERED + 1])
    return found if len(found) <= OFFERED else None


@dataclass(frozen=True)
class Column:
    """`key` is its name in the address and in the file. `order`: the field that it is sorted by, through relations with `__`;
    empty where it is not, as for what is worked out for the rows shown.

    `value`: what the file says of a row, a path with dots or a function, the attribute `key` where nothing is said; None
    for a column that is not in the file. Without a label it is only in the file.
    """

    key: str
    label: str = ""
    order: str = ""
    value: str | Callable[[Any], object] | None = ""
    numeric: bool = False
    quiet: bool = False  # its label is read out and not drawn

    def told(self, row: Any) -> object:
        return self.value(row) if callable(self.value) else reached(row, self.value or self.key, ".")


@dataclass(frozen=True)
class Filter:
    """One choice, or with `kind` a text that is searched for, a day, or a box. `every` stands for no choice."""

    name: str
    label: str
    every: str = ""
    choices: Choices = ()
    kind: str = "choice"

    def word(self, text: str, choices: Choices) -> str:
        """What was chosen, as the bar calls it."""
        return next(
            (str(each[1]) for each in choices or () if isinstance(each, tuple) and each[0] == text), text
        )


def find(every: str = "Find by name", label: str = "Name", name: str = "q") -> Filter:
    return Filter(name, label, every, kind="search")


@dataclass(frozen=True)
class Set:
    """A filter that is set, with the address without it, and how many rows there are then."""

    label: str
    value: str
    remove_url: str
    count: int


class Head(NamedTuple):
    label: str
    url: str
    direction: str
    numeric: bool = False
    quiet: bool = False


@dataclass(frozen=True)
class Listing:
    """`what` its rows are, in the plural; `mark` goes before the names in the address of a page's second list.
    Rows that no filter is declared for are found by what their columns say."""

    what: str
    columns: tuple[Column, ...]
    filters: tuple[Filter, ...] = (find("Find in this list", "Text"),)
    size: int = ROWS
    mark: str = ""

    def of(
        self,
        request: HttpRequest,
        rows: Rows | Callable[[Query], Rows],
        present: Callable[[list[Any]], Iterable[Any]] = list,
        *,
        without: Collection[str] = (),
        labels: Mapping[str, str] | None = None,
        page_url: str = "",
        **choices: Choices,
    ) -> "Listed":
        """`rows` by what the filters ask; `present` makes what is drawn of a page, or of a part of the file, in a constant
        number of queries. `without` leaves columns out, `labels` names some anew, `choices` are those of a filter,
        `page_url` is the page's where forms with other addresses draw it too."""
        return Listed(self, request, rows, present, without, labels or {}, choices, page_url)


@dataclass(frozen=True)
class Listed:
    """A list as one reader asks for it."""

    listing: Listing
    request: HttpRequest
    source: Rows | Callable[[Query], Rows]
    present: Callable[[list[Any]], Iterable[Any]]
    without: Collection[str]
    labels: Mapping[str, str]
    choices: Mapping[str, Choices]
    page_url: str

    @property
    def id(self) -> str:
        return f"{self.listing.what.replace(' ', '-')}-list"

    @cached_property
    def query(self) -> Query:
        names = [each.name for each in self.listing.filters]
        found = query_of(self.request, *(self.listing.mark + name for name in (*names, SORT)))
        return Query((name.removeprefix(self.listing.mark), text) for name, text in found.items())

    @property
    def filtered(self) -> bool:
        return self.query.filtered

    @property
    def page_name(self) -> str:
        return f"{self.listing.mark}page"

    @property
    def sort_name(self) -> str:
        return f"{self.listing.mark}{SORT}"

    @cached_property
    def columns(self) -> list[Column]:
        return [each for each in self.listing.columns if each.key not in self.without]

    @cached_property
    def found(self) -> Rows:
        return self._narrowed(self.query)

    def _narrowed(self, query: Query) -> Rows:
        """By the source's own filters; where it has none by the text, which is looked for in SQL or in what the file says of a row."""
        orders = {each.key: each.order for each in self.columns if each.order}
        source, text = self.source, query.get("q", "")
        rows = ordered(source(query) if callable(source) else source, query[SORT], orders)
        if callable(source) or not text:
            return rows
        if isinstance(rows, QuerySet):
            return named(rows, text, *orders.values())
        every = list(rows)
        cells = [[str(each.told(drawn)) for each in self._filed] for drawn in self.present(every)]
        return [
            row for row, said in zip(every, cells, strict=True) if text.lower() in "\n".join(said).lower()
        ]

    @cached_property
    def _filed(self) -> list[Column]:
        return [each for each in self.columns if each.value is not None]

    @cached_property
    def page(self) -> Page[Any]:
        found, size = self.found, self.listing.size
        if isinstance(found, Cut):
            return found.page(page_asked(self.request, self.page_name), size)
        return paged(self.request, found, size, self.page_name)

    @cached_property
    def rows(self) -> list[Any]:
        return list(self.present(list(self.page.object_list)))

    @property
    def shows(self) -> bool:
        """Whether there is something to draw: rows, or the filter that lets none through."""
        return self.filtered or bool(self.page.paginator.count)

    @property
    def barred(self) -> bool:
        """Whether a bar of filters stands above: to search among a few rows needs none."""
        filters = self.listing.filters
        return len(filters) > 1 or (bool(filters) and (self.filtered or self.page.paginator.count > FEW))

    @property
    def heads(self) -> list[Head]:
        return [self._head(each) for each in self.columns if each.label]

    @property
    def sorts(self) -> list[tuple[str, str]]:
        """The orders to choose from, where no heads sort."""
        ways = (("", "ascending"), ("-", "descending"))
        some = [each for each in self.columns if each.order and each.label]
        return [(f"{mark}{each.key}", f"{each.label}, {way}") for each in some for mark, way in ways]

    @property
    def offers(self) -> list[tuple[Filter, str, str, Choices]]:
        """Each filter with its name in the address, what is set, and its choices."""
        mark = self.listing.mark
        return [
            (each, mark + each.name, self.query[each.name], self.choices.get(each.name, each.choices))
            for each in self.listing.filters
        ]

    @property
    def kept(self) -> list[tuple[str, str]]:
        """What else the address says, which a filter leaves as it is."""
        mark = self.listing.mark
        own = {mark + each.name for each in self.listing.filters} | {f"{mark}page", f"{mark}{FILE}"}
        return [(name, text) for name, texts in self.request.GET.lists() if name not in own for text in texts]

    @cached_property
    def set(self) -> list[Set]:
        """The filters that are set. Asked for only where nothing matches: each costs a query."""
        found = []
        for each, name, text, choices in self.offers:
            if text:
                less = Query({**self.query, each.name: ""})
                rows = self._narrowed(less)
                count = rows.count() if isinstance(rows, QuerySet) else len(rows)
                found.append(Set(each.label, each.word(text, choices), self.address(**{name: ""}), count))
        return found

    @property
    def helps(self) -> Set | None:
        """The filter without which most is found; None where one alone does not help."""
        best = max(self.set, key=lambda one: one.count, default=None)
        return best if best is not None and best.count else None

    @property
    def all_url(self) -> str:
        return self.address(**{name: "" for _, name, _, _ in self.offers})

    @property
    def file_url(self) -> str:
        return self.address(**{self.listing.mark + FILE: "1"})

    def address(self, **changed: str) -> str:
        """This one, changed, on the first page; what is empty is left out."""
        query = self.request.GET.copy()
        for name, text in {f"{self.listing.mark}page": "", **changed}.items():
            query.pop(name, None)
            if text:
                query[name] = text
        is_here = self.page_url == self.request.path and "HX-Request" not in self.request.headers
        return f"{'' if is_here else self.page_url}?{query.urlencode()}"

    @property
    def wanted_as_file(self) -> bool:
        return self.listing.mark + FILE in self.request.GET

    def file(self) -> HttpResponseBase:
        """Exactly what is shown, of all pages: the same filters in the same order."""
        name = self.listing.what.replace(" ", "-")
        return csv_streamed(self.request, rows_csv(self._cells()), name=name)

    def _cells(self) -> Iterator[Sequence[object]]:
        yield [each.key for each in self._filed]
        rows = self.found
        each_row = iter(rows.iterator(chunk_size=CHUNK) if isinstance(rows, QuerySet) else rows)
        while part := list(islice(each_row, CHUNK)):
            for row in self.present(part):
                yield [column.told(row) for column in self._filed]

    def _head(self, column: Column) -> Head:
        label = self.labels.get(column.key, column.label)
        if not column.order:
            return Head(label, "", "", column.numeric, column.quiet)
        return self.head(column.key, label, numeric=column.numeric, quiet=column.quiet)

    def head(self, key: str, label: str, *, numeric: bool = False, quiet: bool = False) -> Head:
        """Of what is sorted by that key; numbers begin with the largest."""
        asked = {key: "ascending", f"-{key}": "descending"}
        direction = asked.get(self.query[SORT], "none")
        down = direction == "ascending" or (numeric and direction == "none")
        url = self.address(**{self.sort_name: f"-{key}" if down else key})
        return Head(label, url, direction, numeric, quiet)


def list_page(
    request: HttpRequest,
    template: str,
    listed: Listed,
    context: Mapping[str, Any],
    *others: Listed,
    refused: bool = False,
) -> HttpResponseBase:
    """The page, where the list is `list`; or the file of whichever list the address asks it of."""
    for each in (listed, *others):
        if each.wanted_as_file:
            return each.file()
    return draw_page(request, template, {"list": listed, **context}, refused=refused)
