"""What a request would cost, before the click: exact, by the organization's own prices, in force now and published."""

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise

from billing.money import HOUR, amount_of, charge_divisor, price_of, round_half_up
from billing.months import Span, billing_zone, month_of, month_span
from billing.rating import Stretch, price_stretches
from billing.selectors.costs import currency_of
from gpuaas.catalog.models import Flavor
from gpuaas.core import clock
from gpuaas.metering.models import Meter
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.states import WorkspaceState
from tenants.models import Organization

WHOLE = 10_000  # of Stretch.per_hour in a millionth
ASLEEP = frozenset({WorkspaceState.SUSPENDING, WorkspaceState.SUSPENDED})


@dataclass(frozen=True)
class QuoteItem:
    """`count` of a flavor; its GPUs are count × flavor.gpus."""

    flavor: Flavor
    count: int


@dataclass(frozen=True)
class Beside:
    """What is held beside the flavors' own shares: a cluster's control plane."""

    vcpus: int = 0
    memory_gib: int = 0


NOTHING = Beside()


@dataclass(frozen=True)
class QuoteLine:
    """unit_price and per_hour are None where the flavor has no price yet."""

    label: str
    meter: Meter
    quantity: int
    unit_price: Decimal | None
    per_hour: Decimal | None
    per_month: Decimal | None
    of_several: bool = False  # GPUs that come several in one: `quantity` is not how often the label is wanted

    @property
    def gpu_words(self) -> str:
        """`2 × H100 SXM`; of a flavor of several GPUs `4 GPUs (H100 pair)`: prices are per GPU."""
        if self.of_several:
            return f"{self.quantity:,} GPUs ({self.label})"
        return f"{self.quantity:,} × {self.label}"


@dataclass(frozen=True)
class Quote:
    """per_hour to the millionth; the rest rounded half up to the minor unit.

    per_month: all `hours` of the running `month` of the billing time zone by the prices of now. to_lease_end counts
    published changes of prices too. `complete` is False where a price is missing. `estimate`: the amount depends on more
    than what is held; `notes` are sentences that say why, and when prices change.
    """

    currency: str
    lines: tuple[QuoteLine, ...]
    per_hour: Decimal
    month: Span
    per_month: Decimal
    to_lease_end: Decimal | None
    complete: bool
    estimate: bool
    notes: tuple[str, ...]

    @property
    def hours(self) -> int:
        return self.month.seconds // HOUR


@dataclass(frozen=True)
class WhatIf:
    """A workspace as it is charged now, and as it would be; what that makes more, or less where negative."""

    now: Quote
    then: Quote

    @property
    def per_hour(self) -> Decimal:
        return self.then.per_hour - self.now.per_hour

    @property
    def per_month(self) -> Decimal:
        return self.then.per_month - self.now.per_month

    @property
    def to_lease_end(self) -> Decimal | None:
        if self.now.to_lease_end is None or self.then.to_lease_end is None:
            return None
        return self.then.to_lease_end - self.now.to_lease_end


@dataclass(frozen=True)
class Prices:
    """What an organization pays from `now` to `until`."""

    currency: str
    now: datetime
    until: datetime
    stretches: dict[tuple[uuid.UUID | None, Meter], list[Stretch]]

    def now_of(self, flavor_id: uuid.UUID | None, meter: Meter) -> Stretch | None:
        found = self.stretches.get((flavor_id, meter), [])
        return next((one for one in found if one.starts_at <= self.now < one.ends_at), None)


@dataclass(frozen=True)
class Part:
    """`quantity` of what one price counts."""

    label: str
    flavor_id: uuid.UUID | None
    meter: Meter
    quantity: int
    of_several: bool = False


def quote(
    *,
    organization: Organization,
    items: Sequence[QuoteItem],
    storage_gib: int = 0,
    lease_ends_at: datetime | None = None,
    now: datetime | None = None,
    beside: Beside = NOTHING,
) -> Quote:
    """The cost of holding `items` per hour, for the running month, and until the end of the lease where one is given.

    Two queries.
    """
    return _quote(_prices(organization, now, lease_ends_at), items, storage_gib, lease_ends_at, beside)


def what_if(
    *,
    workspace: Workspace,
    items: Sequence[QuoteItem] | None = None,
    storage_gib: int | None = None,
    lease_ends_at: datetime | None = None,
    now: datetime | None = None,
) -> WhatIf:
    """A workspace now and with another size or lease; what is not given stays. One that sleeps holds no GPUs now."""
    wanted = [QuoteItem(item.flavor, item.count) for item in workspace.flavors.all()]
    held = [] if workspace.state in ASLEEP else wanted
    ends_at = lease_ends_at or workspace.lease_ends_at
    latest = max(ends_at, workspace.lease_ends_at)
    prices = _prices(workspace.project.organization, now, latest)
    storage = workspace.storage_gib if storage_gib is None else storage_gib
    return WhatIf(
        now=_quote(prices, held, workspace.storage_gib, workspace.lease_ends_at),
        then=_quote(prices, wanted if items is None else items, storage, ends_at),
    )


def _prices(organization: Organization, now: datetime | None, until: datetime | None) -> Prices:
    moment = clock.whole_second(now or clock.now())
    end = max(clock.whole_second(until or moment), moment + timedelta(seconds=1))
    found: dict[tuple[uuid.UUID | None, Meter], list[Stretch]] = {}
    for one in price_stretches(first=moment, last=end, organization_id=organization.pk):
        found.setdefault((one.flavor_id, one.meter), []).append(one)
    return Prices(currency_of(organization.pk), moment, end, found)


