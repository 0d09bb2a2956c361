"""The cost of a request before it is made: exact, by the organization's own prices, present and published."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

from billing.money import HOUR, amount_of, charge_divisor, price_of, round_half_up
from billing.months import Span, billing_zone, month_of, month_span
from billing.selectors.costs import currency_of
from billing.tariffs import Stretch, price_stretches
from billing.wares import storage_label, storage_ware
from gpuaas.catalog.models import STORAGE_PREFIX, Flavor
from gpuaas.core import clock
from gpuaas.metering.models import Meter
from tenants.models import Organization

WHOLE = 10_000  # of Stretch.per_hour in a millionth
# in the flavor's price while they have none
INCLUDED = frozenset({Meter.VCPU_HELD, Meter.MEMORY_HELD, Meter.STORAGE_HELD})
Classes = Mapping[str, int]  # GiB by the short name of a storage class


NO_CLASSES: Classes = {}


@dataclass(frozen=True)
class QuoteItem:
    """`count` of a flavor; its GPUs are count × flavor.gpus."""

    flavor: Flavor
    count: int


@dataclass(frozen=True)
class Beside:
    """What is held beside the flavors' own shares: the control plane of a cluster."""

    vcpus: int = 0
    memory_gib: int = 0


NOTHING = Beside()


@dataclass(frozen=True)
class QuoteLine:
    """unit_price and per_hour are None if the flavor has no price yet."""

    label: str
    meter: Meter
    quantity: int
    unit_price: Decimal | None
    per_hour: Decimal | None
    per_month: Decimal | None
    in_month: Decimal | None
    of_several: bool = False  # GPUs that come several in one: `quantity` is not how often the label is wanted
    storage_class: str = ""  # its short name; "" for plain storage

    @property
    def gpu_words(self) -> str:
        """`2 × H100 SXM`; of a flavor of several GPUs `4 GPUs (H100 pair)`: prices are per GPU."""
        if self.of_several:
            return f"{self.quantity:,} GPUs ({self.label})"
        return f"{self.quantity:,} × {self.label}"


@dataclass(frozen=True)
class Quote:
    """per_hour to the millionth; other amounts rounded half up to the minor unit.

    per_month: all `hours` of the current `month` in the billing time zone at present prices. in_month: the amount on
    the statement of that month, for the `in_month_seconds` until it or the lease ends. in_month and to_lease_end
    include published price changes. `complete` is False if a price is missing. `estimate`: the amount depends on more
    than what is held; `notes` are sentences that explain why, and when prices change.
    """

    currency: str
    lines: tuple[QuoteLine, ...]
    per_hour: Decimal
    month: Span
    per_month: Decimal
    in_month: Decimal
    in_month_seconds: int
    to_lease_end: Decimal | None
    complete: bool
    estimate: bool
    notes: tuple[str, ...]

    @property
    def hours(self) -> int:
        return self.month.seconds // HOUR


@dataclass(frozen=True)
class Prices:
    """What an organization pays from `now` to `until`."""

    currency: str
    now: datetime
    until: datetime
    stretches: dict[tuple[uuid.UUID | None, Meter], list[Stretch]]

    def now_of(self, flavor_id: uuid.UUID | None, meter: Meter) -> Stretch | None:
        stretches = self.stretches.get((flavor_id, meter), [])
        return next((one for one in stretches if one.starts_at <= self.now < one.ends_at), None)

    def ware_of(self, resource: str) -> uuid.UUID | None:
        """What prices a storage class: itself, or (None) plain storage where it has no price of its own."""
        ware = storage_ware(resource)
        return ware if (ware, Meter.STORAGE_HELD) in self.stretches else None


@dataclass(frozen=True)
class Part:
    """`quantity` of what one price counts; flavor_id: of a storage class with a price of its own, that of `storage_ware`."""

    label: str
    flavor_id: uuid.UUID | None
    meter: Meter
    quantity: int
    of_several: bool = False
    storage_class: str = ""


def quote(
    *,
    organization: Organization,
    items: Sequence[QuoteItem],
    storage_gib: int = 0,
    lease_ends_at: datetime | None = None,
    now: datetime | None = None,
    beside: Beside = NOTHING,
    classes: Classes = NO_CLASSES,
) -> Quote:
    """The cost of holding `items` per hour, for the current month, and until the end of the lease if there is one. classes:
    storage beside storage_gib.

    Two queries.
    """
    prices = prices_of(organization, now, lease_ends_at)
    return quote_of(prices, items, storage_gib, lease_ends_at, beside, classes=classes)


