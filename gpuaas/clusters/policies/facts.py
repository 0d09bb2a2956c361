"""What a policy is told and what it answers: frozen, without a clock and without a database.

The protocol of a policy is two members wide, so that operators can write their own (docs/operator-guide.md): a class with a
`label`, a JSON Schema of its settings, and `decide`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Protocol


@dataclass(frozen=True)
class Signals:
    """Of one pool at one moment. used_gpus: given to pods or jobs; pending_gpus: what those that wait ask for; queued: how many
    wait."""

    at: datetime
    used_gpus: int = 0
    pending_gpus: int = 0
    queued: int = 0

    @property
    def demand_gpus(self) -> int:
        return self.used_gpus + self.pending_gpus


@dataclass(frozen=True)
class Pool:
    """`count` workers of `gpus` each; what is decided stays from minimum to maximum."""

    name: str
    count: int
    gpus: int
    minimum: int
    maximum: int

    @property
    def capacity(self) -> int:
        return self.count * self.gpus


@dataclass(frozen=True)
class Wish:
    """How many workers a policy wants, a sentence that says why, and what it wants to be told again next time (JSON values)."""

    count: int
    reason: str
    memory: Mapping[str, Any] = field(default_factory=dict)


class Policy(Protocol):
    """Pure: the same questions get the same answers. `settings` have been checked by `schema` (the part of JSON Schema that
    `gpuaas.clusters.schema` takes). It need not know bounds, steps, delays or money: those are kept around it. One with `needs_signals = False` is also for clusters that cannot
    tell what there is to do."""

    label: ClassVar[str]
    schema: ClassVar[Mapping[str, Any]]

    def __init__(self, settings: Mapping[str, Any]) -> None: ...

    def decide(self, signals: Signals, pool: Pool, now: datetime, memory: Mapping[str, Any]) -> Wish: ...


@dataclass(frozen=True)
class Rules:
    """What is kept around every policy; delays in whole seconds.

    up_delay, down_delay: for how long the wish must last. cool_down: the least time between two changes.
    """

    minimum: int
    maximum: int
    step: int = 1
    up_delay: int = 0
    down_delay: int = 0
    cool_down: int = 0


@dataclass(frozen=True)
class Cap:
    """No more than `most` workers, because of `reason`. binding: what is there already shrinks to it, never below the minimum;
    else it only stops growth."""

    most: int
    reason: str
    binding: bool = False


@dataclass(frozen=True)
class Memory:
    """Between two decisions: since when the wish is above or below, when the last change was, and the policy's own."""

    up_since: datetime | None = None
    down_since: datetime | None = None
    changed_at: datetime | None = None
    own: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Decision:
    """From `before` to `count` workers; `wanted` is the policy's wish. refused: the sentence of the cap that allowed less.
    broken: the policy gave no answer that can be used, so nothing changes."""

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
