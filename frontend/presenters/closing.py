"""The progress of closing a month, as text and a meter."""

from dataclasses import dataclass
from datetime import datetime

from billing.models import CloseProgress
from billing.selectors.closing import is_quiet
from frontend import formats
from frontend.components import Meter


@dataclass(frozen=True)
class ProgressShown:
    """meter: None until a worker has counted the organizations. note: set if a worker is late or has failed before."""

    words: str
    meter: Meter | None
    note: str


def progress_shown(progress: CloseProgress | None, now: datetime) -> ProgressShown | None:
    if progress is None:
        return None
    if progress.began_at is None:
        return ProgressShown("Waiting for a worker. One starts within 30 seconds.", None, "")
    meter = None
    if progress.organizations:
        text = f"{progress.done:,} of {progress.organizations:,} organizations"
        meter = Meter(progress.done / progress.organizations * 100, limit=100.0, label="Written", text=text)
    note = ""
    if progress.seen_at is not None and is_quiet(progress, now):
        note = (
            f"The worker last reported at {formats.zoned(progress.seen_at):%H:%M:%S}. If it has stopped, nothing is half done, and "
            "another worker takes over when its database connection ends."
        )
    elif progress.attempts > 1:
        note = f"Attempt {progress.attempts}: the previous worker failed and left nothing half done."
    return ProgressShown(f"{progress.step.capitalize()}.", meter, note)
