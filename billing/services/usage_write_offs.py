"""Usage that has no price and is not to be charged: an operator says so once, with a reason."""

from collections.abc import Iterable
from datetime import date, datetime

from django.conf import settings
from django.db import transaction

from billing.models import Rate, RateCard, UsageWriteOff
from billing.months import Span, month_span
from billing.services.rates import SHARED, is_used, meter_require, rate_card_ensure, rates_paying, version_at
from gpuaas.catalog.models import Flavor
from gpuaas.catalog.states import PriceClass
from gpuaas.core import clock
from gpuaas.core.errors import Conflict, Invalid
from gpuaas.metering.final import month_final
from gpuaas.metering.models import TOKEN_METERS, Meter
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.roles import Permission
from tenants.selectors import platform_require


def usage_write_off(
    *,
    actor: Actor,
    month: date,
    meter: Meter | str,
    reason: str,
    flavor: Flavor | None = None,
    resource: str = "",
    currency: str = "",
) -> UsageWriteOff:
    """Usage of a month that is over is charged with nothing where it has no price, so that the month can be closed.

    flavor or resource: as in `rate_set`. currency: of the standard card, by default the portal's. Raises Invalid on
    `month` if it is not over or is final, on `meter` if nothing was used or all of it has a price, on `currency`, and
    on `reason`.
    """
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    known, why = _unpaid(meter_require(meter, flavor, resource), flavor), _why(reason)
    span = _over(month)
    price_class = flavor.price_class if flavor else PriceClass.ON_DEMAND.value
    with transaction.atomic():
        card = _card_lock(currency or settings.CURRENCY)
        ware = {"flavor": flavor, "resource_name": resource}
        rates = rates_paying(card=card, flavor=flavor, resource=resource, meter=known)
        gaps = [
            gap
            for gap in _gaps(rates.order_by("valid_from"), span.starts_at, span.ends_at)
            if is_used(flavor, resource, known, *gap)
        ]
        if not gaps:
            raise Invalid.field("meter", f"no usage of this in {month:%B %Y} is without a price")
        made = UsageWriteOff.objects.create(
            card=card, month=span.day, **ware, meter=known, reason=why, created_by=actor.name
        )
        for first, last in gaps:
            _free(made, actor, price_class, first, last)
        audit_record(actor=actor, action="usage.write_off", target=made, after=_told(made))
    return made


def _unpaid(meter: Meter, flavor: Flavor | None) -> Meter:
    """A meter whose usage waits for a price where it has none: all else is then part of another price, or free (rating.md,
    section 6)."""
    used = flavor is not None and not flavor.is_lent and meter not in (Meter.GPU_HELD, Meter.GPU_IDLE)
    if used or meter in SHARED:
        why = "are free" if meter in TOKEN_METERS else "is part of another price"
        raise Invalid.field("meter", f"{meter.label} without a price {why}; there is nothing to write off")
    return meter


def _free(made: UsageWriteOff, actor: Actor, price_class: str, first: datetime, last: datetime) -> None:
    card = made.card
    Rate.objects.create(
        card=card,
        version=card.versions.filter(valid_from__lte=first).first()
        or version_at(card=card, at=first, actor=actor),
        flavor=made.flavor,
        resource_name=made.resource_name,
        meter=made.meter,
        price_class=price_class,
        price_micro=0,
        valid_from=first,
        valid_to=last,
        write_off=made,
        created_by=actor.name,
    )


def usage_write_off_take_back(*, actor: Actor, row: UsageWriteOff) -> None:
    """The usage waits for a price again. Raises Conflict once its month is final."""
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    with transaction.atomic():
        _card_lock(row.card.currency)
        found = UsageWriteOff.objects.filter(pk=row.pk).select_related("card", "flavor").first()
        if found is None:
            raise Conflict("this write-off was already taken back")
        if (last := month_final()) and found.month <= last:
            raise Conflict(f"{found.month:%B %Y} is final: what was written off stays written off")
        audit_record(actor=actor, action="usage.write_off_take_back", target=found, before=_told(found))
        found.delete()


def _why(reason: str) -> str:
    why = reason.strip()
    if not why:
        raise Invalid.field("reason", "say why this usage is not charged")
    if len(why) > 300:
        raise Invalid.field("reason", "write at most 300 characters")
    return why


def _over(month: date) -> Span:
    """A month that is over, and not final."""
    span = month_span(month)
    if span.ends_at > clock.now():
        raise Invalid.field("month", f"{month:%B %Y} is not over; set a price for it instead")
    if (last := month_final()) and month <= last:
        raise Invalid.field("month", f"{month:%B %Y} is final: its usage is not charged any more")
    return span


def _card_lock(currency: str) -> RateCard:
    """The standard card, locked, as for every change of its prices."""
    if currency == settings.CURRENCY:
        return rate_card_ensure()
    card = RateCard.objects.select_for_update().filter(organization=None, currency=currency).first()
    if card is None:
        raise Invalid.field("currency", f"there is no standard rate card in {currency}; make one first")
    return card


def _gaps(rates: Iterable[Rate], first: datetime, last: datetime) -> list[tuple[datetime, datetime]]:
    """The parts of [first, last) in which no price is in force."""
    found, reached = [], first
    for rate in rates:
        if rate.valid_from >= last:
            break
        if rate.valid_from > reached:
            found.append((reached, rate.valid_from))
        if rate.valid_to is None:
            return found
        reached = max(reached, rate.valid_to)
    return [*found, (reached, last)] if reached < last else found


def _told(row: UsageWriteOff) -> dict[str, str]:
    return {
        "month": f"{row.month:%Y-%m}",
        "what": row.what,
        "meter": row.meter,
        "currency": row.card.currency,
        "reason": row.reason,
    }
