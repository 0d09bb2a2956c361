"""What to do next about a cluster: a pure function of what is wanted, what was seen, and the time.

The runner performs the action, reads everything anew and asks again; so a kill, a deletion in the middle or a changed wish only
changes the next answer.
"""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta

from gpuaas.clusters.states import ClusterState
from gpuaas.providers.base import ClusterSpec, ObservedCluster

LOOK_EVERY = timedelta(seconds=60)
LEFTOVERS_AFTER = timedelta(minutes=5)


@dataclass(frozen=True)
class Desired:
    """`pending`: keys of the open operation's steps that are not done, in order."""

    state: ClusterState
    pending: tuple[str, ...] = ()


@dataclass(frozen=True)
class Observed:
    """What this run has seen. `differs`: in words, what is not as wanted; `left`: how many objects a sweep found; `healed`: it
    was mended before it was seen."""

    differs: str = ""
    left: int = 0
    healed: bool = False


@dataclass(frozen=True)
class Begin:
    """Take the order up."""


@dataclass(frozen=True)
class Step:
    key: str


@dataclass(frozen=True)
class Look:
    """Ask the site what it has, and sweep it for everything that carries the cluster's tag."""


@dataclass(frozen=True)
class Restart:
    """Every step was done, yet the site does not show it: all steps begin anew."""

    reason: str


@dataclass(frozen=True)
class Finish:
    state: ClusterState


@dataclass(frozen=True)
class Heal:
    """Make what is missing anew, without an operation."""

    reason: str


@dataclass(frozen=True)
class CleanUp:
    """A deleted cluster has something at the site (a late answer made it): take it away."""


@dataclass(frozen=True)
class Rest:
    """Nothing to do until then; None = nothing ever."""

    until: datetime | None


Action = Begin | Step | Look | Restart | Finish | Heal | CleanUp | Rest

S = ClusterState


def plan(desired: Desired, observed: Observed | None, now: datetime) -> Action:
    match desired.state:
        case S.REQUESTED:
            return Begin()
        case S.FAILED:
            return Rest(None)
        case S.DELETED:
            return _after(observed)
        case S.READY | S.SUSPENDED:
            return _keeping(desired, observed, now)
    if desired.pending:
        return Step(desired.pending[0])
    if observed is None:
        return Look()
    if desired.state == S.DELETING:
        return Restart(f"{observed.left} objects are still there") if observed.left else Finish(S.DELETED)
    if observed.differs:
        return Restart(observed.differs)
    return Finish(S.SUSPENDED if desired.state == S.SUSPENDING else S.READY)


def _after(observed: Observed | None) -> Action:
    if observed is None:
        return Look()
    return CleanUp() if observed.left else Rest(None)


def _keeping(desired: Desired, observed: Observed | None, now: datetime) -> Action:
    """What sleeps is only looked at: what is missing of it comes back when it wakes."""
    if observed is None:
        return Look()
    if observed.differs and not observed.healed and desired.state == S.READY:
        return Heal(observed.differs)
    return Rest(now + LOOK_EVERY)


def difference(spec: ClusterSpec, seen: ObservedCluster) -> str:
    """In words, '' where the site has exactly what is wanted, and all of it works."""
    if not seen.exists:
        return "nothing of it is at the site"
    if not seen.endpoint:
        return "nothing answers at its address"
    broken = [node for node in seen.nodes if not node.ready]
    if broken:
        return f"{broken[0].name} is not ready: {broken[0].reason or 'no reason is given'}"
    have = Counter((node.pool, node.release) for node in seen.nodes)
    want = Counter({("", spec.release): spec.control_plane.count})
    want.update({(pool.name, pool.release): pool.flavor.count for pool in spec.pools if pool.flavor.count})
    for pool, release in sorted(want.keys() | have.keys()):
        if have[pool, release] != want[pool, release]:
            what = f"the pool {pool}" if pool else "the control plane"
            return f"{what} has {have[pool, release]} machines of {release}, wanted {want[pool, release]}"
    return ""
