"""How the GPUs were used, as operators see it: a chart of the last days and a bar by GPU type."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal

from billing.months import Span, billing_zone, day_span
from frontend.charts import Chart, Series
from frontend.components import Meter
from frontend.presenters.money import hours_of
from gpuaas.metering.capacity import PoolUsed, Used, capacity_used
from tenants.actors import Actor

DAYS = 30
PARTS = (("running", "in_use"), ("held, not running", "unused"), ("idle", "idle"), ("unknown", "unknown"))


@dataclass(frozen=True)
class TypeUsed:
    """In GPU-hours. percent: of the capacity, running; None where there was none."""

    name: str
    site: str
    used: Used
    percent: int | None
    bar: Meter
    hours: dict[str, Decimal]


def days_back(now: datetime, days: int = DAYS) -> list[Span]:
    """The last days of the billing time zone, today the last of them."""
    today = now.astimezone(billing_zone()).date()
    return [day_span(today - timedelta(days=back)) for back in reversed(range(days))]


def used_recently(*, actor: Actor, now: datetime) -> list[PoolUsed]:
    return capacity_used(actor=actor, slots=days_back(now), now=now)


def percent_of(used: Used) -> int | None:
    """Rounded down, so that 100 means fully used."""
    return used.in_use * 100 // used.capacity if used.capacity else None


def types_used(rows: Iterable[PoolUsed], *, by_site: bool = False) -> list[TypeUsed]:
    sums: dict[tuple[str, str], Used] = {}
    for row in rows:
        key = (row.gpu_type_name, row.site if by_site else "")
        sums[key] = sums.get(key, Used()) + row.cards
    return [_shown(name, site, used) for (name, site), used in sorted(sums.items())]


def _shown(name: str, site: str, used: Used) -> TypeUsed:
    hours = {
        key: hours_of(getattr(used, key))
        for key in ("capacity", "in_use", "unused", "idle", "over", "unknown")
    }
    bar = Meter(used=used.in_use, held=used.unused, limit=used.capacity or 1)
    return TypeUsed(name, site, used, percent_of(used), bar, hours)


def use_chart(rows: Sequence[PoolUsed], *, now: datetime) -> Chart:
    """GPU-hours by day: what ran, what was held without running, what nobody had, what nobody knows."""
    days = [span.day for span in days_back(now)]
    sums: dict[date, Used] = {day: Used() for day in days}
    for row in rows:
        sums[row.day] += row.cards
    cent = Decimal("0.01")
    series = [
        Series(name, tuple(hours_of(getattr(sums[day], part)).quantize(cent) for day in days))
        for name, part in PARTS
    ]
    return Chart(
        id="use-by-day",
        title=f"GPU hours of the last {len(days)} days",
        labels=tuple(f"{day:%-d %b}" for day in days),
        series=tuple(series),
        unit="h",
        note="Days are in the billing time zone. Running + held + idle is the observed capacity; unknown is time without observations.",
    )
