"""The input and output of a policy: frozen, without clock and database.

The protocol of a policy has two members, so that operators can write their own (docs/operators/cluster-policies.md):
a class with a `label`, a JSON Schema of its settings, and `decide`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Protocol


@dataclass(frozen=True)
class Signals:
    """Of one pool at one moment. used_gpus: used by pods or jobs; pending_gpus: requested by waiting ones; queued:
    how many wait.

    least: workers with higher numbers have no work and accept none, as long as the order to drain them holds that
    the cluster knew of then (`drain`); None: the cluster cannot tell. unhealthy: numbers of workers that accept no work because
    something is wrong with them.
    """

    at: datetime
    used_gpus: int = 0
    pending_gpus: int = 0
    queued: int = 0
    least: int | None = None
    drain: str = ""
    unhealthy: frozenset[int] = frozenset()

    @property
    def demand_gpus(self) -> int:
        return self.used_gpus + self.pending_gpus


@dataclass(frozen=True)
class Pool:
    """`count` workers of `gpus` each; decisions stay from minimum to maximum."""

    name: str
    count: int
    gpus: int
    minimum: int
    maximum: int

    @property
    def capacity(self) -> int:
        return self.count * self.gpus


@dataclass(frozen=True)
class Recommendation:
    """How many workers a policy wants, a sentence with the reason, and what to pass to it next time (JSON values)."""

    count: int
    reason: str
    memory: Mapping[str, Any] = field(default_factory=dict)


class Policy(Protocol):
    """Pure: the same input gives the same answer. `settings` were validated by `schema` (the subset of JSON Schema in
    `gpuaas.core.schema`). Bounds, steps, delays and money are enforced by the portal. One with `needs_signals =
    False` also works for clusters that report no demand."""

    label: ClassVar[str]
    schema: ClassVar[Mapping[str, Any]]

    def __init__(self, settings: Mapping[str, Any]) -> None: ...

    def decide(
        self, signals: Signals, pool: Pool, now: datetime, memory: Mapping[str, Any]
    ) -> Recommendation: ...


@dataclass(frozen=True)
class Rules:
    """Limits around every policy; delays in whole seconds.

    up_delay, down_delay: how long the recommendation must last. cool_down: the minimum time between two changes.
    """

    minimum: int
    maximum: int
    step: int = 1
    up_delay: int = 0
    down_delay: int = 0
    cool_down: int = 0


@dataclass(frozen=True)
class Cap:
    """No more than `most` workers, because of `reason`. binding: the present workers shrink to it, never below the
    minimum; otherwise it only stops growth."""

    most: int
    reason: str
    binding: bool = False


@dataclass(frozen=True)
class Drain:
    """An order: workers with numbers above `above` accept no new work, since they are to go. `key` tells it from an
    earlier one that was lifted in between."""

    above: int
    since: datetime

    @property
    def key(self) -> str:
        return f"{self.above}@{self.since.isoformat()}"


@dataclass(frozen=True)
class Memory:
    """State between two decisions: since when the recommendation is above or below, the time of the last change, the
    order to drain, and the policy's memory."""

    up_since: datetime | None = None
    down_since: datetime | None = None
    changed_at: datetime | None = None
    drain: Drain | None = None
    own: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Decision:
    """From `before` to `count` workers; `wanted` is what the policy recommends. refused: the reason of the cap that allowed
    less, or what keeps workers that should go. broken: the policy gave no usable answer, so nothing changes."""

    before: int
    wanted: int
    count: int
    reason: str
    memory: Memory
    refused: str = ""
    broken: bool = False

    @property
    def changes(self) -> bool:
        return self.count != self.before
