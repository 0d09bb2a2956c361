"""What is metered."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from gpuaas.providers.base.workspace import ObservedConsumer


class UsageKind(StrEnum):
    SEEN = "seen"  # the consumer as it is now (started, or still running)
    GONE = "gone"  # deleted; the event carries its last state
    BOOKMARK = "bookmark"  # nothing new up to this cursor: everything open still runs
    RELIST = "relist"  # a full list follows as SEEN events, then RELISTED: whatever it lacks is gone
    RELISTED = "relisted"


@dataclass(frozen=True)
class UsageEvent:
    """`at` is when we saw it; `cursor` is where to resume (only on BOOKMARK and RELISTED; "" elsewhere)."""

    kind: UsageKind
    at: datetime
    cursor: str = ""
    # external_name, the site's namespace or project; "" with a consumer: it is gone, and only the uid says whose it was
    workspace_name: str = ""
    consumer: ObservedConsumer | None = None
