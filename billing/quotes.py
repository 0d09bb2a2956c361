"""What a request would cost, before the click: exact, from the prices in force now."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.conf import settings

from billing.money import HOUR, MICRO, amount_of, charge_divisor, price_of, round_half_up
from billing.selectors import Price, prices_at
from gpuaas.catalog.models import Flavor
from gpuaas.core import clock
from gpuaas.metering.models import Meter

Prices = dict[tuple[uuid.UUID | None, Meter], Price]
DAYS_30 = 30 * 24 * HOUR


@dataclass(frozen=True)
class QuoteItem:
    """`count` of a flavor; its GPUs are count × flavor.gpus."""

    flavor: Flavor
    count: int


@dataclass(frozen=True)
class QuoteLine:
    """unit_price and per_hour are None where the flavor has no price yet."""

    label: str
    meter: Meter
    quantity: int
    unit_price: Decimal | None
    per_hour: Decimal | None


@dataclass(frozen=True)
class Quote:
    """per_hour is exact; the rest is rounded half up to the minor unit. `complete` is False where a price is missing."""

    currency: str
    lines: tuple[QuoteLine, ...]
    per_hour: Decimal
    days_30: Decimal
    to_lease_end: Decimal | None
    complete: bool


def quote(
    *,
    items: Sequence[QuoteItem],
    storage_gib: int = 0,
    lease_ends_at: datetime | None = None,
    now: datetime | None = None,
) -> Quote:
    """The cost of holding `items` per hour, for 30 days, and until the end of the lease where one is given.

    A resize is the quote of what will be held minus the quote of what is.
    """
    moment = clock.whole_second(now or clock.now())
    prices = prices_at(at=moment)
    lines = [_gpu_line(item, prices) for item in items if item.count]
    lines += _shared_lines(items, storage_gib, prices)
    micro = sum(int(line.per_hour * MICRO) for line in lines if line.per_hour is not None)
    currency = settings.CURRENCY
    lease = (
        max(int((clock.whole_second(lease_ends_at) - moment).total_seconds()), 0) if lease_ends_at else None
    )
    return Quote(
        currency=currency,
        lines=tuple(lines),
        per_hour=price_of(micro),
        days_30=_charge(micro, DAYS_30, currency),
        to_lease_end=None if lease is None else _charge(micro, lease, currency),
        complete=all(line.per_hour is not None for line in lines),
    )


def _gpu_line(item: QuoteItem, prices: Prices) -> QuoteLine:
    quantity = item.count * item.flavor.gpus
    held = prices.get((item.flavor.pk, Meter.GPU_HELD))
    return _line(f"{item.flavor.name}", Meter.GPU_HELD, quantity, held)


def _shared_lines(items: Sequence[QuoteItem], storage_gib: int, prices: Prices) -> list[QuoteLine]:
    """vCPU, memory and storage, where they have a price of their own; else they are part of the flavor's."""
    wanted = (
        ("vCPU", Meter.VCPU_HELD, sum(item.count * item.flavor.vcpus for item in items)),
        ("Memory (GiB)", Meter.MEMORY_HELD, sum(item.count * item.flavor.memory_gib for item in items)),
        ("Storage (GiB)", Meter.STORAGE_HELD, storage_gib),
    )
    return [
        _line(label, meter, quantity, prices[None, meter])
        for label, meter, quantity in wanted
        if quantity and (None, meter) in prices
    ]


def _line(label: str, meter: Meter, quantity: int, price: Price | None) -> QuoteLine:
    unit = price.per_hour if price else None
    micro = None if unit is None else int(unit * MICRO) * quantity
    return QuoteLine(label, meter, quantity, unit, None if micro is None else price_of(micro))


def _charge(micro_per_hour: int, seconds: int, currency: str) -> Decimal:
    return amount_of(round_half_up(micro_per_hour * seconds, charge_divisor(currency)), currency)
