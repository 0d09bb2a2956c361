"""Reports the progress of a close out of its uncommitted transaction."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.utils import timezone

from gpuaas.core.aside import aside

BEGUN = """
UPDATE billing_closeprogress SET attempts = attempts + 1, step = %s, done = 0, organizations = 0, began_at = %s, seen_at = %s
WHERE close_id = %s
"""
TOLD = "UPDATE billing_closeprogress SET step = %s, done = %s, organizations = %s, seen_at = %s WHERE close_id = %s"


@contextmanager
def close_told(close_id: uuid.UUID) -> Iterator[Callable[[str, int, int], None]]:
    """Call it with the step, organizations done and organizations in total."""
    with aside(close=str(close_id)) as say:
        now = timezone.now()
        say(BEGUN, "checking", now, now, close_id)
        yield lambda step, done, total: say(TOLD, step, done, total, timezone.now(), close_id)
