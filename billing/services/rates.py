"""Setting prices. A price in force is ended, never edited; usage that was already rated does not change."""

from datetime import date, datetime
from decimal import Decimal

from django.conf import settings
from django.db import transaction
from django.db.models import Max, Q, QuerySet

from billing.models import MonthClose, Rate, RateCard, RateCardVersion
from billing.money import currency_parse, price_of, price_parse
from billing.months import month_next, month_of, month_span
from billing.selectors import rate_card_default
from billing.states import CloseState
from billing.wares import storage_slug, unpriced_words
from gpuaas.catalog.models import Flavor, StorageClass
from gpuaas.catalog.states import PriceClass
from gpuaas.core import clock
from gpuaas.core.errors import Conflict, Invalid
from gpuaas.metering.final import month_final
from gpuaas.metering.imports import closes_try
from gpuaas.metering.models import TOKEN_METERS, Meter, UsageInterval
from quotas.models import PoolReservation
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.roles import Permission
from tenants.selectors import platform_require

SHARED = frozenset({Meter.VCPU_HELD, Meter.MEMORY_HELD, Meter.STORAGE_HELD, *TOKEN_METERS})
GPU_METERS = frozenset(Meter) - SHARED
TOLD_TWICE = (Meter.GPU_HELD, Meter.GPU_ALLOCATED)
# of flavors; without a price it costs nothing, and waits for none
NEVER_WAITING = SHARED | {Meter.GPU_STOPPED, Meter.GPU_SHELVED}


def rate_set(
    *,
    actor: Actor,
    flavor: Flavor | None,
    meter: Meter | str,
    price: Decimal | str | int,
    valid_from: datetime | None = None,
    resource: str = "",
    currency: str = "",
) -> Rate:
    """Sets the price per unit-hour from `valid_from` (default now) until the next one starts, or an announced version has none any
    more; the one in force ends then.

    resource: instead of a flavor, the name by which a site counts GPUs that ran without being sold. currency: of the
    standard card, by default the portal's. Raises Conflict during a close, Invalid on `flavor`, `resource`, `meter`,
    `price`, `currency`, or on `valid_from` if usage was already rated without this price, or its month is final.
    """
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    known, micro = meter_require(meter, flavor, resource), price_parse(price)
    now = clock.whole_second(clock.now())
    start = clock.year_require(clock.whole_second(valid_from) if valid_from else now, field="valid_from")
    price_class = flavor.price_class if flavor else PriceClass.ON_DEMAND.value
    with transaction.atomic():
        card, ware = rate_card_ensure(currency), {"flavor": flavor, "resource_name": resource}
        rows = Rate.objects.filter(card=card, **ware, meter=known, price_class=price_class)
        rated = rates_paying(card=card, flavor=flavor, resource=resource, meter=known)
        _past_require_unrated(rated, flavor=flavor, resource=resource, meter=known, start=start, now=now)
        before = rows.filter(valid_from__lte=start).exclude(valid_to__lte=start).first()
        old = {"price": str(price_of(before.price_micro))} if before else None
        _room_make(rows, start)
        following = rows.filter(valid_from__gt=start).order_by("valid_from").first()
        rate = Rate(card=card, **ware, meter=known, price_class=price_class, price_micro=micro)
        ends = before.valid_to if before else None
        rate.valid_from, rate.valid_to = start, following.valid_from if following else ends
        _settled_require(rate, now=now)
        rate.created_by, rate.version = actor.name, version_at(card=card, at=start, actor=actor)
        rate.save(force_insert=True)
        after = {"price": str(price_of(micro)), "valid_from": start.isoformat(), "meter": known.value}
        audit_record(actor=actor, action="rate.set", target=rate, before=old, after=after)
    return rate


