"""What a plan can name as the next action, of every kind; what only one kind does stands in its own plan."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True)
class Begin:
    """Start the requested operation."""


@dataclass(frozen=True)
class Restart:
    """Every step was done, but the site does not show it: all steps start again. counts: towards giving up, as where the
    site does not retain what was set."""

    reason: str
    counts: bool = True


@dataclass(frozen=True)
class Finish:
    """The site has confirmed: the operation ends in this state."""

    state: Any


@dataclass(frozen=True)
class CleanUp:
    """The site has something of a deleted row (from a late answer): remove it."""


@dataclass(frozen=True)
class Rest:
    """Nothing to do until then; None = nothing at all."""

    until: datetime | None
