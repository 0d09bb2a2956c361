"""What an address asks of a list, and the rows that follow from it. The SQL is looked at, not run."""

from datetime import UTC, date, datetime

import pytest
from django.test import RequestFactory

from frontend.lists import Query, month_asked, narrowed, paged, query_of, sorted_by, state_choices, states_of
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.states import LIVE, WorkspaceState

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
    rows = Workspace.objects.order_by()
    assert sorted_by(rows, query(f"/?sort={typed}"), SORTS).query.order_by == order


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


@pytest.mark.parametrize(("typed", "month"), [("2026-09", 9), ("2027-01", 11), ("nonsense", 11), ("", 11)])
def test_no_month_is_in_the_future(typed: str, month: int) -> None:
    now = datetime(2026, 11, 12, tzinfo=UTC)
    assert month_asked(RequestFactory().get(f"/?month={typed}"), now) == date(2026, month, 1)
