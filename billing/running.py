"""What runs at one moment: its cost per hour, and its future cost if nothing changes.

The one place that computes both, for every page and every API field that shows either: from what is metered at that
moment (so by state, and by what is held or allocated, whichever is billed) and the organization's own prices of each
second to come. The cost so far comes from rating (rating.py). Of tiers the first price is used, because the month's
total is not known.
"""

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings

from billing.money import round_half_up
from billing.rating import LineStatus, idle_at
from billing.tariffs import Tariff, divisors, rows_of, sql_of
from gpuaas.core.clock import whole_second
from gpuaas.metering.models import Meter

WORKSPACE, CLUSTER, IDLE = "workspace", "cluster", "idle"
MOMENT = timedelta(seconds=1)
Ids = Sequence[uuid.UUID]


@dataclass(frozen=True)
class OpenLine:
    """`quantity` running units. holder_id: a workspace or cluster, by `kind`; None if holders are not separated, and
    for idle GPUs.

    price_micro: millionths of a unit-hour; None if another price includes it, or (quarantined) if no price is set. resource: of
    a storage class, the name by which usage knows it.
    """

    project_id: uuid.UUID
    currency: str
    holder_id: uuid.UUID | None
    kind: str
    flavor_id: uuid.UUID | None
    meter: Meter
    surplus: bool
    quantity: int
    price_micro: int | None
    status: LineStatus
    tiers: bool
    resource: str = ""

    @property
    def per_hour_micro(self) -> int:
        return self.quantity * (self.price_micro or 0)


@dataclass(frozen=True)
class Coming:
    """The future amount in the slot of that number. numerator / divisor is the charge in minor units, exact."""

    project_id: uuid.UUID
    holder_id: uuid.UUID | None
    kind: str
    slot: int
    currency: str
    divisor: int
    numerator: int
    gpu_seconds: int


@dataclass(frozen=True)
class Ahead:
    """[starts_at, ends_at): a part of the future."""

    starts_at: datetime
    ends_at: datetime


def open_lines(
    *, now: datetime, projects: Ids | None, holders: Ids | None = None, by_holder: bool = False
) -> list[OpenLine]:
    """Of all `projects` (None = the platform) or of some `holders`; 2 queries, 3 if a pool is reserved."""
    moment = whole_second(now)
    parameters = _parameters(moment, moment + MOMENT, projects, holders) | {"by_holder": by_holder}
    rows = []
    for row in _run(("running",), parameters, apart=by_holder):
        meter, surplus, quantity, micro, status, tiers, resource = row[5:]
        values: list[Any] = [
            *row[:5],
            Meter(meter),
            surplus,
            quantity,
            micro,
            LineStatus(status),
            tiers,
            resource,
        ]
        rows.append(OpenLine(*values))
    return rows


def burn_micro(*, now: datetime, projects: Ids | None, holders: Ids | None = None) -> dict[uuid.UUID, int]:
    """Millionths per hour by project, each in the currency of its organization."""
    burn: dict[uuid.UUID, int] = {}
    for line in open_lines(now=now, projects=projects, holders=holders):
        burn[line.project_id] = burn.get(line.project_id, 0) + line.per_hour_micro
    return burn


def coming(
    *,
    now: datetime,
    projects: Ids | None,
    stretches: Sequence[Ahead],
    holders: Ids | None = None,
    most: int = 0,
    tariff: Tariff | None = None,
) -> list[Coming]:
    """The future cost of what runs at `now` in each of `stretches`, cut at `now`: by project, and by holder for the
    `most` expensive ones.

    Until the end of each lease; then suspended until it is deleted. 2 queries, 3 if a pool is reserved. tariff: read before, of
    these projects (and others) from `now` or earlier to the last end or later.
    """
    moment = whole_second(now)
    ahead = [
        (number, max(one.starts_at, moment), one.ends_at)
        for number, one in enumerate(stretches)
        if one.ends_at > moment
    ]
    if not ahead:
        return []
    parameters = _parameters(moment, max(end for *_, end in ahead), projects, holders, tariff) | {
        "slots": [number for number, *_ in ahead],
        "starts": [start for _, start, _ in ahead],
        "ends": [end for *_, end in ahead],
        "most": most,
    }
    costs = []
    names = ("worth", "dearest" if most else "no_dearest", "cards", "coming")
    for row in _run(names, parameters, tariff, apart=most > 0):
        values: list[Any] = [*row[:6], int(row[6]), row[7]]
        costs.append(Coming(*values))
    return costs


@dataclass(frozen=True)
class Going:
    """What runs of one kind in a project: millionths per hour now, and what is to come of it, as in `Coming`."""

    project_id: uuid.UUID
    kind: str
    divisor: int
    per_hour_micro: int
    numerator: int


def going(*, now: datetime, until: datetime, projects: Ids | None) -> list[Going]:
    """`open_lines` and `coming` in one reading of what runs. 2 queries, 3 if a pool is reserved."""
    moment = whole_second(now)
    parameters = _parameters(moment, until, projects, None) | {"slots": [], "starts": [], "ends": []}
    found = []
    for row in _run(("worth", "now_and_rest"), parameters):
        values: list[Any] = [*row[:4], int(row[4])]
        found.append(Going(*values))
    return found


def coming_minor(rows: Iterable[Coming | Going]) -> int:
    """In minor units, rounded half up once for each project, so that sums over projects add up."""
    sums: dict[tuple[uuid.UUID, int], int] = {}
    for row in rows:
        key = (row.project_id, row.divisor)
        sums[key] = sums.get(key, 0) + row.numerator
    return sum(round_half_up(numerator, divisor) for (_, divisor), numerator in sums.items())


def _parameters(
    now: datetime, last: datetime, projects: Ids | None, holders: Ids | None, tariff: Tariff | None = None
) -> dict[str, Any]:
    is_idle_asked = holders is None and (tariff is None or tariff.is_reserved)
    idle = idle_at(at=now, projects=projects) if is_idle_asked else []
    return {
        **divisors(),
        "meters": list(Meter.values),
        "now": now,
        "first": now,
        "last": last,
        "grace": timedelta(days=settings.LEASE_GRACE_DAYS),
        "projects": None if projects is None else list(projects),
        "holders": None if holders is None else list(holders),
        "idle_projects": [row.project_id for row in idle],
        "idle_wares": [row.flavor_id for row in idle],
        "idle_gpus": [row.gpus for row in idle],
        "idle_untils": [row.reserved_until for row in idle],
    }


def _run(
    names: Sequence[str], parameters: dict[str, Any], tariff: Tariff | None = None, *, apart: bool = False
) -> list[tuple[Any, ...]]:
    """apart: holders are told apart."""
    prices: tuple[str, ...] = ("payer", "published", "tariff")
    if tariff is not None:
        prices = ("portal_tariff", "portal_unsold")
        parameters = parameters | tariff.arrays_for(first=parameters["first"], last=parameters["last"])
    rows = ("open_rows", "open_apart" if apart else "open_added", "open")
    return rows_of(sql_of(*prices, *rows, *names), parameters, projects=parameters["projects"])
