"""Connections to the database in processes that run for long."""

from django.db import close_old_connections, connection


def connection_return() -> None:
    """Back to the pool between two pieces of work: there may be more sites than connections."""
    if not connection.in_atomic_block:
        close_old_connections()
