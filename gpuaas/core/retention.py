"""How long what jobs ran is kept: their scripts, variables and the ends of their logs."""

from datetime import datetime, timedelta
from typing import Final

from django.conf import settings

from gpuaas.core import clock

BATCH: Final = 500  # jobs that are emptied in one transaction
EMPTIED: Final = "its script is not kept any more: submit it anew"


def kept_since() -> datetime | None:
    """What ended before is emptied; None = nothing is."""
    days = settings.JOB_SCRIPT_DAYS
    return clock.now() - timedelta(days=days) if days else None
