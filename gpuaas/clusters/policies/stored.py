"""Converts a policy's memory to JSON and back."""

from datetime import datetime
from typing import Any

from gpuaas.clusters.policies.facts import Memory

TIMES = ("up_since", "down_since", "changed_at")


def memory_read(stored: dict[str, Any]) -> Memory:
    times = {name: datetime.fromisoformat(stored[name]) for name in TIMES if stored.get(name)}
    return Memory(**times, own=stored.get("own", {}))


def memory_stored(memory: Memory) -> dict[str, Any]:
    times = {name: getattr(memory, name) for name in TIMES}
    return {name: at.isoformat() for name, at in times.items() if at is not None} | {"own": dict(memory.own)}
