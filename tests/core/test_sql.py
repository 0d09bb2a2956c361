"""Statements that PostgreSQL keeps for a connection."""

from typing import Any

import pytest
from django.db import ProgrammingError, connection, transaction
from django.test.utils import CaptureQueriesContext

from gpuaas.core.sql import known, prepared

pytestmark = pytest.mark.django_db
SQL = "SELECT %(number)s::int + 1, %(names)s::text[]"


def asked(number: int, names: list[str] | None) -> Any:
    with prepared() as cursor:
        cursor.execute(SQL, {"number": number, "names": names})
        return cursor.fetchone()


def test_it_is_prepared_once_and_answers_each_time_by_its_own_parameters() -> None:
    assert [asked(1, ["a", "b"]), asked(2, None), asked(3, [])] == [(2, ["a", "b"]), (3, None), (4, [])]
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE 'SELECT $1::int + 1,%'"
        )
        assert cursor.fetchone() == (1,)


def test_it_is_logged_as_every_statement_is() -> None:
    with CaptureQueriesContext(connection) as queries:
        assert asked(1, None) == (2, None)
    assert [query["sql"].startswith("SELECT 1::int + 1") for query in queries] == [True]


def test_it_fails_as_every_statement_does() -> None:
    with pytest.raises(ProgrammingError), transaction.atomic(), prepared() as cursor:
        cursor.execute("SELECT nonsense FROM nowhere", None)


def test_it_is_planned_once_for_any_parameters() -> None:
    for number in range(8):
        asked(number, None)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT generic_plans, custom_plans FROM pg_prepared_statements"
            " WHERE statement LIKE 'SELECT $1::int + 1,%'"
        )
        assert cursor.fetchone() == (8, 0)


@pytest.mark.parametrize(
    ("names", "condition"),
    [(None, "true OR name = ANY (%(names)s)"), ([], "false OR name = ANY (%(names)s)")],
)
def test_whether_an_array_is_asked_for_is_in_the_text(names: list[str] | None, condition: str) -> None:
    asked = "%(names)s::uuid[] IS NULL OR name = ANY (%(names)s)"
    assert known(asked, {"names": names, "others": None}) == condition
