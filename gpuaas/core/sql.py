"""Statements that stand in files of their own, beside the code that runs them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
from django.db import connection
from django.db.backends.utils import CursorWrapper


@cache
def sql_read(folder: Path, name: str) -> str:
    """The text of `name`.sql; read once a process."""
    return (folder / f"{name}.sql").read_text("utf-8")


def known(sql: str, parameters: Mapping[str, Any]) -> str:
    """The statement for `prepared`: whether an array `IS NULL` is in its text, so that its plan is the one for that."""
    for name, value in parameters.items():
        sql = sql.replace(f"%({name})s::uuid[] IS NULL", "true" if value is None else "false")
    return sql


@contextmanager
def prepared() -> Iterator[CursorWrapper]:
    """A cursor whose statements PostgreSQL plans once and keeps for the connection: for a long text over few rows, which takes
    longer to plan than to run.

    It is planned for any parameters (PLANNED_ONCE in the settings;
    https://www.postgresql.org/docs/current/sql-prepare.html), so it should have no
    `parameter IS NULL OR column = parameter`, which never uses an index (see `known`), and no parameters of thousands of
    values. Where statements are logged (DEBUG), it is an ordinary cursor, since the log has the text of what is sent, which
    would be a name.
    """
    if connection.queries_logged:
        with connection.cursor() as cursor:
            yield cursor
        return
    connection.ensure_connection()
    connection.connection.prepare_threshold = 0  # Django switches it off; its own cursors never prepare
    with connection.make_cursor(psycopg.Cursor(connection.connection)) as cursor:  # type: ignore[arg-type]
        yield cursor
