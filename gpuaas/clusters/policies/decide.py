"""One decision: the policy's wish, kept within bounds, steps, delays and caps. Pure."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from gpuaas.clusters.policies.facts import Cap, Decision, Memory, Policy, Pool, Rules, Signals, Wish

MEMORY_MAX = 10_000  # characters of JSON that a policy may keep
REASON_MAX = 300


def decide(
    policy: Policy,
    rules: Rules,
    *,
    signals: Signals,
    pool: Pool,
    memory: Memory,
    caps: Sequence[Cap],
    now: datetime,
) -> Decision:
    """What comes of it now. Caps win over bounds, bounds over delays, delays over the wish."""
    try:
        wish = _asked(policy, signals, pool, now, memory)
    except Exception as error:  # noqa: BLE001  a policy of somebody else's may raise anything; it must not stop others
        words = f"The policy gave no usable answer ({type(error).__name__}: {error})"[:REASON_MAX]
        return Decision(pool.count, pool.count, pool.count, words, memory, broken=True)
    wanted = _clamp(wish.count, rules.minimum, rules.maximum)
    memory = _waiting(replace(memory, own=wish.memory), wanted, pool.count, now)
    inside = _clamp(pool.count, rules.minimum, rules.maximum)
    if inside != pool.count:
        target = inside
    elif _may_change(rules, memory, wanted, pool.count, now):
        target = pool.count + _clamp(wanted - pool.count, -rules.step, rules.step)
    else:
        target = pool.count
    count, told, reason = target, "", wish.reason
    for cap in caps:
        ceiling = max(cap.most, rules.minimum if cap.binding else pool.count)
        if count > ceiling:
            count, told = ceiling, cap.reason
    if count < pool.count and told:
        reason, told = told, ""
    if count != pool.count:
        memory = replace(memory, up_since=None, down_since=None, changed_at=now)
    return Decision(pool.count, wanted, count, reason, memory, refused=told)


def _asked(policy: Policy, signals: Signals, pool: Pool, now: datetime, memory: Memory) -> Wish:
    wish = policy.decide(signals, pool, now, memory.own)
    if type(wish.count) is not int or type(wish.reason) is not str:
        raise TypeError("it answers with a whole number and a sentence")
    kept = json.dumps(dict(wish.memory))
    if len(kept) > MEMORY_MAX:
        raise ValueError(f"it may keep at most {MEMORY_MAX} characters")
    return Wish(wish.count, wish.reason[:REASON_MAX], json.loads(kept))


def _waiting(memory: Memory, wanted: int, count: int, now: datetime) -> Memory:
    return replace(
        memory,
        up_since=(memory.up_since or now) if wanted > count else None,
        down_since=(memory.down_since or now) if wanted < count else None,
    )


def _may_change(rules: Rules, memory: Memory, wanted: int, count: int, now: datetime) -> bool:
    if wanted == count:
        return False
    cooled = memory.changed_at is None or now - memory.changed_at >= timedelta(seconds=rules.cool_down)
    since, delay = (
        (memory.up_since, rules.up_delay) if wanted > count else (memory.down_since, rules.down_delay)
    )
    return cooled and since is not None and now - since >= timedelta(seconds=delay)


def _clamp(value: int, least: int, most: int) -> int:
    return max(least, min(value, most))
