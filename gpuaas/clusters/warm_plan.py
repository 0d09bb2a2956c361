"""What a warm pool lacks and what it has too much of: a pure function of its clusters."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Waiting:
    """One cluster. fit: it can be claimed now; broken: it never will be. If neither, it is being made or repaired.
    current: of the pool's choice and the template's newest version."""

    id: uuid.UUID
    fit: bool = False
    broken: bool = False
    current: bool = True


@dataclass(frozen=True)
class Deed:
    """order: how many; delete: those, in this order. yields: what may be deleted if there is no room for the order."""

    order: int = 0
    delete: tuple[uuid.UUID, ...] = ()
    yields: tuple[uuid.UUID, ...] = ()


def keep(rows: Sequence[Waiting], *, wanted: int, making_most: int) -> Deed:
    """`rows` from the oldest to the newest. Clusters being made are deleted before ready ones; of an older choice, as
    many ready ones stay as the newest lacks."""
    sound = [row for row in rows if not row.broken]
    fit = [row.id for row in sound if row.current and row.fit]
    making = [row.id for row in sound if row.current and not row.fit]
    old_fit = [row.id for row in sound if not row.current and row.fit]
    old_making = [row.id for row in sound if not row.current and not row.fit]
    missing = wanted - len(fit) - len(making)
    surplus = [*reversed(making), *reversed(fit)][: max(-missing, 0)]
    leaving = max(len(old_fit) - max(wanted - len(fit), 0), 0)
    return Deed(
        order=max(min(missing, making_most - len(making)), 0),
        delete=(*(row.id for row in rows if row.broken), *old_making, *surplus, *old_fit[:leaving]),
        yields=tuple(old_fit[leaving:]),
    )
