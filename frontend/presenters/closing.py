"""How far the closing of a month has come, in words."""

from dataclasses import dataclass
from datetime import datetime

from billing.models import CloseProgress
from billing.selectors.closing import is_quiet
from frontend.components import Meter


@dataclass(frozen=True)
class ProgressShown:
    """meter None: nobody has begun, or it is not known yet how many organizations there are. note: what is unusual."""

    words: str
    meter: Meter | None
    note: str


def progress_shown(told: CloseProgress | None, now: datetime) -> ProgressShown | None:
    if told is None:
        return None
    if told.began_at is None:
        return ProgressShown("Waiting for a worker; one comes within half a minute.", None, "")
    meter = None
    if told.organizations:
        text = f"{told.done:,} of {told.organizations:,} organizations"
        meter = Meter(told.done / told.organizations * 100, limit=100.0, label="Written", text=text)
    note = ""
    if is_quiet(told, now):
        note = (
            f"The worker was last heard at {told.seen_at:%H:%M:%S} UTC. If it died, nothing is half done, and another "
            "takes over as soon as its connection to the database is gone."
        )
    elif told.attempts > 1:
        note = f"Try {told.attempts}: the worker before died or failed, and nothing of its work was left."
    return ProgressShown(f"{told.step.capitalize()}.", meter, note)
