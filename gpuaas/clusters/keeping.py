"""What a warm pool lacks and what it has too much of: a pure function of what waits in it."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Waiting:
    """One cluster. fit: it could be claimed now; broken: it never will be. What is neither is being made or mended.
    current: as the pool says, of the template's newest version."""

    id: uuid.UUID
    fit: bool = False
    broken: bool = False
    current: bool = True


@dataclass(frozen=True)
class Deed:
    """order: so many; delete: those, in this order. yields: what may go where there is no room for what is ordered."""

    order: int = 0
    delete: tuple[uuid.UUID, ...] = ()
    yields: tuple[uuid.UUID, ...] = ()


def keep(rows: Sequence[Waiting], *, wanted: int, making_most: int) -> Deed:
    """`rows` from the oldest to the newest. What is being made goes before what is ready; of an older choice so many ready ones
    stay as there are too few of the newest."""
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
