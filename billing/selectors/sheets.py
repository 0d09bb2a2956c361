"""The price list of one organization: what it pays now, by its own card and discounts, and announced changes."""

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

from billing.models import Rate
from billing.money import price_of, round_half_up
from billing.quotes import WHOLE
from billing.selectors.balances import billing_require
from billing.selectors.costs import currency_of
from billing.tariffs import Stretch, price_stretches
from billing.wares import gpu_meter, storage_ware
from gpuaas.catalog.models import Flavor, StorageClass
from gpuaas.catalog.states import OfferState
from gpuaas.core import clock
from gpuaas.metering.models import Meter
from tenants.actors import Actor
from tenants.models import Organization

LAST = datetime(clock.LAST_YEAR, 12, 31, tzinfo=UTC)


@dataclass(frozen=True)
class SheetTier:
    """From so many unit-hours of a project's month on."""

    from_unit_hours: int
    price: Decimal


@dataclass(frozen=True)
class SheetPrice:
    """Of a unit-hour, after the discount, over [starts_at, ends_at); ends_at None: until another price is announced."""

    price: Decimal
    tier_mode: str
    tiers: tuple[SheetTier, ...]
    increment_seconds: int
    minimum_seconds: int
    discount_bp: int
    own: bool
    starts_at: datetime
    ends_at: datetime | None

    @property
    def terms(self) -> tuple[object, ...]:
        return (
            self.price,
            self.tier_mode,
            self.tiers,
            self.increment_seconds,
            self.minimum_seconds,
            self.discount_bp,
        )


@dataclass(frozen=True)
class SheetRow:
    """flavor None: vCPU, memory, storage; resource: of a storage class. now None: no price is set. ends: the price ends and none
    follows."""

    flavor: Flavor | None
    meter: Meter
    now: SheetPrice | None
    upcoming: tuple[SheetPrice, ...]
    resource: str = ""

    @property
    def ends_at(self) -> datetime | None:
        last = self.upcoming[-1] if self.upcoming else self.now
        return last.ends_at if last else None


@dataclass(frozen=True)
class Sheet:
    currency: str
    as_of: datetime
    rows: tuple[SheetRow, ...]


def price_sheet(*, actor: Actor, organization: Organization, now: datetime | None = None) -> Sheet:
    """For those who may see the organization's costs: everything on offer and everything with a price, flavors first.

    6 queries.
    """
    billing_require(actor=actor, organization=organization)
    moment = clock.whole_second(now or clock.now())
    stretches = price_stretches(first=moment, last=LAST, organization_id=organization.pk)
    rates = _rates({one.rate_id for one in stretches})
    found: dict[tuple[uuid.UUID | None, Meter], list[SheetPrice]] = {}
    for one in stretches:
        _append(found.setdefault((one.flavor_id, one.meter), []), _price(one, rates[one.rate_id]))
    flavors = {row.pk: row for row in _flavors({key[0] for key in found})}
    for pk in flavors.keys() - {key[0] for key in found}:
        found[pk, gpu_meter(flavors[pk])] = []
    classes = {storage_ware(row.resource): row.resource for row in StorageClass.objects.exclude(slug="")}
    rows = [
        SheetRow(
            flavor=flavors.get(pk) if pk else None,
            resource=classes.get(pk, "") if pk else "",
            meter=meter,
            now=next((price for price in prices if price.starts_at <= moment), None),
            upcoming=tuple(price for price in prices if price.starts_at > moment),
        )
        for (pk, meter), prices in found.items()
        if pk is None or pk in flavors or pk in classes
    ]
    return Sheet(currency_of(organization.pk), moment, tuple(sorted(rows, key=_place)))


def _rates(keys: set[uuid.UUID]) -> dict[uuid.UUID, Rate]:
    rows = Rate.objects.filter(pk__in=keys).select_related("card").prefetch_related("tiers")
    return {row.pk: row for row in rows}


def _flavors(priced: set[uuid.UUID | None]) -> list[Flavor]:
    """Flavors on offer, and retired ones that may still be held. Drafts are for operators only."""
    rows = Flavor.objects.select_related("pool__gpu_type", "pool__site").exclude(state=OfferState.DRAFT)
    return [row for row in rows if row.pk in priced or row.state == OfferState.ACTIVE]


def _price(one: Stretch, rate: Rate) -> SheetPrice:
    def net(price_micro: int) -> Decimal:
        return price_of(round_half_up(price_micro * (WHOLE - one.discount), WHOLE))

    return SheetPrice(
        price=net(rate.price_micro),
        tier_mode=rate.tier_mode,
        tiers=tuple(SheetTier(tier.from_unit_hours, net(tier.price_micro)) for tier in rate.tiers.all()),
        increment_seconds=rate.increment_seconds,
        minimum_seconds=rate.minimum_seconds,
        discount_bp=one.discount,
        own=rate.card.organization_id is not None,
        starts_at=one.starts_at,
        ends_at=one.ends_at if one.ends_at < LAST else None,
    )


def _append(prices: list[SheetPrice], price: SheetPrice) -> None:
    """A version that does not change a price announces nothing."""
    last = prices[-1] if prices else None
    if last is not None and last.ends_at == price.starts_at and last.terms == price.terms:
        prices[-1] = SheetPrice(**{**vars(last), "ends_at": price.ends_at})
    else:
        prices.append(price)


def _place(row: SheetRow) -> tuple[bool, str, int]:
    slug = row.flavor.slug if row.flavor else row.resource
    return row.flavor is None, slug, list(Meter).index(row.meter)
