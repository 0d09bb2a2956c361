"""One decision: the policy's recommendation, limited by bounds, steps, delays and caps. Pure."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from gpuaas.clusters.policies import facts

MEMORY_MAX = 10_000  # characters of JSON that a policy may keep
REASON_MAX = 300
DRAIN_WITHIN = timedelta(minutes=5)  # heads report twice a minute; what is later is worth a line in the log


def decide(
    policy: facts.Policy,
    rules: facts.Rules,
    *,
    signals: facts.Signals,
    pool: facts.Pool,
    memory: facts.Memory,
    caps: Sequence[facts.Cap],
    now: datetime,
) -> facts.Decision:
    """The resulting decision. Caps take precedence over bounds, bounds over delays, delays over the recommendation; and
    running work over all of them: where the cluster can tell, workers are drained first, and go when they are idle."""
    try:
        recommended = _asked(policy, signals, pool, now, memory)
    except Exception as error:  # noqa: BLE001  a policy of somebody else's may raise anything; it must not stop others
        words = f"The policy gave no usable answer ({type(error).__name__}: {error})"[:REASON_MAX]
        return facts.Decision(pool.count, pool.count, pool.count, words, memory, broken=True)
    wanted = _clamp(recommended.count, rules.minimum, rules.maximum)
    memory = _waiting(replace(memory, own=recommended.memory), wanted, pool.count, now)
    inside = _clamp(pool.count, rules.minimum, rules.maximum)
    if inside != pool.count:
        target = inside
    elif _may_change(rules, memory, wanted, pool.count, now):
        target = pool.count + _clamp(wanted - pool.count, -rules.step, rules.step)
    else:
        target = pool.count
    count, refused, reason = target, "", recommended.reason
    for cap in caps:
        ceiling = max(cap.most, rules.minimum if cap.binding else pool.count)
        if count > ceiling:
            count, refused = ceiling, cap.reason
    if count < pool.count and refused:
        reason, refused = refused, ""
    memory = replace(memory, drain=_drain(signals, memory, pool, count, now))
    if memory.drain is not None:
        count, kept = _idle(signals, memory.drain, pool, now)
        refused = kept or refused
    if count != pool.count:
        memory = replace(memory, up_since=None, down_since=None, changed_at=now)
    return facts.Decision(pool.count, wanted, count, reason, memory, refused=refused)


def _asked(
    policy: facts.Policy, signals: facts.Signals, pool: facts.Pool, now: datetime, memory: facts.Memory
) -> facts.Recommendation:
    recommended = policy.decide(signals, pool, now, memory.own)
    if type(recommended.count) is not int or type(recommended.reason) is not str:
        raise TypeError("decide() must return an integer and a sentence")
    memory_text = json.dumps(dict(recommended.memory))
    if len(memory_text) > MEMORY_MAX:
        raise ValueError(f"the memory of a policy may have at most {MEMORY_MAX} characters")
    return facts.Recommendation(recommended.count, recommended.reason[:REASON_MAX], json.loads(memory_text))


def _drain(
    signals: facts.Signals, memory: facts.Memory, pool: facts.Pool, count: int, now: datetime
) -> facts.Drain | None:
    """An order holds until another number is wanted."""
    if count >= pool.count or signals.least is None:
        return None
    before = memory.drain
    return before if before is not None and before.above == count else facts.Drain(count, now)


def _idle(signals: facts.Signals, drain: facts.Drain, pool: facts.Pool, now: datetime) -> tuple[int, str]:
    """How far the pool can shrink now, and why not further."""
    if signals.least is None or signals.drain != drain.key:
        late = now - drain.since >= DRAIN_WITHIN
        return pool.count, "the cluster has not confirmed that the workers accept no new work" if late else ""
    count = min(max(signals.least, drain.above), pool.count)
    if count == drain.above:
        return count, ""
    return count, f"work still runs on worker {count}, so it stays until that has ended"


def _waiting(memory: facts.Memory, wanted: int, count: int, now: datetime) -> facts.Memory:
    return replace(
        memory,
        up_since=(memory.up_since or now) if wanted > count else None,
        down_since=(memory.down_since or now) if wanted < count else None,
    )


def _may_change(rules: facts.Rules, memory: facts.Memory, wanted: int, count: int, now: datetime) -> bool:
    if wanted == count:
        return False
    cooled = memory.changed_at is None or now - memory.changed_at >= timedelta(seconds=rules.cool_down)
    since, delay = (
        (memory.up_since, rules.up_delay) if wanted > count else (memory.down_since, rules.down_delay)
    )
    return cooled and since is not None and now - since >= timedelta(seconds=delay)


def _clamp(value: int, least: int, most: int) -> int:
    return max(least, min(value, most))
