"""Reports progress out of an uncommitted transaction on a connection of its own, so that others see it at once."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

import structlog
from django.db import Error, connection
from django.utils import timezone

log = structlog.get_logger(__name__)
BEGUN = """
UPDATE billing_closeprogress SET attempts = attempts + 1, step = %s, done = 0, organizations = 0, began_at = %s, seen_at = %s
WHERE close_id = %s
"""
TOLD = "UPDATE billing_closeprogress SET step = %s, done = %s, organizations = %s, seen_at = %s WHERE close_id = %s"


@contextmanager
def close_told(close_id: uuid.UUID) -> Iterator[Callable[[str, int, int], None]]:
    """Call it with the step, organizations done and organizations in total. A failure is logged, and the work
    continues."""
    aside = connection.copy()
    can = True

    def say(sql: str, *values: str | int | datetime | uuid.UUID) -> None:
        nonlocal can
        if not can:
            return
        try:
            with aside.cursor() as cursor:
                cursor.execute(sql, values)
        except Error as error:
            can = False
            log.warning("progress_not_told", close=str(close_id), error=type(error).__name__)

    now = timezone.now()
    say(BEGUN, "checking", now, now, close_id)
    try:
        yield lambda step, done, total: say(TOLD, step, done, total, timezone.now(), close_id)
    finally:
        aside.close()
