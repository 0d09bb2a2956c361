"""The database taken away, and given back."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection

ALLOW = "UPDATE pg_database SET datallowconn = %s WHERE datname = current_database()"
END = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = %s"
PORTAL = "the portal"  # PGAPPNAME of the process that is cut off


@contextmanager
def away_from_here() -> Iterator[None]:
    """For this thread: nobody listens where it connects to."""
    given = dict(connection.settings_dict)
    connection.close()
    connection.settings_dict.update(HOST="127.0.0.1", PORT="1")
    try:
        yield
    finally:
        connection.close()
        connection.settings_dict.update(given)


@contextmanager
def away_from_portal() -> Iterator[None]:
    """For a process with that PGAPPNAME: its connections are ended, and the server makes no new ones."""
    with connection.cursor() as cursor:
        cursor.execute(ALLOW, [False])
        cursor.execute(END, [PORTAL])
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute(ALLOW, [True])
