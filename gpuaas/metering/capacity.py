"""How the capacity was used: running, held by tenants without running, idle; per site and GPU type, exact, in one
statement."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Protocol

from django.db import connection

from gpuaas.core import clock
from gpuaas.core.sql import sql_read
from quotas.history import LATE
from tenants.actors import Actor
from tenants.selectors import platform_require

SQL = Path(__file__).parent / "sql"
ASKED = "asked AS (SELECT DISTINCT site_id AS site, gpu_type_id AS gpu_type FROM catalog_gpupool),\n"


class Slot(Protocol):
    """[starts_at, ends_at), identified by its day; slots do not overlap."""

    @property
    def day(self) -> date: ...
    @property
    def starts_at(self) -> datetime: ...
    @property
    def ends_at(self) -> datetime: ...


@dataclass(frozen=True)
class Used:
    """Device-seconds. capacity = in_use + unused + idle, exactly, for time in which the site was observed.

    unused: held by tenants and not running. over: used beyond the capacity, so that idle is never negative. unknown:
    the capacity of time without observation; used meanwhile: unseen. held and running are as metered, so that the
    greater of both at each moment = in_use + unused + over + unseen.
    """

    capacity: int = 0
    in_use: int = 0
    unused: int = 0
    idle: int = 0
    over: int = 0
    unknown: int = 0
    unseen: int = 0
    held: int = 0
    running: int = 0

    @property
    def allocated(self) -> int:
        """The part of the capacity that nobody else could have: allocated + idle = capacity."""
        return self.in_use + self.unused

    def __add__(self, other: "Used") -> "Used":
        return Used(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))


@dataclass(frozen=True)
class PoolUsed:
    """For one GPU type at one site, in one slot. card_share: the part of a card that one of its devices is now."""

    site: str
    gpu_type: str
    gpu_type_name: str
    day: date
    used: Used
    card_share: Decimal

    @property
    def cards(self) -> Used:
        """In card-seconds, rounded so that capacity is still the sum of its parts."""
        parts = {
            each.name: round(getattr(self.used, each.name) * self.card_share) for each in fields(self.used)
        }
        return Used(**parts | {"capacity": parts["in_use"] + parts["unused"] + parts["idle"]})


def capacity_used(*, actor: Actor, slots: Sequence[Slot], now: datetime | None = None) -> list[PoolUsed]:
    """For operators and auditors, by site, GPU type and slot, up to `now`; pools without any data are left out.

    Slots are days or months of any zone; time between two slots is not counted.
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
        cursor.execute(f"WITH {ASKED}{levels_sql()}{sql_read(SQL, 'capacity_use')}", parameters)
        rows = cursor.fetchall()
    return [
        PoolUsed(site, slug, name, day, Used(*counted), share)
        for site, slug, name, day, share, *counted in rows
    ]


def levels_sql() -> str:
    """CTEs up to `level` (site, gpu_type, starts_at, ends_at, capacity, taken, …), for rating idle GPUs."""
    return sql_read(SQL, "capacity_levels")


def levels_parameters(*, first: datetime, last: datetime, now: datetime) -> dict[str, Any]:
    """Of [first, last) up to `now`; a future period gives what it will be if nothing changes."""
    moment = clock.whole_second(now)
    return {
        "first": first,
        "last": last,
        "now": moment,
        "fresh": min(moment, clock.now()) - LATE,
        "cuts": [],
    }
