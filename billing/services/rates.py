"""Setting prices. A price in force is ended, never edited; what usage was already rated by stays."""

from datetime import datetime
from decimal import Decimal

from django.conf import settings
from django.db import transaction
from django.db.models import Max, Q, QuerySet

from billing.models import Rate, RateCard, RateCardVersion
from billing.money import price_of, price_parse
from billing.selectors import rate_card_default
from gpuaas.catalog.models import Flavor
from gpuaas.catalog.states import PriceClass
from gpuaas.core import clock
from gpuaas.core.errors import Invalid
from gpuaas.metering.models import Meter, UsageInterval
from quotas.models import PoolReservation
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.roles import Permission
from tenants.selectors import platform_require

SHARED = frozenset({Meter.VCPU_HELD, Meter.MEMORY_HELD, Meter.STORAGE_HELD})
GPU_METERS = frozenset(Meter) - SHARED


def rate_set(
    *,
    actor: Actor,
    flavor: Flavor | None,
    meter: Meter | str,
    price: Decimal | str | int,
    valid_from: datetime | None = None,
) -> Rate:
    """The price per unit-hour from `valid_from` (default now) until the next one begins; the one in force ends there.

    Raises Invalid on `flavor`, `meter`, `price`, or on `valid_from` where usage was already rated at another price.
    """
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    known = meter_require(meter, flavor)
    micro = price_parse(price)
    now = clock.whole_second(clock.now())
    start = clock.whole_second(valid_from) if valid_from else now
    price_class = flavor.price_class if flavor else PriceClass.ON_DEMAND.value
    with transaction.atomic():
        card = rate_card_ensure()
        rows = Rate.objects.filter(card=card, flavor=flavor, meter=known, price_class=price_class)
        _past_require_unrated(rows, flavor=flavor, meter=known, start=start, now=now)
        before = rows.filter(valid_from__lte=start).exclude(valid_to__lte=start).first()
        old = str(price_of(before.price_micro)) if before else None
        _room_make(rows, start)
        following = rows.filter(valid_from__gt=start).order_by("valid_from").first()
        rate = Rate(card=card, flavor=flavor, meter=known, price_class=price_class, price_micro=micro)
        rate.valid_from, rate.valid_to = start, following.valid_from if following else None
        rate.created_by = actor.name
        rate.version = version_at(card=card, at=start, actor=actor)
        rate.save(force_insert=True)
        after = {"price": str(price_of(micro)), "valid_from": start.isoformat(), "meter": known.value}
        audit_record(
            actor=actor, action="rate.set", target=rate, before={"price": old} if old else None, after=after
        )
    return rate


def rate_card_ensure() -> RateCard:
    """The default card, made where there is none, locked: prices are set one after the other."""
    known = {"organization": None, "currency": settings.CURRENCY}
    made = rate_card_default()
    RateCard.objects.get_or_create(**known, defaults={"slug": made.slug, "name": made.name})
    return RateCard.objects.select_for_update().get(**known)


def version_at(*, card: RateCard, at: datetime, actor: Actor, note: str = "") -> RateCardVersion:
    """The version that begins at this very second, made where there is none. The card is locked by the caller."""
    last = max(card.versions.aggregate(last=Max("number"))["last"] or 0, card.numbers_gone)
    version, _ = RateCardVersion.objects.get_or_create(
        card=card, valid_from=at, defaults={"number": last + 1, "note": note, "published_by": actor.name}
    )
    return version


def meter_require(meter: Meter | str, flavor: Flavor | None) -> Meter:
    if meter not in Meter.values:
        raise Invalid.field("meter", f"there is no meter {meter!r}; known: {', '.join(Meter.values)}")
    known = Meter(meter)
    if known in GPU_METERS and flavor is None:
        raise Invalid.field("flavor", "a price of GPUs needs a flavor")
    if known not in GPU_METERS and flavor is not None:
        raise Invalid.field(
            "flavor", "vCPU, memory and storage have one price for all flavors; leave this empty"
        )
    return known


def _past_require_unrated(
    rows: QuerySet[Rate], *, flavor: Flavor | None, meter: Meter, start: datetime, now: datetime
) -> None:
    """Refuse to change a price under which something was used: any rate in force in [start, now) with usage then."""
    if start >= now:
        return
    for rate in rows.filter(valid_from__lt=now).exclude(valid_to__lte=start):
        first, last = max(rate.valid_from, start), min(rate.valid_to or now, now)
        if _used(flavor, meter, first, last):
            raise Invalid.field(
                "valid_from",
                f"usage since {first:%Y-%m-%d %H:%M:%S} UTC was already rated at {rate.price}; "
                "a new price can begin now or later",
            )


def _used(flavor: Flavor | None, meter: Meter, first: datetime, last: datetime) -> bool:
    """Whether the price was asked for in [first, last)."""
    if meter is Meter.GPU_IDLE:
        reserved = PoolReservation.objects.filter(flavor=flavor, valid_from__lt=last)
        return reserved.exclude(valid_to__lte=first).exists()
    rows = UsageInterval.objects.filter(flavor=flavor, meter=meter, started_at__lt=last)
    return rows.exclude(ended_at__lte=first).exists()


def _room_make(rows: QuerySet[Rate], start: datetime) -> None:
    """End the rate in force at `start`; one that begins at that very second was never in force and goes."""
    rows.filter(valid_from=start).delete()
    rows.filter(Q(valid_to__isnull=True) | Q(valid_to__gt=start), valid_from__lt=start).update(valid_to=start)
