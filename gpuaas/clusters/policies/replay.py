"""What a policy would have done over a recorded time: a fold over ticks, so a trace in two parts gives the same
result as in one. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from gpuaas.clusters.policies.decide import decide
from gpuaas.clusters.policies.facts import Cap, Decision, Memory, Policy, Pool, Rules, Signals

GAP = 300  # seconds; what was not recorded for longer is neither held nor waited for


@dataclass(frozen=True)
class Tick:
    """A recorded moment that counts for `seconds` (at most GAP). room: the most workers that limits and capacity
    allowed then; None = no bound. each: what one worker takes of each purse in a second. `month`: purses are refilled
    when it changes."""

    signals: Signals
    seconds: int
    month: str = ""
    room: int | None = None
    each: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Purse:
    """At most `amount` a month, in the unit of `Tick.each`; `words` describe it."""

    key: str
    amount: int
    words: str


@dataclass(frozen=True)
class Setup:
    """boot: seconds from a decision to working machines, during which nothing else is decided."""

    policy: Policy
    rules: Rules
    gpus: int
    boot: int = 0
    purses: tuple[Purse, ...] = ()


def horizon(boot: int) -> int:
    """For how many seconds a purse must pay for the present decision: until a later decision has taken effect at the
    site, twice, because the first may still be running."""
    return 2 * (boot + GAP)


@dataclass(frozen=True)
class State:
    """State between two ticks. target: the count that takes effect at `target_at`."""

    count: int
    target: int | None = None
    target_at: datetime | None = None
    memory: Memory = field(default_factory=Memory)
    month: str = ""
    spent: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Point:
    """One tick of the answer: `count` workers worked for `seconds`; pending_gpus waited."""

    at: datetime
    seconds: int
    count: int
    demand_gpus: int
    pending_gpus: int
    decision: Decision | None


def replay(setup: Setup, ticks: Iterable[Tick], state: State) -> tuple[State, list[Point]]:
    points = []
    for tick in ticks:
        state, point = _step(setup, tick, state)
        points.append(point)
    return state, points


def caps_of(
    purses: Sequence[Purse], spent: Mapping[str, int], each: Mapping[str, int], *, count: int, boot: int
) -> list[Cap]:
    """How many workers each purse still pays for. If it does not pay for the present `count`, what those take until
    they are gone is set aside first, so that workers above the minimum never overdraw a purse."""
    caps = []
    for purse in purses:
        worker = each.get(purse.key, 0)
        if worker <= 0:
            continue
        left, ahead = purse.amount - spent.get(purse.key, 0), worker * horizon(boot)
        if left < count * ahead:
            left -= count * worker * (boot + GAP)
        caps.append(Cap(max(left, 0) // ahead, purse.words, binding=True))
    return caps


def _step(setup: Setup, tick: Tick, state: State) -> tuple[State, Point]:
    now = tick.signals.at
    state = _arrived(state, now)
    if state.month != tick.month:
        state = replace(state, month=tick.month, spent={})
    signals = _as_if(tick.signals, state.count * setup.gpus)
    decision = None
    if state.target is None:
        caps = [] if tick.room is None else [Cap(tick.room, "there was no room for more")]
        caps += caps_of(setup.purses, state.spent, tick.each, count=state.count, boot=setup.boot)
        pool = Pool("", state.count, setup.gpus, setup.rules.minimum, setup.rules.maximum)
        decision = decide(
            setup.policy, setup.rules, signals=signals, pool=pool, memory=state.memory, caps=caps, now=now
        )
        state = replace(state, memory=decision.memory)
        if decision.changes:
            due = now + timedelta(seconds=setup.boot)
            state = _arrived(replace(state, target=decision.count, target_at=due), now)
            signals = _as_if(tick.signals, state.count * setup.gpus)
    spent = {
        purse.key: state.spent.get(purse.key, 0) + state.count * tick.each.get(purse.key, 0) * tick.seconds
        for purse in setup.purses
    }
    point = Point(now, tick.seconds, state.count, signals.demand_gpus, signals.pending_gpus, decision)
    return replace(state, spent=spent), point


def _arrived(state: State, now: datetime) -> State:
    if state.target is None or state.target_at is None or now < state.target_at:
        return state
    return replace(state, count=state.target, target=None, target_at=None)


def _as_if(seen: Signals, capacity: int) -> Signals:
    """The same demand with another number of GPUs; jobs wait in proportion to the GPUs that are waited for."""
    used = min(seen.demand_gpus, capacity)
    pending = seen.demand_gpus - used
    if not pending:
        queued = 0
    elif seen.pending_gpus:
        queued = -(-seen.queued * pending // seen.pending_gpus)
    else:
        queued = 1
    return Signals(seen.at, used, pending, queued)
