"""What of the capacity was used: running, kept by tenants without running, idle; per site and GPU type, exact, in one statement."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import date, datetime
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from django.db import connection

from gpuaas.core import clock
from quotas.history import LATE
from tenants.actors import Actor
from tenants.selectors import platform_require

SQL = Path(__file__).parent / "sql"
ASKED = "asked AS (SELECT DISTINCT site_id AS site, gpu_type_id AS gpu_type FROM catalog_gpupool),\n"


class Slot(Protocol):
    """[starts_at, ends_at), told apart by its day; slots do not overlap."""

    @property
    def day(self) -> date: ...
    @property
    def starts_at(self) -> datetime: ...
    @property
    def ends_at(self) -> datetime: ...


@dataclass(frozen=True)
class Used:
    """Device-seconds. capacity = in_use + kept + idle, exactly: of time in which the site was looked at.

    kept: held by tenants and not running. over: taken beyond the capacity, never an idle below zero. unknown: of what was
    there when nobody looked; taken meanwhile: unseen. held and running are as metered, so that
    the greater of both, moment by moment, = in_use + kept + over + unseen.
    """

    capacity: int = 0
    in_use: int = 0
    kept: int = 0
    idle: int = 0
    over: int = 0
    unknown: int = 0
    unseen: int = 0
    held: int = 0
    running: int = 0

    @property
    def allocated(self) -> int:
        """Of the capacity, what nobody else could have: allocated + idle = capacity."""
        return self.in_use + self.kept

    def __add__(self, other: "Used") -> "Used":
        return Used(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))


@dataclass(frozen=True)
class PoolUsed:
    """Of one GPU type at one site, in one slot."""

    site: str
    gpu_type: str
    gpu_type_name: str
    day: date
    used: Used


def capacity_used(*, actor: Actor, slots: Sequence[Slot], now: datetime | None = None) -> list[PoolUsed]:
    """For operators and auditors, by site, GPU type and slot, up to `now`; pools of which nothing is known are left out.

    Slots are days or months of whatever zone; what lies between two of them is counted in neither.
    """
    platform_require(actor=actor)
    parameters = {
        **levels_parameters(
            first=min(slot.starts_at for slot in slots),
            last=max(slot.ends_at for slot in slots),
            now=now or clock.now(),
        ),
        "days": [slot.day for slot in slots],
        "starts": [slot.starts_at for slot in slots],
        "ends": [slot.ends_at for slot in slots],
        "cuts": [at for slot in slots for at in (slot.starts_at, slot.ends_at)],
    }
    with connection.cursor() as cursor:
        cursor.execute(f"WITH {ASKED}{levels_sql()}{_sql('capacity_use.sql')}", parameters)
        rows = cursor.fetchall()
    return [PoolUsed(site, slug, name, day, Used(*counted)) for site, slug, name, day, *counted in rows]


def used_by_type(rows: Iterable[PoolUsed]) -> dict[str, Used]:
    """By the name of the GPU type, over all sites and slots."""
    found: dict[str, Used] = {}
    for row in rows:
        found[row.gpu_type_name] = found.get(row.gpu_type_name, Used()) + row.used
    return found


def levels_sql() -> str:
    """CTEs up to `level` (site, gpu_type, starts_at, ends_at, capacity, taken, …) for whoever rates what was idle."""
    return _sql("capacity_levels.sql")


def levels_parameters(*, first: datetime, last: datetime, now: datetime) -> dict[str, Any]:
    """Of [first, last) up to `now`; one that lies ahead asks what it will be if nothing changes."""
    moment = clock.whole_second(now)
    return {
        "first": first,
        "last": last,
        "now": moment,
        "fresh": min(moment, clock.now()) - LATE,
        "cuts": [],
    }


@cache
def _sql(name: str) -> str:
    return (SQL / name).read_text("utf-8")