def _quote(
    prices: Prices,
    items: Sequence[QuoteItem],
    storage_gib: int,
    lease_ends_at: datetime | None,
    beside: Beside = NOTHING,
) -> Quote:
    parts = [*_gpu_parts(items), *_shared_parts(items, storage_gib, prices, beside)]
    month = month_span(month_of(prices.now))
    held = [(part, prices.now_of(part.flavor_id, part.meter)) for part in parts]
    each = sum(part.quantity * price.per_hour for part, price in held if price)
    lease = None if lease_ends_at is None else max(clock.whole_second(lease_ends_at), prices.now)
    end = lease or prices.now
    reasons = _reasons(prices, parts, items, end)
    return Quote(
        currency=prices.currency,
        lines=tuple(_line(part, price, month, prices.currency) for part, price in held),
        per_hour=_per_hour(each),
        month=month,
        per_month=_charge(each * month.seconds, prices.currency),
        to_lease_end=None if lease is None else _charge(_until(prices, parts, lease), prices.currency),
        complete=all(price for _, price in held) and _priced_until(prices, parts, end),
        estimate=bool(reasons),
        notes=(*reasons, *_changes(prices, parts, end)),
    )


def _gpu_parts(items: Iterable[QuoteItem]) -> list[Part]:
    return [
        Part(
            item.flavor.name,
            item.flavor.pk,
            Meter.GPU_HELD,
            item.count * item.flavor.gpus,
            of_several=item.flavor.gpus > 1,
        )
        for item in items
        if item.count
    ]


def _shared_parts(items: Sequence[QuoteItem], storage_gib: int, prices: Prices, beside: Beside) -> list[Part]:
    """vCPU, memory and storage, where they have a price of their own; else they are part of the flavor's."""
    vcpus = beside.vcpus + sum(item.count * item.flavor.vcpus for item in items)
    memory_gib = beside.memory_gib + sum(item.count * item.flavor.memory_gib for item in items)
    wanted = (
        Part("vCPU", None, Meter.VCPU_HELD, vcpus),
        Part("Memory (GiB)", None, Meter.MEMORY_HELD, memory_gib),
        Part("Storage (GiB)", None, Meter.STORAGE_HELD, storage_gib),
    )
    return [part for part in wanted if part.quantity and prices.now_of(None, part.meter)]


def _line(part: Part, price: Stretch | None, month: Span, currency: str) -> QuoteLine:
    if price is None:
        return QuoteLine(part.label, part.meter, part.quantity, None, None, None, part.of_several)
    each = part.quantity * price.per_hour
    return QuoteLine(
        label=part.label,
        meter=part.meter,
        quantity=part.quantity,
        unit_price=_per_hour(price.per_hour),
        per_hour=_per_hour(each),
        per_month=_charge(each * month.seconds, currency),
        of_several=part.of_several,
    )


def _within(prices: Prices, part: Part, end: datetime) -> list[tuple[Stretch, int]]:
    """The part's prices from now to `end`, each with its seconds."""
    found = []
    for one in prices.stretches.get((part.flavor_id, part.meter), []):
        seconds = int((min(one.ends_at, end) - max(one.starts_at, prices.now)).total_seconds())
        if seconds > 0:
            found.append((one, seconds))
    return found


def _until(prices: Prices, parts: Iterable[Part], end: datetime) -> int:
    return sum(
        part.quantity * one.per_hour * seconds
        for part in parts
        for one, seconds in _within(prices, part, end)
    )


def _priced_until(prices: Prices, parts: Iterable[Part], end: datetime) -> bool:
    whole = int((end - prices.now).total_seconds())
    return all(sum(seconds for _, seconds in _within(prices, part, end)) == whole for part in parts)


def _reasons(
    prices: Prices, parts: Sequence[Part], items: Sequence[QuoteItem], end: datetime
) -> tuple[str, ...]:
    """Why the amount may be another one in the end."""
    said = []
    moment = end if end > prices.now else prices.now + timedelta(seconds=1)
    if any(one.tiers for part in parts for one, _ in _within(prices, part, moment)):
        said.append("An estimate: the price changes with the hours of a month; this counts the first tier.")
    if any(prices.now_of(item.flavor.pk, Meter.GPU_ALLOCATED) for item in items if item.count):
        said.append("An estimate: hours in which the GPUs are in use have a price beside this.")
    return tuple(said)


def _changes(prices: Prices, parts: Sequence[Part], end: datetime) -> tuple[str, ...]:
    """The first published change of a price before `end`."""
    moments = []
    for part in parts:
        found = [one for one, _ in _within(prices, part, end)]
        moments += [later.starts_at for one, later in pairwise(found) if one.per_hour != later.per_hour]
    if not moments:
        return ()
    day = min(moments).astimezone(billing_zone())
    return (
        f"Prices change on {day:%-d %b %Y at %H:%M} ({billing_zone().key}); the sum to the end counts it.",
    )


def _per_hour(each: int) -> Decimal:
    return price_of(round_half_up(each, WHOLE))


def _charge(each_seconds: int, currency: str) -> Decimal:
    return amount_of(round_half_up(each_seconds, charge_divisor(currency) * WHOLE), currency)
