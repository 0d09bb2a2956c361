"""Statements that stand in files of their own, beside the code that runs them."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import psycopg
from django.db import connection
from django.db.backends.utils import CursorWrapper


@cache
def sql_read(folder: Path, name: str) -> str:
    """The text of `name`.sql; read once a process."""
    return (folder / f"{name}.sql").read_text("utf-8")


@contextmanager
def prepared() -> Iterator[CursorWrapper]:
    """A cursor whose statements PostgreSQL prepares and keeps for the connection: for a long text over few rows, which takes
    longer to plan than to run.

    PostgreSQL may plan such a statement for any parameters (https://www.postgresql.org/docs/current/sql-prepare.html), so it
    should have no `parameter IS NULL OR column = parameter`: that never uses an index. Where statements are logged (DEBUG),
    it is an ordinary cursor, since the log has the text of what is sent, which would be a name.
    """
    if connection.queries_logged:
        with connection.cursor() as cursor:
            yield cursor
        return
    connection.ensure_connection()
    connection.connection.prepare_threshold = 0  # Django switches it off; its own cursors never prepare
    with connection.make_cursor(psycopg.Cursor(connection.connection)) as cursor:  # type: ignore[arg-type]
        yield cursor
