"""Converts a policy's memory to JSON and back."""

from datetime import datetime
from typing import Any

from gpuaas.clusters.policies.facts import Drain, Memory

TIMES = ("up_since", "down_since", "changed_at")


def memory_read(stored: dict[str, Any]) -> Memory:
    times = {name: datetime.fromisoformat(stored[name]) for name in TIMES if stored.get(name)}
    return Memory(**times, drain=drain_read(stored), own=stored.get("own", {}))


def drain_read(stored: dict[str, Any]) -> Drain | None:
    found = stored.get("drain")
    return Drain(found["above"], datetime.fromisoformat(found["since"])) if found else None


def memory_stored(memory: Memory) -> dict[str, Any]:
    times = {name: getattr(memory, name) for name in TIMES}
    found: dict[str, Any] = {name: at.isoformat() for name, at in times.items() if at is not None}
    if memory.drain is not None:
        found["drain"] = {"above": memory.drain.above, "since": memory.drain.since.isoformat()}
    return found | {"own": dict(memory.own)}
