"""Every list by one frame: each column that sorts, up and down; the filters; what is said where nothing matches; the file.

olga reads all of them, those of tenants too. A list without an address here fails the last test.
"""

import csv
import html
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from importlib import import_module
from pkgutil import walk_packages
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from django.db import connection
from django.db.models import QuerySet
from django.test import Client, RequestFactory
from django.test.utils import CaptureQueriesContext

import frontend.views
from frontend.lists import Filter, Listed, Listing
from gpuaas.workspaces.models import Workspace
from tenants.models import User
from tests.frontend.disabled import sentences_of
from tests.frontend.markup import flat, words
from tests.frontend.operator.conftest import signed_in
from tests.frontend.operator.listing_stage import everything_twice
from tests.lasting import lasting

PARTS = 4
LISTS = {
    "/p/weather-lm/workspaces/": 1,
    "/p/weather-lm/clusters/": 1,
    "/p/weather-lm/members/": 1,
    "/p/weather-lm/tokens/": 1,
    "/p/weather-lm/audit/": 1,
    "/p/weather-lm/workspaces/{room}/machines/": 1,
    "/p/weather-lm/workspaces/{old}/history/": 4,
    "/p/weather-lm/workspaces/{old}/access/": 2,
    "/p/weather-lm/workspaces/{old}/gpus/": 1,
    "/p/weather-lm/workspaces/{old}/queue/": 1,
    "/p/weather-lm/clusters/{cluster}/objects/": 1,
    "/p/weather-lm/clusters/{cluster}/access/": 2,
    "/p/weather-lm/clusters/{cluster}/jobs/": 1,
    "/p/weather-lm/clusters/{cluster}/policies/": 1,
    "/p/weather-lm/clusters/new/": 1,
    "/p/weather-lm/limits/": 1,
    "/p/weather-lm/volumes/": 1,
    "/p/weather-lm/environments/": 1,
    "/p/weather-lm/environments/{environment}/access/": 1,
    "/p/weather-lm/environments/{environment}/files/": 1,
    "/p/weather-lm/jobs/": 1,
    "/p/weather-lm/jobs/{job}/": 1,
    "/p/weather-lm/jobs/templates/": 1,
    "/p/weather-lm/data-credentials/": 1,
    "/p/weather-lm/budgets/": 1,
    "/p/weather-lm/usage/{old}/": 1,
    "/p/weather-lm/usage/": 1,
    "/p/weather-lm/usage/?by=type": 1,
    "/p/weather-lm/costs/?by=workspace": 1,
    "/o/climate/costs/?by=gpu_type": 1,
    "/p/weather-lm/costs/intervals/": 1,
    "/o/climate/": 2,
    "/o/climate/budgets/": 1,
    "/o/climate/invoices/": 2,
    "/o/climate/ledger/": 1,
    "/o/climate/prices/": 2,
    "/o/climate/reserved-pools/": 1,
    "/account/": 2,
    "/account/keys/": 1,
    "/operator/sites/": 1,
    "/operator/sites/at/ber-1/nodes/": 1,
    "/operator/sites/at/ber-1/nodes/h100-01/": 1,
    "/operator/sites/at/ber-1/storage/": 1,
    "/operator/sites/at/ber-1/hosts/": 1,
    "/operator/sites/at/ber-1/drift/": 1,
    "/operator/sites/at/ber-1/metering/": 2,
    "/operator/sites/at/ber-1/adoption/": 2,
    "/operator/sites/at/ber-1/adoption/plans/{plan}/": 1,
    "/operator/capacity/": 2,
    "/operator/system/": 4,
    "/operator/utilization/": 1,
    "/operator/flavors/": 1,
    "/operator/gpu-types/": 1,
    "/operator/environment-kinds/": 1,
    "/operator/environment-kinds/of/notebook/": 1,
    "/operator/workspaces/": 1,
    "/operator/clusters/": 1,
    "/operator/clusters/without-proof/": 1,
    "/operator/cluster-templates/": 1,
    "/operator/cluster-templates/of/{template}/": 1,
    "/operator/cluster-templates/of/{template}/warm-pools/": 1,
    "/operator/organizations/": 1,
    "/operator/organizations/climate/": 2,
    "/operator/people/": 2,
    "/operator/people/{person}/": 1,
    "/operator/audit/": 1,
    "/operator/limits/": 1,
    "/operator/budgets/": 1,
    "/operator/invoices/": 1,
    "/operator/usage/": 3,
    "/operator/usage-imports/": 1,
    "/operator/usage-imports/at/{batch}/": 1,
    "/operator/closes/": 1,
    "/operator/reservations/": 1,
    "/operator/rates/": 1,
    "/operator/rates/prices/": 1,
    "/operator/rates/at/{card}/": 1,
    "/operator/rates/drafts/{draft}/?preview=1": 2,
    "/operator/organizations/climate/billing/": 2,
    "/operator/organizations/climate/credits/": 2,
}