def rates_paying(*, card: RateCard, flavor: Flavor | None, resource: str, meter: Meter) -> QuerySet[Rate]:
    """The prices of a card that pay for such usage (rating.md, section 6): its own; of GPUs of a flavor that of held and used ones,
    which are the same devices; of a storage class that of plain storage, while it has none of its own."""
    meters = TOLD_TWICE if flavor is not None and meter in TOLD_TWICE else (meter,)
    price_class = flavor.price_class if flavor else PriceClass.ON_DEMAND.value
    rows = Rate.objects.filter(card=card, meter__in=meters, price_class=price_class)
    own = rows.filter(flavor=flavor, resource_name=resource)
    return own | rows.filter(flavor=None, resource_name="") if storage_slug(resource) else own


def rate_card_ensure(currency: str = "") -> RateCard:
    """The standard card of a currency, by default the portal's; created if there is none, and locked, so that prices are
    set one after the other. Raises Invalid on `currency`."""
    code = currency_parse(currency or settings.CURRENCY)
    known = {"organization": None, "currency": code}
    if code == settings.CURRENCY:
        made = rate_card_default()
        named = {"slug": made.slug, "name": made.name}
    else:
        named = card_named(code)
    RateCard.objects.get_or_create(**known, defaults=named)
    return RateCard.objects.select_for_update().get(**known)


def card_named(currency: str) -> dict[str, str]:
    """What the standard card of another currency than the portal's is called."""
    return {"slug": f"standard-{currency.lower()}", "name": f"Standard, {currency}"}


def version_at(*, card: RateCard, at: datetime, actor: Actor, note: str = "") -> RateCardVersion:
    """The version that starts at this second, created if there is none. The caller has locked the card."""
    last = max(card.versions.aggregate(last=Max("number"))["last"] or 0, card.numbers_gone)
    version, _ = RateCardVersion.objects.get_or_create(
        card=card, valid_from=at, defaults={"number": last + 1, "note": note, "published_by": actor.name}
    )
    return version


def meter_require(meter: Meter | str, flavor: Flavor | None, resource: str = "") -> Meter:
    """What is priced: a flavor's GPUs, those of a resource that is not sold, a storage class, or what all flavors share."""
    if meter not in Meter.values:
        raise Invalid.field("meter", f"unknown meter {meter!r}; known: {', '.join(Meter.values)}")
    known = Meter(meter)
    if resource:
        _resource_require(known, flavor, resource)
        return known
    if known in GPU_METERS and flavor is None:
        raise Invalid.field("flavor", "a GPU price needs a flavor, or the resource name of GPUs without one")
    if flavor is not None and flavor.is_lent and known in GPU_METERS and known is not Meter.GPU_ALLOCATED:
        raise Invalid.field(
            "meter",
            f"{flavor.slug} is spot, of which only what runs is charged: set a price for {Meter.GPU_ALLOCATED.label}",
        )
    if known not in GPU_METERS and flavor is not None:
        raise Invalid.field(
            "flavor", "vCPU, memory, storage and tokens have one price for all flavors; leave this empty"
        )
    return known


def _resource_require(meter: Meter, flavor: Flavor | None, resource: str) -> None:
    if flavor is not None:
        raise Invalid.field("resource", "a price is for either a flavor or a resource, not both")
    if slug := storage_slug(resource):
        if meter is not Meter.STORAGE_HELD:
            raise Invalid.field("meter", f"a storage class is counted as {Meter.STORAGE_HELD.label} alone")
        if "\x00" in slug or not StorageClass.objects.filter(slug=slug).exists():
            raise Invalid.field("resource", f"no storage class was ever sold as {slug[:40]!r}")
        return
    if meter not in GPU_METERS - {Meter.GPU_IDLE}:
        raise Invalid.field("resource", f"{meter.label} has no resource name; leave this empty")
    used = UsageInterval.objects.filter(flavor=None, meter__startswith="gpu_", resource_name=resource)
    counted = {Meter(each) for each in used.order_by().values_list("meter", flat=True).distinct()}
    if not counted:
        raise Invalid.field("resource", f"no GPU was ever counted as {resource!r} without a flavor")
    if meter not in counted:
        known = ", ".join(each.label for each in sorted(counted))
        raise Invalid.field("meter", f"only this was counted for {resource}: {known}")


