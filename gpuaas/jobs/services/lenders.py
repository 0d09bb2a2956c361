"""Where a job may be a guest: the other workspaces of its project that are open to it, in one round of its queue."""

import uuid
from collections import defaultdict
from typing import Any

from django.db.models import Exists, OuterRef, QuerySet

from gpuaas.catalog.models import GpuPool
from gpuaas.jobs.models import Job
from gpuaas.jobs.selectors import waiting
from gpuaas.jobs.states import JobState
from gpuaas.workspaces.models import Workspace, WorkspaceFlavor
from gpuaas.workspaces.room import Amount, Room, room_of
from gpuaas.workspaces.services.rows import WORKSPACE
from gpuaas.workspaces.states import WorkspaceState

SEEN = {"vcpus": "cpu", "memory_gib": "memory"}  # as sites name them


class Lenders:
    """They are locked with the workspace whose queue it is. One in which a job of its own waits lends nothing, nor one that sells the
    GPUs in another price class."""

    def __init__(self, own: Workspace, others: list[Workspace]) -> None:
        lending = [row for row in others if row.open_to_project and row.state == WorkspaceState.READY]
        self.any_open = bool(lending)
        busy = (
            set(waiting().filter(workspace__in=lending).values_list("workspace", flat=True))
            if lending
            else set()
        )
        self._own, self._left = own, [row for row in lending if row.pk not in busy]
        self._classes = _price_classes([own, *self._left]) if self._left else {}
        self._rooms: dict[uuid.UUID, tuple[Room, ...]] = {}

    @property
    def any_left(self) -> bool:
        return bool(self._left)

    def take(self, row: Job) -> Workspace | None:
        """The first with room for it, of which it takes that from now on. Where one that could have it is full, no later job of this
        queue passes it there."""
        if not row.borrow:
            return None
        suiting = [place for place in self._left if self._suits(place, row.pool)]
        for place in suiting:
            rooms = self._rooms_of(place)
            if all(room.shortage(row.pool, row.takes) is None for room in rooms):
                self._rooms[place.pk] = tuple(room.less(row.pool, row.takes) for room in rooms)
                return place
        for place in suiting:
            if self._rooms_of(place)[0].empty.shortage(row.pool, row.takes) is None:
                self._left.remove(place)
        return None

    def _suits(self, place: Workspace, pool: GpuPool | None) -> bool:
        if pool is None:
            return True
        theirs = self._classes.get((place.pk, pool.pk), set())
        return bool(theirs) and theirs <= self._classes.get((self._own.pk, pool.pk), set())

    def _rooms_of(self, place: Workspace) -> tuple[Room, ...]:
        """By what the portal knows; and as its site was seen last, where members may have pods of their own."""
        if place.pk not in self._rooms:
            room = room_of(workspace=place)
            self._rooms[place.pk] = (room, _seen(place, room))
        return self._rooms[place.pk]


def places_lock(workspace_id: uuid.UUID) -> tuple[Workspace, Lenders]:
    """The workspace whose queue it is, and those that may lend. All are locked in the order of their keys, so that two rounds neither
    wait for each other nor take the same room."""
    found = WORKSPACE.lock_all([workspace_id, *_lending_to(workspace_id).values_list("pk", flat=True)])
    own = found.pop(workspace_id)
    return own, Lenders(own, list(found.values()))


def _lending_to(workspace_id: uuid.UUID) -> QuerySet[Workspace]:
    """None where nothing waits that borrows."""
    asked = Job.objects.filter(workspace=OuterRef("pk"), state=JobState.QUEUED, borrow=True)
    own = Workspace.objects.filter(Exists(asked), pk=workspace_id, notice_seconds=0)
    rows = Workspace.objects.filter(
        project__in=own.values("project"),
        site__in=own.values("site"),
        open_to_project=True,
        state=WorkspaceState.READY,
        notice_seconds=0,
    )
    return rows.exclude(pk=workspace_id).order_by("pk")


def _price_classes(places: list[Workspace]) -> dict[tuple[Any, Any], set[str]]:
    """By workspace and pool."""
    rows = WorkspaceFlavor.objects.filter(workspace__in=places, confirmed__gt=0, count__gt=0)
    found: dict[tuple[Any, Any], set[str]] = defaultdict(set)
    for place, pool, price_class in rows.values_list("workspace", "flavor__pool", "flavor__price_class"):
        found[place, pool].add(price_class)
    return found


def _seen(place: Workspace, room: Room) -> Room:
    """What was not seen there is as in `room`."""
    hard, used = place.observed.get("hard", {}), place.observed.get("used", {})

    def amount(key: str, known: Amount) -> Amount:
        return Amount(hard[key], used.get(key, 0)) if key in hard else known

    amounts = {name: amount(key, room.amounts[name]) for name, key in SEEN.items()}
    return Room(
        {**room.amounts, **amounts},
        {pool: amount(pool.resource_name, known) for pool, known in room.pools.items()},
    )
