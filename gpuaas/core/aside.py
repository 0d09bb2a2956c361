"""Statements on a connection of their own: others see them at once, while the work that they tell of has its transaction open."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from uuid import UUID

import structlog
from django.db import Error, connection

log = structlog.get_logger(__name__)


@contextmanager
def aside(**about: str) -> Iterator[Callable[..., None]]:
    """Call it with a statement and its values. A failure is logged with `about`, and the work continues untold."""
    own = connection.copy()
    can = True

    def say(sql: str, *values: str | int | datetime | UUID) -> None:
        nonlocal can
        if not can:
            return
        try:
            with own.cursor() as cursor:
                cursor.execute(sql, values)
        except Error as error:
            can = False
            log.warning("progress_not_told", error=type(error).__name__, **about)

    try:
        yield say
    finally:
        own.close()
