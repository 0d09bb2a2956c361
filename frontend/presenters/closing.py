"""The progress of closing a month, as text and a meter."""

from dataclasses import dataclass
from datetime import date, datetime

from billing.models import CloseProgress, MonthClose
from billing.selectors.closing import is_quiet
from billing.states import CloseState
from frontend import formats
from frontend.components import Meter


@dataclass(frozen=True)
class ProgressShown:
    """meter: None until a worker has counted the organizations. note: set if a worker is late or has failed before."""

    words: str
    meter: Meter | None
    note: str


# by the names that billing writes down
STEPS = {
    "changed": "Organizations with usage to invoice or correct",
    "rated": "Usage priced",
    "added up": "Usage added up to lines",
    "invoices": "Invoices and credit notes written",
    "lines": "Lines written",
    "shares": "Shares of projects written",
    "fingerprints": "Documents sealed by a fingerprint",
    "ledger": "Entries of the account ledger written",
    "grants, credits and prepaid": "Documents paid from grants, credits and prepayments",
}


@dataclass(frozen=True)
class StepShown:
    words: str
    rows: int
    seconds: float


def steps_shown(row: MonthClose) -> list[StepShown]:
    """What the close did; a step of another release keeps its name."""
    return [
        StepShown(STEPS.get(each["name"], each["name"]), each["rows"], each["seconds"]) for each in row.steps
    ]


def heading_of(row: MonthClose | None, month: date) -> str:
    """Of the page of a month: what is to be done, is under way or is done."""
    if row is not None and row.state == CloseState.CLOSED:
        return f"{month:%B %Y} is closed"
    if row is not None and row.state == CloseState.REQUESTED:
        return f"Closing {month:%B %Y}"
    return f"Close {month:%B %Y}"


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
