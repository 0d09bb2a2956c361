"""Prices in force, and the card they are on."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.conf import settings
from django.db.models import Q

from billing.models import Rate, RateCard
from billing.money import price_of
from billing.selectors.costs import currency_of
from billing.tariffs import price_list
from billing.wares import storage_ware
from gpuaas.catalog.models import STORAGE_PREFIX
from gpuaas.core import clock
from gpuaas.metering.models import Meter
from tenants.actors import Actor
from tenants.models import Organization
from tenants.selectors import platform_require


@dataclass(frozen=True)
class Price:
    """Of one unit-hour, exact."""

    currency: str
    per_hour: Decimal


def rate_card_default() -> RateCard:
    """The standard card of the portal's currency. Before the first price: an empty one, unsaved."""
    card = RateCard.objects.filter(organization=None, currency=settings.CURRENCY).first()
    return card or RateCard(slug="standard", name="Standard", currency=settings.CURRENCY)


def rates_for(*, actor: Actor, at: datetime | None = None) -> list[Rate]:
    """All rates of the default card for operators and auditors; `at` = only those in force then."""
    platform_require(actor=actor)
    rows = Rate.objects.filter(card__organization=None, card__currency=settings.CURRENCY).select_related(
        "flavor", "card"
    )
    if at is not None:
        rows = rows.filter(valid_from__lte=at).exclude(valid_to__lte=at)
    return list(rows)


def prices_at(
    *, at: datetime | None = None, organization: Organization | None = None
) -> dict[tuple[uuid.UUID | None, Meter], Price]:
    """Every price in force, by (flavor id or `storage_ware`, meter), in two queries at most: those of the standard card in the portal's
    currency, or what an organization pays (its currency, its own prices, less its discounts). Of tiers the first price.
    """
    moment = at or clock.now()
    if organization is not None:
        currency = currency_of(organization.pk)
        prices = price_list(at=moment, organization_id=organization.pk)
        return {key: Price(currency, price_of(micro)) for key, micro in prices.items()}
    rows = (
        Rate.objects.filter(card__organization=None, card__currency=settings.CURRENCY, valid_from__lte=moment)
        .filter(Q(resource_name="") | Q(resource_name__startswith=STORAGE_PREFIX))
        .exclude(valid_to__lte=moment)
        .select_related("flavor")
        .values_list(
            "flavor_id",
            "resource_name",
            "meter",
            "price_micro",
            "card__currency",
            "price_class",
            "flavor__price_class",
        )
    )
    return {
        (storage_ware(resource) if resource else flavor_id, Meter(meter)): Price(currency, price_of(micro))
        for flavor_id, resource, meter, micro, currency, price_class, sold_as in rows
        if price_class == (sold_as or "on_demand")
    }


def gpu_price(
    prices: Mapping[tuple[uuid.UUID | None, Meter], Price], flavor: uuid.UUID
) -> tuple[Price | None, Meter]:
    """Of `prices_at`: what pays for the GPUs of a flavor, and by which meter; the price of use where there is no
    other."""
    held = prices.get((flavor, Meter.GPU_HELD))
    used = prices.get((flavor, Meter.GPU_ALLOCATED))
    return (used, Meter.GPU_ALLOCATED) if held is None and used is not None else (held, Meter.GPU_HELD)