def prices_of(organization: Organization, now: datetime | None, until: datetime | None) -> Prices:
    """From now until then. Two queries."""
    moment = clock.whole_second(now or clock.now())
    end = max(clock.whole_second(until or moment), month_span(month_of(moment)).ends_at)
    stretches: dict[tuple[uuid.UUID | None, Meter], list[Stretch]] = {}
    for one in price_stretches(first=moment, last=end, organization_id=organization.pk):
        stretches.setdefault((one.flavor_id, one.meter), []).append(one)
    return Prices(currency_of(organization.pk), moment, end, stretches)


def quote_of(
    prices: Prices,
    items: Sequence[QuoteItem],
    storage_gib: int,
    lease_ends_at: datetime | None,
    beside: Beside = NOTHING,
    more: Iterable[Part] = (),
    classes: Classes = NO_CLASSES,
) -> Quote:
    """more: what exists beside `items` and continues."""
    month = month_span(month_of(prices.now))
    lease = None if lease_ends_at is None else max(clock.whole_second(lease_ends_at), prices.now)
    end = lease or prices.now
    stop = min(lease or month.ends_at, month.ends_at)
    shared = [*_shared_parts(items, storage_gib, beside), *_class_parts(classes, prices)]
    charged = [part for part in shared if _is_charged(prices, part, max(end, stop))]
    parts = [*_gpu_parts(items, prices), *charged, *more]
    held = [(part, prices.now_of(part.flavor_id, part.meter)) for part in parts]
    each = sum(part.quantity * price.per_hour for part, price in held if price)
    reasons = _reasons(prices, parts, items, end)
    return Quote(
        currency=prices.currency,
        lines=tuple(_line(prices, part, price, month, stop) for part, price in held),
        per_hour=_per_hour(each),
        month=month,
        per_month=_charge(each * month.seconds, prices.currency),
        in_month=_charge(_until(prices, parts, stop), prices.currency),
        in_month_seconds=int((stop - prices.now).total_seconds()),
        to_lease_end=None if lease is None else _charge(_until(prices, parts, lease), prices.currency),
        complete=_priced_until(prices, [part for part in parts if part.meter not in INCLUDED], end),
        estimate=bool(reasons),
        notes=(*reasons, *changes_of(prices, parts, end)),
    )


def storage_month(prices: Prices, slug: str, gib: int) -> Decimal | None:
    """What so many GiB of a storage class ("" = plain storage) cost in all of the current month; None: no price is set."""
    ware = prices.ware_of(f"{STORAGE_PREFIX}{slug}") if slug else None
    price = prices.now_of(ware, Meter.STORAGE_HELD)
    if price is None:
        return None
    return _charge(gib * price.per_hour * month_span(month_of(prices.now)).seconds, prices.currency)


def _gpu_parts(items: Iterable[QuoteItem], prices: Prices) -> list[Part]:
    return [
        Part(
            item.flavor.name,
            item.flavor.pk,
            Meter.GPU_ALLOCATED if _by_use(prices, item.flavor) else Meter.GPU_HELD,
            item.count * item.flavor.gpus,
            of_several=item.flavor.gpus > 1,
        )
        for item in items
        if item.count
    ]


def _by_use(prices: Prices, flavor: Flavor) -> bool:
    """Whether only use by pods and machines is charged, not what is held."""
    return flavor.is_lent or (
        not prices.now_of(flavor.pk, Meter.GPU_HELD) and bool(prices.now_of(flavor.pk, Meter.GPU_ALLOCATED))
    )


def _is_charged(prices: Prices, part: Part, until: datetime) -> bool:
    """Whether what all flavors share has a price of its own, now or by then; otherwise it is part of the flavor's."""
    return bool(prices.now_of(part.flavor_id, part.meter) or _within(prices, part, until))


def _shared_parts(items: Sequence[QuoteItem], storage_gib: int, beside: Beside) -> list[Part]:
    bought = [item for item in items if not item.flavor.is_lent]
    vcpus = beside.vcpus + sum(item.count * item.flavor.vcpus for item in bought)
    memory_gib = beside.memory_gib + sum(item.count * item.flavor.memory_gib for item in bought)
    wanted = (
        Part("vCPU", None, Meter.VCPU_HELD, vcpus),
        Part("Memory (GiB)", None, Meter.MEMORY_HELD, memory_gib),
        Part("Storage (GiB)", None, Meter.STORAGE_HELD, storage_gib),
    )
    return [part for part in wanted if part.quantity]


