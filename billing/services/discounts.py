"""Discounts. Past charges never change: a discount starts and ends now or later."""

from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db import transaction
from django.db.models import Q

from billing.models import Discount
from billing.money import decimal_read
from gpuaas.catalog.models import Flavor
from gpuaas.core import clock
from gpuaas.core.errors import Conflict, Invalid
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.models import Organization
from tenants.roles import Permission
from tenants.selectors import platform_require


@transaction.atomic
def discount_give(
    *,
    actor: Actor,
    organization: Organization,
    percent: Decimal | str,
    flavor: Flavor | None = None,
    valid_from: datetime | None = None,
    valid_to: datetime | None = None,
    note: str = "",
) -> Discount:
    """`percent` off every price of an organization, or off those of one flavor, from now or later.

    Raises Invalid on `percent`, on `valid_from` (in the past, or another discount on the same prices is in force
    then) and on `valid_to` (not after the start); on both for a time that cannot be shown.
    """
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    basis_points = percent_parse(percent)
    start, end = _span(valid_from, valid_to)
    _reach_require_free(organization, flavor, start, end)
    made = Discount.objects.create(
        organization=organization,
        flavor=flavor,
        basis_points=basis_points,
        valid_from=start,
        valid_to=end,
        note=note.strip()[:300],
        created_by=actor.name,
    )
    after = {
        "basis_points": basis_points,
        "flavor": flavor.slug if flavor else None,
        "valid_from": start.isoformat(),
    }
    entry: dict[str, Any] = {"organization": organization, "after": after}
    audit_record(actor=actor, action="discount.give", target=organization, **entry)
    return made


def _span(valid_from: datetime | None, valid_to: datetime | None) -> tuple[datetime, datetime | None]:
    now = clock.whole_second(clock.now())
    start = clock.whole_second(valid_from) if valid_from else now
    end = clock.whole_second(valid_to) if valid_to else None
    clock.year_require(start, field="valid_from")
    if end is not None:
        clock.year_require(end, field="valid_to")
    if start < now:
        raise Invalid.field("valid_from", "past usage is already rated; choose a start now or later")
    if end is not None and end <= start:
        raise Invalid.field("valid_to", "a discount must end after it starts")
    return start, end


def _reach_require_free(
    organization: Organization, flavor: Flavor | None, start: datetime, end: datetime | None
) -> None:
    """Serialized per organization; the database also refuses an overlap."""
    Organization.objects.select_for_update().get(pk=organization.pk)
    rows = Discount.objects.filter(organization=organization, flavor=flavor)
    before_end = Q() if end is None else Q(valid_from__lt=end)
    other = rows.filter(before_end).filter(Q(valid_to__isnull=True) | Q(valid_to__gt=start)).first()
    if other is not None:
        until = f"to {other.valid_to:%Y-%m-%d %H:%M} UTC" if other.valid_to else "on"
        raise Invalid.field(
            "valid_from",
            f"{other.basis_points / 100:g}% are already given from {other.valid_from:%Y-%m-%d %H:%M} "
            f"UTC {until}; end that discount first",
        )


@transaction.atomic
def discount_end(*, actor: Actor, discount: Discount) -> None:
    """Ends the discount now; one that has not started is deleted. Raises Conflict if it has already ended."""
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    now = clock.whole_second(clock.now())
    row = Discount.objects.select_for_update().select_related("organization").get(pk=discount.pk)
    if row.valid_to is not None and row.valid_to <= now:
        raise Conflict("this discount has already ended")
    before = {
        "basis_points": row.basis_points,
        "valid_to": row.valid_to.isoformat() if row.valid_to else None,
    }
    if row.valid_from >= now:
        row.delete()
    else:
        row.valid_to = now
        row.save(update_fields=["valid_to"])
    after = {"valid_to": now.isoformat()}
    audit_record(
        actor=actor,
        action="discount.end",
        target=row.organization,
        organization=row.organization,
        before=before,
        after=after,
    )


def percent_parse(value: Decimal | str) -> int:
    """Hundredths of a percent. Raises Invalid on `percent`."""
    return basis_points_parse(value, field="percent", what="a discount", zero=False)


def basis_points_parse(value: Decimal | str, *, field: str, what: str, zero: bool) -> int:
    """Hundredths of a percent entered by a person, up to 100 percent. Raises Invalid on `field`."""
    percent = decimal_read(value, field=field, otherwise=f"{what} must be a percentage such as 7.5")
    if not percent.is_finite() or not 0 <= percent <= 100 or not (percent or zero):
        lowest = "between 0 and" if zero else "above 0 and up to"
        raise Invalid.field(field, f"{what} must be {lowest} 100 percent")
    basis_points = percent * 100
    if basis_points != basis_points.to_integral_value():
        raise Invalid.field(field, f"{what} may have at most 2 decimal places")
    return int(basis_points)