@dataclass(frozen=True)
class Page:
    text: str
    lists: list[Listed]


@dataclass
class Pages:
    """Each asked for once: all tests here share them, as they only read."""

    client: Client
    full: dict[str, str]
    found: dict[str, Page] = field(default_factory=dict)

    def __deepcopy__(self, memo: object) -> "Pages":
        return self

    def of(self, address: str, **asked: str) -> Page:
        key = f"{address} {asked}"
        if key not in self.found:
            answer = looked_at(self.client, address, **asked)
            assert answer.status_code == 200, address
            self.found[key] = Page(answer.content.decode(), listed_of(answer))
        return self.found[key]


@pytest.fixture
@lasting
def full(workspace: Workspace, alice: User, olga: User, bob: User, charlie: User) -> dict[str, str]:
    return everything_twice(workspace, alice=alice, olga=olga, bob=bob)


@pytest.fixture
@lasting
def pages(full: dict[str, str], olga: User) -> Pages:
    return Pages(signed_in(olga), full)


def looked_at(client: Client, address: str, **asked: str) -> Any:
    """The page, asked for more than its address says."""
    query = urlencode(asked)
    return client.get(f"{address}{'&' if '?' in address else '?'}{query}" if query else address)


def listed_of(page: Any) -> list[Listed]:
    known = {id(names): names for context in page.context for names in context.dicts}  # contexts share them
    found = (each for names in known.values() for each in names.values() if isinstance(each, Listed))
    return list({id(each): each for each in found}.values())


def asked_anew(listed: Listed, **asked: str) -> Listed:
    mark = listed.listing.mark
    return replace(
        listed, request=RequestFactory().get("/", {mark + name: text for name, text in asked.items()})
    )


def table_of(answer: Any) -> list[dict[str, str]]:
    assert answer["Content-Type"].startswith("text/csv")
    return list(csv.DictReader(io.StringIO(answer.getvalue().decode())))


def file_of(listed: Listed, **asked: str) -> list[dict[str, str]]:
    return table_of(asked_anew(listed, **asked).file())


def rows_drawn(text: str, listed: Listed) -> int:
    """Of that list, in the page; rows that only explain the one above and totals do not count."""
    region = text[text.index(f'id="{listed.id}"') :]
    region = region[: region.index('class="g-pager"')]
    if "data-rows" not in region:
        return len(re.findall(r"<[a-z]+[^>]* data-row\b", region))
    body = region[region.index("<tbody>") : region.index("</table>")].partition("<tfoot>")[0]
    return len(re.findall(r'<th scope="row"', body))


@pytest.fixture(params=range(PARTS))
def part(request: pytest.FixtureRequest) -> int:
    """So many tests of each kind, so that none takes long."""
    number: int = request.param
    return number