def _past_require_unrated(
    rows: QuerySet[Rate],
    *,
    flavor: Flavor | None,
    resource: str,
    meter: Meter,
    start: datetime,
    now: datetime,
) -> None:
    """Refuses to change a price under which something was used: any rate in force in [start, now) with usage then."""
    if start >= now:
        return
    for rate in rows.filter(valid_from__lt=now).exclude(valid_to__lte=start):
        first, last = max(rate.valid_from, start), min(rate.valid_to or now, now)
        if is_used(flavor, resource, meter, first, last):
            if rate.write_off_id:
                raise Invalid.field(
                    "valid_from",
                    f"usage since {first:%Y-%m-%d %H:%M:%S} UTC was written off; take the write-off back first",
                )
            raise Invalid.field(
                "valid_from",
                f"usage since {first:%Y-%m-%d %H:%M:%S} UTC is already rated at {rate.price}; choose "
                "a start now or later",
            )


def _settled_require(rate: Rate, *, now: datetime) -> None:
    """Refuses a start in a final month, and one in a closed month whose usage was charged without this price. What waits there for
    a price may get one: the next close posts it."""
    if rate.valid_from >= month_span(month_of(now)).starts_at:
        return
    if not closes_try():
        raise Conflict("a month is being closed; set the price again once that is done")
    final = month_final()
    if final is not None and rate.valid_from < month_span(final).ends_at:
        raise _start_refused(
            f"no price changes what months up to {final:%B %Y} cost, as they are final", final
        )
    closed: date | None = MonthClose.objects.filter(state=CloseState.CLOSED).aggregate(last=Max("month"))[
        "last"
    ]
    if closed is not None and _charges_more(rate, until=month_span(closed).ends_at):
        words = unpriced_words(rate.meter)
        raise _start_refused(f"the invoices of months up to {closed:%B %Y} have this as {words}", closed)


def _start_refused(why: str, last: date) -> Invalid:
    after = month_next(last)
    start = f"{month_span(after).starts_at:%Y-%m-%d %H:%M:%S} UTC, the beginning of {after:%B %Y}"
    return Invalid.field("valid_from", f"{why}; choose a start at {start}, or later")


def _charges_more(rate: Rate, *, until: datetime) -> bool:
    """Whether there is usage before that moment which was free or part of another price, and would get this one."""
    meter, last = Meter(rate.meter), min(rate.valid_to or until, until)
    rows = usage_of(rate.flavor, rate.resource_name, meter, rate.valid_from, last)
    if rate.flavor is not None and meter in TOLD_TWICE:
        # held and used GPUs are the same, and an organization's own card may have a price for the other
        own = Rate.objects.filter(flavor=rate.flavor, meter__in=TOLD_TWICE, card__currency=rate.card.currency)
        payers = own.exclude(card__organization=None).exclude(meter=meter).values("card__organization")
        return rows.filter(project__organization__in=payers).exists()
    return meter in NEVER_WAITING and not (meter in GPU_METERS and rate.flavor is None) and rows.exists()


def is_used(flavor: Flavor | None, resource: str, meter: Meter, first: datetime, last: datetime) -> bool:
    """Whether usage in [first, last) needs the price."""
    if meter is Meter.GPU_IDLE:
        reserved = PoolReservation.objects.filter(flavor=flavor, valid_from__lt=last)
        return reserved.exclude(valid_to__lte=first).exists()
    return usage_of(flavor, resource, meter, first, last).exists()


def usage_of(
    flavor: Flavor | None, resource: str, meter: Meter, first: datetime, last: datetime
) -> QuerySet[UsageInterval]:
    rows = UsageInterval.objects.filter(flavor=flavor, meter=meter, started_at__lt=last)
    if resource:
        rows = rows.filter(resource_name=resource)
    return rows.exclude(ended_at__lte=first)


def _room_make(rows: QuerySet[Rate], start: datetime) -> None:
    """Ends the rate in force at `start`; one that starts at that second was never in force and is deleted."""
    rows.filter(valid_from=start).delete()
    rows.filter(Q(valid_to__isnull=True) | Q(valid_to__gt=start), valid_from__lt=start).update(valid_to=start)
