"""What an address asks of a list, and the rows that follow from it. The SQL is looked at, not run."""

from datetime import UTC, date, datetime
from string import ascii_lowercase
from typing import Any

import pytest
from django.db.models import QuerySet
from django.test import RequestFactory

from frontend.lists import (
    Column,
    Filter,
    Listed,
    Listing,
    Query,
    find,
    narrowed,
    page_asked,
    paged,
    query_of,
    saying,
    state_choices,
    states_of,
)
from frontend.months import month_asked
from frontend.rows import ordered
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.states import LIVE, WorkspaceState
from tenants.models import User
from tests.factories.tenants import UserFactory

SORTS = {"name": "name", "lease": "lease_ends_at"}


def query(address: str) -> Query:
    return query_of(RequestFactory().get(address), "q", "state", "site", "sort")


def test_it_is_kept_as_it_was_typed() -> None:
    found = query("/?q=+fold%00+&state=ready&more=1")
    assert found == {"q": "fold", "state": "ready", "site": "", "sort": ""}
    assert found.shown == {"query": found, "filtered": True}
    assert len(query(f"/?q={'x' * 5000}")["q"]) == 100


@pytest.mark.parametrize(
    ("address", "filtered"), [("/", False), ("/?sort=-name", False), ("/?site=ber-1", True)]
)
def test_an_order_is_no_filter(address: str, filtered: bool) -> None:
    assert query(address).filtered is filtered


@pytest.mark.parametrize(
    ("typed", "states"),
    [
        ("", list(LIVE)),
        ("nonsense", list(LIVE)),
        ("ready", [WorkspaceState.READY]),
        ("deleted", [WorkspaceState.DELETED]),
        ("all", list(WorkspaceState)),
    ],
)
def test_what_is_deleted_shows_only_where_it_is_asked_for(typed: str, states: list[WorkspaceState]) -> None:
    assert states_of(query(f"/?state={typed}"), WorkspaceState, LIVE) == states


def test_every_state_can_be_chosen() -> None:
    assert [value for value, _ in state_choices(WorkspaceState)] == [*WorkspaceState.values, "all"]


@pytest.mark.parametrize(
    ("typed", "order"),
    [
        ("name", ("name", "-pk")),
        ("-lease", ("-lease_ends_at", "-pk")),
        ("password", ()),
        ("", ()),
        ("--name", ("-name", "-pk")),
    ],
)
def test_only_known_columns_sort(typed: str, order: tuple[str, ...]) -> None:
    rows = ordered(Workspace.objects.order_by(), typed, SORTS)
    assert isinstance(rows, QuerySet)
    assert rows.query.order_by == order


def test_rows_that_are_no_query_sort_alike() -> None:
    """Without regard to capitals; what has no value comes last, and first turned round; equal ones stay as they came."""
    rows = [{"name": "b", "of": {"size": 2}}, {"name": "A", "of": None}, {"name": "c", "of": {"size": 2}}]
    columns = {"name": "name", "size": "of__size"}
    assert [row["name"] for row in ordered(rows, "name", columns)] == ["A", "b", "c"]
    assert [row["name"] for row in ordered(rows, "size", columns)] == ["b", "c", "A"]
    assert [row["name"] for row in ordered(rows, "-size", columns)] == ["A", "b", "c"]
    assert ordered(rows, "password", columns) == rows


LETTERS = Listing(
    "letters",
    columns=(
        Column("letter", "Letter", "letter"),
        Column("place", "Place", "place", lambda row: row["place"] * 10, numeric=True),
        Column("change", "Change", value=None, quiet=True),
        Column("said", value="letter"),
    ),
    filters=(find(), Filter("odd", "Kind", "every kind", (("1", "odd places"), ("0", "even places")))),
    size=10,
)


def letters(address: str) -> Listed:
    rows: list[dict[str, Any]] = [
        {"letter": letter, "place": place} for place, letter in enumerate(f"{ascii_lowercase}=")
    ]

    def found(query: Query) -> list[dict[str, Any]]:
        some = [row for row in rows if query["odd"] in {"", str(row["place"] % 2)}]
        return saying(some, query["q"], lambda row: str(row["letter"]))

    return LETTERS.of(RequestFactory().get(address), found)


def lines(listed: Listed) -> list[str]:
    return listed.file().getvalue().decode().splitlines()


