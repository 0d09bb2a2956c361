"""How far an import of usage is, told out of its uncommitted transaction."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

from django.utils import timezone

from gpuaas.core.aside import aside
from gpuaas.core.ids import uuid7
from gpuaas.metering.models import ImportStep

EVERY = 10_000  # rows
KEPT_SHOWN = timedelta(days=1)  # of a process that was killed, nobody else takes it away
BEGUN = """
INSERT INTO metering_importprogress (id, file, requested_by, step, rows, began_at, seen_at) VALUES (%s, %s, %s, %s, 0, %s, %s)
"""
TOLD = "UPDATE metering_importprogress SET step = %s, rows = %s, seen_at = %s WHERE id = %s"
ENDED = "DELETE FROM metering_importprogress WHERE id = %s OR seen_at < %s"

Tell = Callable[[ImportStep, int], None]


@contextmanager
def import_told(*, file: str, by: str) -> Iterator[Tell]:
    """Call it with the step that begins and the rows that were read. What an import tells is gone when it has ended."""
    progress = uuid7()
    with aside(file=file) as say:
        now = timezone.now()
        say(BEGUN, progress, file, by, ImportStep.READ, now, now)
        try:
            yield lambda step, rows: say(TOLD, step, rows, timezone.now(), progress)
        finally:
            say(ENDED, progress, timezone.now() - KEPT_SHOWN)


def counted(rows: Iterable[Sequence[object]], tell: Tell) -> Iterator[Sequence[object]]:
    """The same rows, told as they are read; after the last one they are checked."""
    count = 0
    for count, row in enumerate(rows, 1):
        if count % EVERY == 0:
            tell(ImportStep.READ, count)
        yield row
    tell(ImportStep.CHECK, count)
