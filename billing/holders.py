"""The cost of workspaces and clusters, one row each; only the rows of a page are read."""

import uuid
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

from django.db import connection

from billing.money import amount_of
from billing.rating import Slots, hashed, rated_sql
from billing.tariffs import sql_text

DEAREST = "-amount"
SORTS = ("amount", DEAREST, "hours", "-hours", "name", "-name")


@dataclass(frozen=True)
class HolderRow:
    """The cost of one workspace or cluster over all its lines. holder_id None: what nobody held. quarantined: number of lines
    without a price."""

    project_id: uuid.UUID
    project: str
    holder_id: uuid.UUID | None
    holder: str | None
    is_cluster: bool
    amount: Decimal
    gpu_seconds: int
    quarantined: int


@dataclass(frozen=True)
class HolderPage:
    """Some of what a question finds, in the order asked for. count, amount, gpu_seconds: of all of it; largest: the amount of the
    most expensive one. Without rows they are zero: nothing was found, or nothing after those skipped.
    """

    rows: list[HolderRow]
    count: int = 0
    amount: Decimal = Decimal(0)
    gpu_seconds: int = 0
    largest: Decimal = Decimal(0)


def rate_holders(
    *,
    slots: Slots,
    now: datetime,
    projects: Sequence[uuid.UUID] | None,
    wanted: Sequence[uuid.UUID] | None = None,
    dearest: int = 0,
    most: int | None = None,
    skipped: int = 0,
    sort: str = DEAREST,
) -> HolderPage:
    """`most` of them after the first `skipped`; `wanted` = only these and as many of the most expensive. sort: one of `SORTS`."""
    sql, parameters = rated_sql(slots=slots, now=now, projects=projects, by_holder=True, stored=True)
    parameters |= {
        "wanted": None if wanted is None else list(wanted),
        "dearest": dearest,
        "most": most,
        "skipped": skipped,
        "sort": sort,
    }
    with hashed() if projects is None else nullcontext(), connection.cursor() as cursor:
        cursor.execute(sql + sql_text("cards") + sql_text("holders"), parameters)
        rows = cursor.fetchall()
    if not rows:
        return HolderPage([])
    costs = [
        HolderRow(project, slug, key, name, is_cluster, amount_of(minor, currency), gpu_seconds, quarantined)
        for project, slug, key, name, is_cluster, currency, minor, gpu_seconds, quarantined, *_ in rows
    ]
    currency, (count, minor, gpu_seconds, largest) = rows[0][5], rows[0][9:]
    return HolderPage(costs, count, amount_of(minor, currency), gpu_seconds, amount_of(largest, currency))


def rate_holder_days(
    *, slots: Slots, now: datetime, project_id: uuid.UUID, holders: Sequence[uuid.UUID]
) -> dict[tuple[uuid.UUID | None, date], Decimal]:
    """By (workspace or cluster, first day of the slot), for these and what nobody held; each sum is rounded on its
    own."""
    sql, parameters = rated_sql(
        slots=slots, now=now, projects=[project_id], by_holder=True, holders=holders, stored=True
    )
    with connection.cursor() as cursor:
        cursor.execute(sql + sql_text("holder_days"), parameters | {"wanted": list(holders)})
        return {(key, day): amount_of(minor, currency) for key, day, currency, minor in cursor.fetchall()}