def test_the_file_has_all_pages_as_they_are_filtered_and_sorted() -> None:
    shown = letters("/?odd=1&sort=-letter&page=2&other=x")
    assert [row["letter"] for row in shown.rows] == ["f", "d", "b"]
    assert shown.file_url == "?odd=1&sort=-letter&other=x&csv=1"
    told = lines(shown)
    assert told[:2] == ["letter,place,said", "z,250,z"]
    assert len(told) == 14
    assert lines(letters("/?q=%3D"))[1] == "'=,260,'=", "no formula"


def test_a_page_drawn_in_answer_to_a_form_leads_to_its_own_address() -> None:
    """The address of the form only takes what is sent."""
    answered = LETTERS.of(
        RequestFactory().post("/letters/new/"), [{"letter": "a", "place": 1}], page_url="/letters/"
    )
    assert (answered.file_url, answered.page_url) == ("/letters/?csv=1", "/letters/")
    assert answered.heads[0].url == "/letters/?sort=letter"
    assert letters("/letters/").file_url == "?csv=1"


def test_heads_say_how_it_is_sorted_and_lead_to_the_other_way_round() -> None:
    letter, place, change = letters("/?sort=letter&page=2&odd=1").heads
    assert (letter.url, letter.direction) == ("?odd=1&sort=-letter", "ascending")
    assert (place.url, place.direction) == ("?odd=1&sort=-place", "none"), "numbers begin with the largest"
    assert (change.url, change.quiet) == ("", True)
    assert letters("/?sort=-place").heads[1].url == "?sort=place"


def test_the_filter_to_lift_is_the_one_that_helps() -> None:
    shown = letters("/?q=a&odd=1&sort=letter")
    assert [(each.label, each.value, each.count) for each in shown.set] == [
        ("Name", "a", 13),
        ("Kind", "odd places", 1),
    ]
    assert shown.helps == shown.set[0]
    assert shown.set[0].remove_url == "?odd=1&sort=letter"
    assert shown.all_url == "?sort=letter"
    assert letters("/?q=%C3%A9&odd=1").helps == letters("/?q=%C3%A9&odd=1").set[0]
    assert letters("/?q=%C3%A9").set[0].count == 27


def test_the_bar_keeps_what_is_no_filter_of_this_list() -> None:
    shown = letters("/?q=a&month=2026-11&sort=-place&page=3&csv=1")
    assert shown.kept == [("month", "2026-11"), ("sort", "-place")]


def test_what_is_not_typed_filters_nothing() -> None:
    rows, columns = Workspace.objects.all(), {"site": "site__slug"}
    assert not narrowed(rows, query("/"), columns).query.where
    assert "ber-1" in str(narrowed(rows, query("/?site=ber-1"), columns).query)


def test_one_of_what_is_known() -> None:
    assert query("/?state=ready").one_of("state", WorkspaceState.values) == "ready"
    assert query("/?state=redy").one_of("state", WorkspaceState.values) == ""


@pytest.mark.parametrize(("page", "first"), [("2", 10), ("99", 20), ("nonsense", 0), ("", 0)])
def test_a_page_that_is_not_there_is_the_nearest(page: str, first: int) -> None:
    assert paged(RequestFactory().get(f"/?page={page}"), range(25), 10)[0] == first


@pytest.mark.parametrize(
    ("page", "number"),
    [
        *(("2", 2), ("999999", 999_999), ("1000000", 1), ("0", 1), ("-1", 1), ("nonsense", 1), ("", 1)),
        ("000000001" + "9" * 20, 1),  # beyond what a statement can skip
        ("000000001" + "9" * 4400, 1),  # and beyond what Python reads
    ],
)
def test_a_page_of_rows_that_are_read_a_page_at_a_time(page: str, number: int) -> None:
    assert page_asked(RequestFactory().get(f"/?page={page}")) == number


@pytest.mark.django_db
@pytest.mark.parametrize(("size", "statements"), [(4, 1), (3, 1), (2, 2)])
def test_rows_of_one_page_are_not_counted_by_a_statement(
    django_assert_num_queries: Any, size: int, statements: int
) -> None:
    rows = User.objects.filter(pk__in=[UserFactory.create().pk for _ in range(3)]).order_by("username")
    with django_assert_num_queries(statements):
        page = paged(RequestFactory().get("/"), rows, size)
        shown = list(page)
    assert (shown, page.paginator.count) == (list(rows)[:size], 3)
    assert page.has_next() is (size < 3)


@pytest.mark.parametrize(("typed", "month"), [("2026-09", 9), ("2027-01", 11), ("nonsense", 11), ("", 11)])
def test_no_month_is_in_the_future(typed: str, month: int) -> None:
    now = datetime(2026, 11, 12, tzinfo=UTC)
    assert month_asked(RequestFactory().get(f"/?month={typed}"), now) == date(2026, month, 1)
