"""What is metered."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from gpuaas.providers.base.workspace import ObservedConsumer


class UsageKind(StrEnum):
    SEEN = "seen"  # the consumer as it is now (started, or still running)
    GONE = "gone"  # deleted; the event carries its last state
    BOOKMARK = "bookmark"  # nothing new up to this cursor: a proof of life for all that is open
    RELIST = "relist"  # a full list follows as SEEN events, then RELISTED: what was not in it is gone
    RELISTED = "relisted"


@dataclass(frozen=True)
class UsageEvent:
    """`at` is when we saw it; `cursor` is where to resume (only on BOOKMARK and RELISTED; "" elsewhere)."""

    kind: UsageKind
    at: datetime
    cursor: str = ""
    # external_name, the site's namespace or project; "" with a consumer: it is gone, whose it was is known by the uid alone
    workspace_name: str = ""
    consumer: ObservedConsumer | None = None
