"""What to do next about a cluster: a pure function of what is wanted, what was observed, and the time.

The runner performs the action, reads everything again and repeats; so a kill, a deletion in between or a changed
request only changes the next answer.
"""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta

from gpuaas.clusters.states import ClusterState
from gpuaas.lifecycle.actions import Begin, CleanUp, Finish, Rest, Restart
from gpuaas.providers.base import ClusterSpec, ObservedCluster

LOOK_EVERY = timedelta(seconds=60)


@dataclass(frozen=True)
class Desired:
    """`pending`: names of the open operation's unfinished steps, in order (`key`, at a burst site `key@site`);
    `away`: the sites ("" = its own) that did not answer just now."""

    state: ClusterState
    pending: tuple[str, ...] = ()
    away: frozenset[str] = frozenset()

    @property
    def following(self) -> str:
        """The first step that can be done now; the first of all if none can. Without the cluster's own site nothing
        can be made anywhere, but everything can be removed."""
        if "" in self.away and self.state != ClusterState.DELETING:
            return self.pending[0]
        return next((name for name in self.pending if site_named(name) not in self.away), self.pending[0])

    @property
    def is_held_up(self) -> bool:
        """Nothing can be done before a site answers again."""
        own = "" in self.away and self.state != ClusterState.DELETING
        return own or site_named(self.following) in self.away


@dataclass(frozen=True)
class Observed:
    """What this run has observed. `differs`: differences in words; `left`: how many objects a sweep found; `healed`:
    it was repaired before that."""

    differs: str = ""
    left: int = 0
    healed: bool = False


@dataclass(frozen=True)
class Step:
    name: str


@dataclass(frozen=True)
class Look:
    """Observe the site, and sweep it for everything that carries the cluster's tag."""


@dataclass(frozen=True)
class Heal:
    """Make what is missing again, without an operation."""

    reason: str


Action = Begin | Step | Look | Restart | Finish | Heal | CleanUp | Rest

S = ClusterState


def site_named(step: str) -> str:
    """The site of the step of this name: the burst site's slug, "" = the cluster's own."""
    return step.partition("@")[2]


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
        return Step(desired.following)
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
    """A suspended cluster is only observed: what is missing comes back when it is resumed."""
    if observed is None:
        return Look()
    if observed.differs and not observed.healed and desired.state == S.READY:
        return Heal(observed.differs)
    return Rest(now + LOOK_EVERY)


def difference(spec: ClusterSpec, seen: ObservedCluster) -> str:
    """In words, '' if the site has exactly what is wanted of it there, and all of it works."""
    if not seen.exists and not spec.is_burst:
        return "nothing of it is at the site"
    if not seen.endpoint and not spec.is_burst:
        return "nothing answers at its address"
    broken = [node for node in seen.nodes if not node.ready]
    if broken:
        return f"{broken[0].name} is not ready: {broken[0].reason or 'no reason is given'}"
    have = Counter((node.pool, node.release) for node in seen.nodes)
    want = Counter() if spec.is_burst else Counter({("", spec.release): spec.control_plane.count})
    want.update({(pool.name, pool.release): pool.flavor.count for pool in spec.pools if pool.flavor.count})
    for pool, release in sorted(want.keys() | have.keys()):
        if have[pool, release] != want[pool, release]:
            what = f"the pool {pool}" if pool else "the control plane"
            return f"{what} has {have[pool, release]} machines of {release}, wanted {want[pool, release]}"
    return ""


def awake_still(spec: ClusterSpec, seen: ObservedCluster) -> str:  # noqa: ARG001  whatever it should be when it wakes
    """In words, '' if no worker is left: a control plane that is broken or half upgraded keeps nothing awake."""
    workers = [node for node in seen.nodes if node.pool]
    return f"the pool {workers[0].pool} still has {workers[0].name}" if workers else ""