def _class_parts(classes: Classes, prices: Prices) -> list[Part]:
    return [
        Part(
            storage_label(slug),
            prices.ware_of(f"{STORAGE_PREFIX}{slug}"),
            Meter.STORAGE_HELD,
            gib,
            storage_class=slug,
        )
        for slug, gib in sorted(classes.items())
        if gib
    ]


def _line(prices: Prices, part: Part, price: Stretch | None, month: Span, stop: datetime) -> QuoteLine:
    named: dict[str, Any] = {"of_several": part.of_several, "storage_class": part.storage_class}
    if price is None and part.meter not in INCLUDED:
        return QuoteLine(part.label, part.meter, part.quantity, None, None, None, None, **named)
    unit = price.per_hour if price else 0
    each = part.quantity * unit
    return QuoteLine(
        label=part.label,
        meter=part.meter,
        quantity=part.quantity,
        unit_price=_per_hour(unit),
        per_hour=_per_hour(each),
        per_month=_charge(each * month.seconds, prices.currency),
        in_month=_charge(_until(prices, [part], stop), prices.currency),
        **named,
    )


def _within(prices: Prices, part: Part, end: datetime) -> list[tuple[Stretch, int]]:
    """The part's prices from now to `end`, each with its seconds."""
    parts = []
    for one in prices.stretches.get((part.flavor_id, part.meter), []):
        seconds = int((min(one.ends_at, end) - max(one.starts_at, prices.now)).total_seconds())
        if seconds > 0:
            parts.append((one, seconds))
    return parts


def _until(prices: Prices, parts: Iterable[Part], end: datetime) -> int:
    return sum(
        part.quantity * one.per_hour * seconds
        for part in parts
        for one, seconds in _within(prices, part, end)
    )


def _priced_until(prices: Prices, parts: Iterable[Part], end: datetime) -> bool:
    """Whether all of them have a price now and at every moment until then."""
    seconds_left = int((end - prices.now).total_seconds())
    return all(
        prices.now_of(part.flavor_id, part.meter)
        and sum(seconds for _, seconds in _within(prices, part, end)) == seconds_left
        for part in parts
    )


def _reasons(
    prices: Prices, parts: Sequence[Part], items: Sequence[QuoteItem], end: datetime
) -> tuple[str, ...]:
    """Why the final amount may differ."""
    reasons = []
    moment = end if end > prices.now else prices.now + timedelta(seconds=1)
    if any(one.tiers for part in parts for one, _ in _within(prices, part, moment)):
        reasons.append(
            "An estimate: the price depends on the hours used in the month; this assumes the first tier."
        )
    wanted = [item.flavor for item in items if item.count]
    if any(_by_use(prices, flavor) for flavor in wanted):
        reasons.append(
            "An estimate: only hours in which GPUs are allocated are charged; this counts all hours."
        )
    elif any(prices.now_of(flavor.pk, Meter.GPU_ALLOCATED) for flavor in wanted):
        reasons.append("An estimate: hours in which the GPUs are allocated are charged in addition.")
    return tuple(reasons)


def changes_of(prices: Prices, parts: Sequence[Part], end: datetime) -> tuple[str, ...]:
    """The first published price change before `end`."""
    moments = []
    for part in parts:
        changes = [one for one, _ in _within(prices, part, end)]
        moments += [later.starts_at for one, later in pairwise(changes) if one.per_hour != later.per_hour]
        if part.meter in INCLUDED:
            starts, ends = {one.starts_at for one in changes}, {one.ends_at for one in changes}
            moments += [at for at in starts ^ ends if prices.now < at < end]
    if not moments:
        return ()
    day = min(moments).astimezone(billing_zone())
    when = f"{day:%-d %b %Y at %H:%M} ({billing_zone().key})"
    return (f"Prices change on {when}; the sum to the end includes that.",)


def _per_hour(each: int) -> Decimal:
    return price_of(round_half_up(each, WHOLE))


def _charge(each_seconds: int, currency: str) -> Decimal:
    return amount_of(round_half_up(each_seconds, charge_divisor(currency) * WHOLE), currency)
