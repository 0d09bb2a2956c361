"""A worker is killed by SIGKILL at the boundaries of a change: at each one, or early, midway and at the last.

Both ways make the same checks, so that the short one of the fast tier says less often what the long one says everywhere.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from tests.factories.quotas import counters_must_match
from tests.workspaces.crashing_worker import Life

BOUNDARIES_MAX = 200
NEVER = 0
Row = TypeVar("Row")


@dataclass(frozen=True)
class Change(Generic[Row]):
    """Something that a worker does, as often as anybody asks for it.

    ask: for the n-th time, from 1. life: of a worker that does it and is killed at its n-th boundary, NEVER = at none.
    settle: what the next worker makes of it. check: that nobody sees a difference. calls: those to the site that the worker
    makes at least.
    """

    ask: Callable[[int], Row]
    life: Callable[[Row, int], Life]
    settle: Callable[[Row], Row]
    check: Callable[[Row], object]
    calls: Sequence[str]

    def lived(self, number: int, boundary: int) -> Life:
        row = self.ask(number)
        life = self.life(row, boundary)
        self.check(self.settle(row))
        counters_must_match()
        return life

    def must_be_all_of(self, survivor: Life) -> None:
        """An undisturbed worker has left out none of it."""
        named = {f"{side} {call}" for call in ("claim", *self.calls, "apply") for side in ("before", "after")}
        assert not survivor.killed
        assert named <= set(survivor.crossed), named - set(survivor.crossed)


class Kill(Protocol):
    """Changes take turns, each from where the one before it ended; answers in how many rounds."""

    def __call__(self, *changes: Change[Any]) -> int: ...


def everywhere(*changes: Change[Any]) -> int:
    """At boundary 1, 2, 3 … of each change, until it survives; one that has goes on unharmed beside the others."""
    lives: list[list[Life]] = [[] for _ in changes]
    for number in range(1, BOUNDARIES_MAX + 1):
        for change, of_it in zip(changes, lives, strict=True):
            life = change.lived(number, number)
            if not of_it or of_it[-1].killed:
                of_it.append(life)
        if not any(of_it[-1].killed for of_it in lives):
            break
    for change, (*killed, survivor) in zip(changes, lives, strict=True):
        change.must_be_all_of(survivor)
        assert [life.crossed[-1] for life in killed] == list(survivor.crossed)
    return number


def in_three_places(*changes: Change[Any]) -> int:
    """At the first boundary that an undisturbed worker crosses, midway, and at the last one, after which all is written."""
    survivors = [change.lived(1, NEVER) for change in changes]
    for change, survivor in zip(changes, survivors, strict=True):
        change.must_be_all_of(survivor)
    rounds = 1
    for part in (0, 1, 2):
        rounds += 1
        for change, survivor in zip(changes, survivors, strict=True):
            boundary = max(1, len(survivor.crossed) * part // 2)
            life = change.lived(rounds, boundary)
            assert life.killed
            assert life.crossed == survivor.crossed[:boundary]
    return rounds
