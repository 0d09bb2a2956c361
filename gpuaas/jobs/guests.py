"""A guest is a job that runs in another workspace of its project while its own is full. It leaves, with a notice, once that
workspace needs its place, and waits in its own queue again."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from gpuaas.catalog.models import GpuPool
from gpuaas.core.conditions import Status
from gpuaas.jobs.models import Job
from gpuaas.lifecycle.kind import ConditionChange, conditions_write
from gpuaas.workspaces.lending import KEPT, TIME
from gpuaas.workspaces.room import Room

NOTICE: Final = timedelta(seconds=120)  # after SIGTERM, for what has to leave
LEFT = "Left"  # the reason of the condition
WAITS_AGAIN = {LEFT, "Preempted"}  # reasons that say what comes next


@dataclass(frozen=True)
class Wanted:
    """What one that waits in the workspace's own queue asks for. moves: it moves files, and passes those that it keeps waiting no
    longer."""

    pool: GpuPool | None
    takes: dict[str, int]
    moves: bool = False


def to_end(room: Room, guests: Sequence[Job], wanted: Iterable[Wanted]) -> list[Job]:
    """Those of the guests, given newest first, that have to leave: the newest ones and none without need, so that what is `wanted`
    fits as far as it would without any of them. Pure.

    room: as it is with the guests, and without what is ending anyway. wanted: in turn."""
    room = _with(room, guests, wanted)
    leave: list[Job] = []
    for guest in guests:
        if _is_over(room, guest):
            room = room.more(guest.pool, guest.takes)
            leave.append(guest)
    for guest in leave[::-1]:
        kept = room.less(guest.pool, guest.takes)
        if not _is_over(kept, guest):
            room = kept
            leave.remove(guest)
    return leave


def _with(room: Room, guests: Iterable[Job], wanted: Iterable[Wanted]) -> Room:
    """`room` with what would start by now if there were no guests, which may be more than it has."""
    alone, blocked = room, False
    for guest in guests:
        alone = alone.more(guest.pool, guest.takes)
    for each in wanted:
        if blocked and not each.moves:
            continue
        short = alone.shortage(each.pool, each.takes)
        if short is None:
            room = room.less(each.pool, each.takes)
        elif each.moves or short.is_lasting:
            continue
        else:
            blocked = True
        alone = alone.less(each.pool, each.takes)
    return room


def _is_over(room: Room, guest: Job) -> bool:
    """Whether more than there is is taken of anything that the guest takes."""
    if guest.pool is not None and guest.takes["gpus"]:
        amount = room.pools.get(guest.pool)
        if amount is None or amount.taken > amount.bought:
            return True
    named = (name for name, each in guest.takes.items() if name != "gpus" and each)
    return any(room.amounts[name].taken > room.amounts[name].bought for name in named)


def left_words(row: Job, at: datetime, why: str) -> str:
    return f"it had to leave {row.runs_in.name} at {at:{TIME}}: {why}"


def left(words: str, row: Job) -> ConditionChange:
    then = f"it waits in the queue of {row.workspace.name} and starts from the beginning"
    return _condition(Status.FALSE, LEFT, f"{words}; {then}")


def runs_again_write(row: Job) -> bool:
    """Of a locked row that runs; True if that is news."""
    at = row.preempted_at
    if at is None or row.conditions.get(KEPT, {}).get("reason") != LEFT:
        return False
    often = "" if row.preemptions == 1 else f"; it has been so {row.preemptions:,} times"
    words = f"it runs again; it had to leave another workspace at {at:{TIME}}{often}"
    return conditions_write(row, _condition(Status.TRUE, "RunsAgain", words))


def over_write(row: Job) -> None:
    """Of a locked row that runs no more: it starts nowhere again."""
    if row.conditions.get(KEPT, {}).get("reason") in WAITS_AGAIN:
        conditions_write(row, drop=(KEPT,))


def _condition(status: Status, reason: str, message: str) -> dict[str, Any]:
    return {"type": KEPT, "status": status, "reason": reason, "message": message}