def each_list(pages: Pages, part: int | None = None) -> Iterator[tuple[str, Listed]]:
    for number, (pattern, count) in enumerate(LISTS.items()):
        if part not in {None, number % PARTS}:
            continue
        address = pattern.format(**pages.full)
        page = pages.of(address)
        sentences_of(page.text)
        assert len(page.lists) == count, (address, page.lists)
        yield from ((address, each) for each in page.lists)


def test_each_column_sorts_up_and_down(subtests: pytest.Subtests, pages: Pages, part: int) -> None:
    for address, listed in each_list(pages, part):
        for column in listed.columns:
            if column.order:
                with subtests.test(address=address, column=column.key):
                    up = [row[column.key] for row in file_of(listed, sort=column.key)]
                    down = [row[column.key] for row in file_of(listed, sort=f"-{column.key}")]
                    assert up == down[::-1], "one is the other turned round"


def test_the_head_says_how_the_rows_are_sorted_and_turns_them_round(
    subtests: pytest.Subtests, olga_at: Client, pages: Pages, part: int
) -> None:
    for address, listed in each_list(pages, part):
        with subtests.test(address=address):
            column = next((each for each in listed.columns if each.order), None)
            if column is None:
                continue
            name = f"{listed.listing.mark}sort"
            text = words(looked_at(olga_at, address, **{name: column.key, "kept": "yes"}))
            region = text[text.index(f'id="{listed.id}"') :].partition('class="g-pager"')[0]
            if (
                "g-sort" not in region
            ):  # no table: the order is chosen in the bar, which so few rows may not have
                chosen = re.search(rf'<option value="{column.key}"[^>]* selected', text)
                assert chosen or f'name="{name}"' not in text
                continue
            (way,) = re.findall(r'aria-sort="ascending"><a class="g-sort" href="([^"]+)"', text)
            before = dict(parse_qsl(urlsplit(address).query))
            assert dict(parse_qsl(html.unescape(way)[1:])) == {
                **before,
                "kept": "yes",
                name: f"-{column.key}",
            }


def test_the_file_is_what_is_shown(
    subtests: pytest.Subtests, olga_at: Client, pages: Pages, part: int
) -> None:
    for address, listed in each_list(pages, part):
        with subtests.test(address=address, what=listed.listing.what):
            first = next(each for each in listed.columns if each.value is not None)
            text = pages.of(address).text
            found = table_of(looked_at(olga_at, address, **{f"{listed.listing.mark}csv": "1"}))
            if listed.page.has_other_pages():
                assert (
                    len(found) == listed.page.paginator.count > len(listed.rows) == rows_drawn(text, listed)
                )
                continue
            assert len(found) == len(listed.rows) > 0
            if address == "/operator/limits/":
                continue  # a row of the file is a cell of the matrix
            assert rows_drawn(text, listed) == len(listed.rows) == listed.page.paginator.count
            assert listed.file_url.replace("&", "&amp;") in text
            assert [row[first.key].lstrip("'") for row in found] == [
                _said(first.told(row)) for row in listed.rows
            ]


def _said(value: object) -> str:
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def unmatched(pages: Pages, address: str, listed: Listed, searched: Filter) -> str:
    mark = listed.listing.mark
    return pages.of(address, **{mark + searched.name: "zzz", f"{mark}sort": "x"}).text


def test_what_matches_nothing_says_which_filter_to_lift(
    subtests: pytest.Subtests, pages: Pages, part: int
) -> None:
    for address, listed in each_list(pages, part):
        mark, count = listed.listing.mark, listed.page.paginator.count
        for each in listed.listing.filters:
            if each.kind == "search":
                with subtests.test(address=address, filter=each.name):
                    text = html.unescape(flat(unmatched(pages, address, listed, each)))
                    assert (f"No {listed.listing.what} match" in text) is True
                    assert (f"{each.label}: <b>zzz</b>" in text) is True
                    assert (f"Without {each.label}: {count}<" in text) is True
                    (way,) = re.findall(r'<a class="btn btn-primary" href="([^"]+)">\s*Without', text)
                    before = dict(parse_qsl(urlsplit(address).query))
                    assert dict(parse_qsl(way[1:])) == {**before, f"{mark}sort": "x"}, "the order stays"
                    assert file_of(listed, **{each.name: "zzz"}) == []


