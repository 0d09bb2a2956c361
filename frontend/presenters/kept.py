"""How long what a job ran is kept, in words."""

from datetime import datetime

from django.conf import settings

from frontend import formats


def kept_words(emptied_at: datetime | None, what: str) -> str:
    """what: else that is kept as long as the script."""
    days = settings.JOB_SCRIPT_DAYS
    if emptied_at is not None:
        return f"The script and {what} are not kept any more since {formats.when(emptied_at)}."
    return f"The script is kept for {days:,} days after a job has ended, with {what}." if days else ""
