"""What an environment or a job has cost so far: what is charged of it by itself, and its share of what its workspace is charged.

Neither is a line of a statement. Requires `billing:view`, as in costs.py.
"""

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction

from django.db import connection
from django.db.models import Q

from billing.money import HOUR, MICRO, price_of, round_half_up
from billing.months import month_span, months_between
from billing.rating import ADDED_MOST, OBSERVED, LineStatus, Slots, rate_usage, time_parameters, usage_sql
from billing.selectors.costs import currency_of
from billing.tariffs import sql_of, sql_text, tariff_read
from gpuaas.core import clock
from gpuaas.environments.models import Environment
from gpuaas.jobs.models import Job
from gpuaas.metering.final import archived_until
from gpuaas.metering.models import TOKEN_METERS, Meter, UsageInterval
from tenants.actors import Actor
from tenants.roles import Permission
from tenants.selectors import project_require

Inside = Environment | Job
Key = tuple[date, bool, uuid.UUID | None, Meter]  # month, surplus, flavor


@dataclass(frozen=True)
class InsideCost:
    """To the millionth. charged: by itself, for the seconds that its pods had GPUs, or for its tokens. included: what its workspace
    is charged for GPUs (vCPU and memory, where these have prices) that it holds, for the seconds that these pods had them; that
    is not charged again. complete: False where a part has no price. counted_since: what was before is archived; None where
    nothing is."""

    currency: str
    charged: Decimal
    included: Decimal
    gpu_seconds: int
    complete: bool
    counted_since: datetime | None
    as_of: datetime


def inside_cost(*, actor: Actor, row: Inside, now: datetime | None = None) -> InsideCost:
    """NotFound for outsiders. The same few queries at any size."""
    project_require(actor=actor, project=row.project, permission=Permission.BILLING_VIEW)
    moment = clock.whole_second(now or clock.now())
    found = list(_intervals(row))
    parts = _parts(row, found, moment) if found else []
    means = _means(row, parts, moment) if any(part.is_tiered for part in parts) else {}
    sums = {False: Fraction(0), True: Fraction(0)}
    for part in parts:
        price = means.get(part.key, part.price_micro) if part.is_tiered else part.price_micro
        sums[part.is_shared] += part.unit_seconds * Fraction(price or 0) / HOUR
    gpus = (_seconds(each, moment) for each in found if each.meter == Meter.GPU_ALLOCATED)
    return InsideCost(
        currency=currency_of(row.project.organization_id),
        charged=_amount(sums[False]),
        included=_amount(sums[True]),
        gpu_seconds=sum(gpus),
        complete=all(part.price_micro is not None for part in parts),
        counted_since=archived_until(row.created_at),
        as_of=moment,
    )


@dataclass(frozen=True)
class _Part:
    """Unit-seconds of a month at one price; None: it has none. is_shared: of what the workspace holds."""

    month: date
    is_shared: bool
    surplus: bool
    flavor_id: uuid.UUID | None
    meter: Meter
    status: LineStatus
    is_tiered: bool
    price_micro: int | None
    unit_seconds: int

    @property
    def key(self) -> Key:
        return self.month, self.surplus, self.flavor_id, self.meter


def _intervals(row: Inside) -> Iterable[UsageInterval]:
    """Of its pods, and of its tokens."""
    if isinstance(row, Job):
        named = Q(consumer_name__startswith=f"{row.external_name}-", consumer_name__regex=row.pods_named)
        mine = named & Q(meter=Meter.GPU_ALLOCATED)
    else:
        tokens = Q(meter__in=TOKEN_METERS, consumer_uid__startswith=f"tokens:{row.pk}:")
        mine = Q(consumer_name__in=row.pods, meter=Meter.GPU_ALLOCATED) | tokens
    return UsageInterval.objects.filter(mine, workspace__in=_places(row)).order_by()


def _places(row: Inside) -> list[uuid.UUID]:
    """A guest's pods count in the workspace that they were in."""
    return row.ran_in if isinstance(row, Job) else [row.workspace_id]


def _seconds(each: UsageInterval, now: datetime) -> int:
    return each.quantity * max(int(((each.ended_at or now) - each.started_at).total_seconds()), 0)


def _parts(row: Inside, found: Sequence[UsageInterval], now: datetime) -> list[_Part]:
    """By the same tariff and the same sessions as a statement."""
    slots = _slots(found, now)
    parameters = time_parameters(slots, now)
    first, last = parameters["first"], parameters["last"]
    tariff = tariff_read(first=first, last=last, projects=[row.project_id])
    sizes = [_sizes(row, each) for each in found]
    parameters |= {
        **tariff.arrays_for(first=first, last=last),
        "most_added": tariff.most_added,
        "observed": OBSERVED,
        "projects_asked": [row.project_id],
        "holders": _places(row),
        "lent": row.workspace.is_spot,
        "ids": [each.pk for each in found],
        "vcpus": [vcpus for vcpus, _ in sizes],
        "memory": [memory for _, memory in sizes],
    }
    names = (sql_text(name) for name in ("price", "inside"))
    with connection.cursor() as cursor:
        cursor.execute(
            "".join([sql_of("portal_tariff", "portal_slots"), usage_sql(tariff), *names]), parameters
        )
        rows = cursor.fetchall()
    return [
        _Part(month, shared, surplus, flavor, Meter(meter), LineStatus(status), *rest)
        for month, shared, surplus, flavor, meter, status, *rest in rows
    ]


def _slots(found: Sequence[UsageInterval], now: datetime) -> Slots:
    """The months in which anything of it ran, or is charged as if it had."""
    last = min(max(each.ended_at or now for each in found) + ADDED_MOST, now)
    months = months_between(min(each.started_at for each in found), last)
    return Slots(months, [month_span(month) for month in months])


def _sizes(row: Inside, each: UsageInterval) -> tuple[int, int]:
    """vCPUs and memory of the pod."""
    if isinstance(row, Environment) and each.consumer_name != row.external_name:
        return row.worker_vcpus, row.worker_memory_gib
    return row.vcpus, row.memory_gib


def _means(row: Inside, parts: Sequence[_Part], now: datetime) -> dict[Key, Fraction]:
    """Where the price follows from all that the project used in the month, the mean of it: so shares never add up to more than is
    charged."""
    months = sorted({part.month for part in parts})
    spans = [month_span(month) for month in months]
    sums: dict[Key, tuple[int, int]] = {}
    for cell in rate_usage(slots=Slots(months, spans), now=now, projects=[row.project_id]):
        if cell.unit_price is not None:
            key = (cell.month, cell.surplus, cell.flavor_id, cell.meter)
            micro, seconds = sums.get(key, (0, 0))
            micro += int(cell.unit_price * MICRO) * cell.unit_seconds
            sums[key] = micro, seconds + cell.unit_seconds
    return {key: Fraction(micro, seconds) for key, (micro, seconds) in sums.items() if seconds}


def _amount(micro: Fraction) -> Decimal:
    return price_of(round_half_up(micro.numerator, micro.denominator))
