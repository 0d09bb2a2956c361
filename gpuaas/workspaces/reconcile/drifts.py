"""What is known of a workspace's drift: the open one, and whether another client keeps changing it. No writes."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from gpuaas.catalog.models import Site
from gpuaas.catalog.states import DriftPolicy
from gpuaas.core import clock
from gpuaas.lifecycle.kind import PORTAL
from gpuaas.workspaces.models import Drift, SiteWatch, Workspace
from gpuaas.workspaces.services.drift import WATCH_LOST_AFTER
from gpuaas.workspaces.states import DriftState

# a watch proves to be alive every ten seconds or so
# so many repairs within the time are nobody's slip: whatever does it is at it again
CONTEST_WITHIN = timedelta(hours=1)
CONTEST_AFTER = 3
CONTEST_PAUSE = timedelta(seconds=30)
CONTEST_PAUSE_MOST = timedelta(minutes=15)
CONTEST_PAUSE_LIMITS = timedelta(seconds=10)


@dataclass(frozen=True)
class Drifts:
    """`repaired`: how often within the hour; `last_at`: when last."""

    open: Drift | None = None
    repaired: int = 0
    last_at: datetime | None = None

    def repairs(self, site: Site) -> bool:
        """By the site's policy, or because somebody requested it for this drift."""
        return self._by_hand or site.drift_policy == DriftPolicy.REPAIR

    @property
    def hold_until(self) -> datetime | None:
        """If another client keeps changing it, each repair waits longer, so that the two do not wear out the site."""
        pause = CONTEST_PAUSE * (1 << min(max(self.repaired - CONTEST_AFTER, 0), 10))
        return self._held(min(pause, CONTEST_PAUSE_MOST))

    @property
    def hold_limits_until(self) -> datetime | None:
        """The delay is short for limits."""
        return self._held(CONTEST_PAUSE_LIMITS)

    def _held(self, pause: timedelta) -> datetime | None:
        contested = self.repaired >= CONTEST_AFTER and self.last_at is not None and not self._by_hand
        return self.last_at + pause if contested and self.last_at else None

    @property
    def _by_hand(self) -> bool:
        return self.open is not None and self.open.resolved_by not in ("", PORTAL)


NO_DRIFTS = Drifts()


def drifts_load(row: Workspace) -> Drifts:
    """1 query."""
    since = clock.now() - CONTEST_WITHIN
    rows = list(row.drifts.order_by("-pk")[:50])
    repaired = [
        one
        for one in rows
        if one.state == DriftState.REPAIRED and one.resolved_by == PORTAL and one.found_at >= since
    ]
    return Drifts(
        open=next((one for one in rows if one.state == DriftState.OPEN), None),
        repaired=len(repaired),
        last_at=max((one.resolved_at for one in repaired if one.resolved_at), default=None),
    )


def is_watched(site: Site) -> bool:
    watch: SiteWatch | None = getattr(site, "watch", None)
    proof = watch.proof_at if watch is not None else None
    return proof is not None and proof > clock.now() - WATCH_LOST_AFTER
