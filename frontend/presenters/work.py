"""Long work that somebody has asked for: which of its steps is done, who is on it, and since when. All of it is in the
row, so that it is the same after a reload and for whoever looks besides."""

from dataclasses import dataclass
from datetime import datetime

from billing.selectors.closing import QUIET
from frontend import formats
from gpuaas.core.claims import Claimable
from gpuaas.metering.models import ImportProgress, ImportStep


@dataclass(frozen=True)
class Work:
    """Drawn by `{% work %}`. `at`: the step that is under way, from 1. `again_at`: of a try that failed, the next one."""

    since: datetime
    steps: tuple[str, ...]
    at: int
    note: str
    again_at: datetime | None = None


def work_of(row: Claimable, *steps: str, since: datetime, now: datetime) -> Work:
    """The first of the steps is that it was asked for; the second one is the worker's."""
    if row.claim_until is not None and row.claim_until > now:
        return Work(since, steps, 2, "A worker is on it.")
    if row.attempts:
        tried = f"{row.attempts} {'try' if row.attempts == 1 else 'tries'} failed; the next one is"
        return Work(since, steps, 2, tried, row.due_at)
    return Work(since, steps, 2, "It waits for a free worker.")


def import_work(row: ImportProgress, now: datetime) -> Work:
    """Nobody waits for a worker: whoever asked does it, and the end of it is the end of the row."""
    note = f"{row.rows:,} rows are read."
    if now - row.seen_at > QUIET:
        note += f" The last report is of {formats.zoned(row.seen_at):%H:%M:%S}. If its process has ended, nothing was imported."
    return Work(row.began_at, tuple(step.label for step in ImportStep), row.step, note)


def waits_since(row: Claimable, now: datetime) -> datetime | None:
    """Since when a row is due that is looked at in periods or when asked; None while it rests."""
    return row.due_at if row.due_at is not None and row.due_at <= now else None
