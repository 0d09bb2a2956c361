"""Reserving a pool (a GPU type at a site) for one organization, which then pays for what of it is idle."""

from datetime import datetime

from django.db import transaction
from django.db.models import Q

from billing.models import PoolReservation
from gpuaas.catalog.models import Flavor, GpuPool
from gpuaas.catalog.states import PriceClass
from gpuaas.core import clock
from gpuaas.core.errors import Conflict, Invalid
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.models import Project
from tenants.roles import Permission
from tenants.selectors import platform_require


@transaction.atomic
def pool_reserve(
    *,
    actor: Actor,
    flavor: Flavor,
    project: Project,
    valid_from: datetime | None = None,
    valid_to: datetime | None = None,
    note: str = "",
) -> PoolReservation:
    """The pool of `flavor`, whole, from now or later; its idle GPUs go on the bill of `project`, at the flavor's price.

    Raises Invalid on `flavor` (not of the class reserved), `valid_from` (in the past, or reserved then already) and
    `valid_to` (not after the start).
    """
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    if flavor.price_class != PriceClass.RESERVED:
        raise Invalid.field(
            "flavor",
            f"{flavor.slug} is sold {flavor.get_price_class_display().lower()}; choose one of the class reserved",
        )
    start, end = _span(valid_from, valid_to)
    GpuPool.objects.select_for_update(no_key=True).get(pk=flavor.pool_id)
    _pool_require_free(flavor.pool, start, end)
    made = PoolReservation.objects.create(
        pool=flavor.pool,
        flavor=flavor,
        project=project,
        valid_from=start,
        valid_to=end,
        note=note.strip()[:300],
        created_by=actor.name,
    )
    audit_record(actor=actor, action="pool.reserve", target=made, project=project, after=_told(made))
    return made


@transaction.atomic
def pool_reservation_end(
    *, actor: Actor, reservation: PoolReservation, at: datetime | None = None
) -> PoolReservation | None:
    """It ends at `at` (default now); one that has not begun by then goes, and None is returned.

    Raises Conflict where it is over, Invalid on `at` in the past.
    """
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    now = clock.whole_second(clock.now())
    end = clock.whole_second(at) if at else now
    if end < now:
        raise Invalid.field("at", "what was idle was already charged; a reservation ends now or later")
    rows = PoolReservation.objects.select_for_update(of=("self",)).select_related("project", "flavor", "pool")
    row = rows.filter(pk=reservation.pk).first()
    if row is None or (row.valid_to is not None and row.valid_to <= now):
        raise Conflict("this reservation is over already")
    if row.valid_to is not None and row.valid_to < end:
        raise Invalid.field("at", f"it ends at {row.valid_to:%Y-%m-%d %H:%M} UTC, before that")
    before, gone = _told(row), row.valid_from >= end
    audit_record(
        actor=actor,
        action="pool.reservation.end",
        target=row,
        project=row.project,
        before=before,
        after={**before, "valid_to": None if gone else end.isoformat(), "removed": gone},
    )
    if gone:
        row.delete()
        return None
    row.valid_to = end
    row.save(update_fields=["valid_to"])
    return row


def _span(valid_from: datetime | None, valid_to: datetime | None) -> tuple[datetime, datetime | None]:
    now = clock.whole_second(clock.now())
    start = clock.whole_second(valid_from) if valid_from else now
    end = clock.whole_second(valid_to) if valid_to else None
    if start < now:
        raise Invalid.field("valid_from", "what was idle is past; a reservation begins now or later")
    if end is not None and end <= start:
        raise Invalid.field("valid_to", "a reservation ends after it begins")
    return start, end


def _pool_require_free(pool: GpuPool, start: datetime, end: datetime | None) -> None:
    """One after the other for a pool; the database refuses an overlap all the same."""
    rows = PoolReservation.objects.filter(pool=pool).select_related("project__organization")
    before_end = Q() if end is None else Q(valid_from__lt=end)
    other = rows.filter(before_end).exclude(valid_to__lte=start).first()
    if other is not None:
        until = f"to {other.valid_to:%Y-%m-%d %H:%M} UTC" if other.valid_to else "on"
        raise Invalid.field(
            "valid_from",
            f"{pool} is reserved for {other.project.organization.slug} from {other.valid_from:%Y-%m-%d %H:%M} UTC {until}; "
            "end that first",
        )


def _told(row: PoolReservation) -> dict[str, str | None]:
    return {
        "pool": str(row.pool),
        "flavor": row.flavor.slug,
        "project": row.project.slug,
        "valid_from": row.valid_from.isoformat(),
        "valid_to": row.valid_to.isoformat() if row.valid_to else None,
    }
