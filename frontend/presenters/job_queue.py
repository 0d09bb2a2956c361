"""A job that waits, as the page of its queue shows it."""

from dataclasses import asdict, dataclass
from datetime import datetime

from frontend.forms import sentence_of
from frontend.presenters import jobs
from gpuaas.jobs.outlook import Turn


@dataclass(frozen=True)
class Row(jobs.Row):
    """position: from 1, or where it waits in place of the queue. starts_by: None where nothing says it."""

    position: int | str
    reason: str
    starts_by: datetime | None


def row_of(turn: Turn) -> Row:
    row = turn.row
    return Row(
        **asdict(jobs.row_of(row)),
        position=turn.position or "at the site",
        reason=sentence_of(row.waiting or jobs.waits(row, turn.position)),
        starts_by=turn.starts_by,
    )