def test_rows_without_filters_of_their_own_are_found_by_what_they_say(
    subtests: pytest.Subtests, pages: Pages, part: int
) -> None:
    for address, listed in each_list(pages, part):
        if callable(listed.source):
            continue
        with subtests.test(address=address, what=listed.listing.what):
            every = file_of(listed)
            names = {
                each.key
                for each in listed.columns
                if each.value is not None and (each.order or not in_sql(listed))
            }
            for name in names & every[0].keys():
                text = every[0][name].lstrip("'")[:10]
                found = file_of(listed, q=text.upper())
                assert every[0] in found, name
                assert [row for row in every if row in found] == found, "as sorted before"


def in_sql(listed: Listed) -> bool:
    return isinstance(listed.source, QuerySet)


class Lost(HTMLParser):
    """The filter bars whose part of the page fetches itself from an address that they do not change."""

    VOID = frozenset({"br", "col", "hr", "img", "input", "link", "meta", "source", "wbr"})

    def __init__(self) -> None:
        super().__init__()
        self.above: list[tuple[str, dict[str, str | None]]] = []
        self.bars: list[str] = []
        self.lost: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag == "form" and found.get("class") == "g-toolbar":
            self.bars.append(str(found["hx-target"]))
            alone = [f"#{each.get('id')}" for _, each in self.above if "hx-get" in each]
            self.lost += [str(found["hx-target"])] if alone not in ([], [found["hx-target"]]) else []
        if tag not in self.VOID:
            self.above.append((tag, found))

    def handle_endtag(self, tag: str) -> None:
        while self.above and self.above.pop()[0] != tag:
            pass


def test_what_is_filtered_stays_so_where_its_part_of_the_page_fetches_itself(
    subtests: pytest.Subtests, pages: Pages, part: int
) -> None:
    for address, listed in each_list(pages, part):
        for each in listed.listing.filters:
            if each.kind == "search":
                with subtests.test(address=address, filter=each.name):
                    page = Lost()
                    page.feed(unmatched(pages, address, listed, each))
                    assert page.bars
                    assert page.lost == []


def test_sorting_asks_no_more(subtests: pytest.Subtests, olga_at: Client, pages: Pages, part: int) -> None:
    for address, listed in each_list(pages, part):
        with subtests.test(address=address):
            column = next((each for each in reversed(listed.columns) if each.order), listed.columns[0])
            plain = _queries(olga_at, address)
            assert _queries(olga_at, address, **{f"{listed.listing.mark}sort": column.key}) <= plain


def _queries(client: Client, address: str, **asked: str) -> int:
    with CaptureQueriesContext(connection) as found:
        assert looked_at(client, address, **asked).status_code == 200
    return len(found)


def test_nonsense_sorts_and_filters_nothing(
    subtests: pytest.Subtests, olga_at: Client, pages: Pages, part: int
) -> None:
    for address, listed in each_list(pages, part):
        with subtests.test(address=address):
            mark = listed.listing.mark
            page = looked_at(olga_at, address, **{f"{mark}sort": "password", f"{mark}page": "x"})
            assert [one.page.paginator.count for one in listed_of(page) if one.listing is listed.listing] == [
                listed.page.paginator.count
            ]


def test_every_list_has_an_address_here(pages: Pages) -> None:
    shown = {id(listed.listing) for _, listed in each_list(pages)}
    assert {name for name, found in declared() if id(found) not in shown} == set()


def declared() -> Sequence[tuple[str, Listing]]:
    found = []
    for info in walk_packages(frontend.views.__path__, "frontend.views."):
        module = import_module(info.name)
        found += [
            (f"{info.name}.{name}", each) for name, each in vars(module).items() if isinstance(each, Listing)
        ]
    return found
