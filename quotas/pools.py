"""Reserved pools: all GPUs of a type at a site, for one organization.

From the moment a reservation exists, requests of other organizations for more of the pool are refused. The pool
belongs to the first reservation that has not ended. Nobody is evicted: a reservation that starts at once needs the
pool to be free of other holders; one that starts later lets them stay until then, and what they still hold is not
idle (decision 0032).

Reserving GPUs and reserving their pool exclude each other by the lock of the pool's capacity row.
"""

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TypedDict

from django.db import connection, transaction
from django.db.models import Count, Q, QuerySet, Sum

from gpuaas.catalog.models import Flavor, GpuPool, Site
from gpuaas.catalog.states import OfferState, PriceClass
from gpuaas.core import clock
from gpuaas.core.clock import TO_THE_MINUTE
from gpuaas.core.errors import Conflict, Invalid, NotFound
from gpuaas.core.rows import one_or_none, version_require
from quotas.models import PoolReservation, Reservation, ReservationState, SiteCapacity
from quotas.resources import gpu_resource, resource_unit
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.models import Organization, Project
from tenants.roles import Permission
from tenants.selectors import platform_require, projects_for


class PoolStanding(StrEnum):
    """State at one moment."""

    WAITS = "waits"
    IN_FORCE = "in_force"
    OVER = "over"


@dataclass(frozen=True)
class Guest:
    """What a project of another organization holds of a pool: `amount` GPUs in `holders` workspaces and clusters. Short names,
    and the names that people read."""

    organization: str
    project: str
    organization_name: str
    project_name: str
    holders: int
    amount: int


def pool_reservations_for(
    *, actor: Actor, organization: Organization | None = None
) -> QuerySet[PoolReservation]:
    """Latest first: all for operators and auditors, otherwise those charged to projects that the actor may see."""
    rows = PoolReservation.objects.select_related(
        "pool__site", "pool__gpu_type", "flavor", "project__organization"
    ).order_by("-valid_from", "-pk")
    if organization is not None:
        rows = rows.filter(project__organization=organization)
    if actor.sees_all:
        return rows
    return rows.filter(project__in=projects_for(actor=actor, permission=Permission.PROJECT_VIEW))


def pool_reservation_get_for(*, actor: Actor, reservation_id: uuid.UUID) -> PoolReservation:
    found = one_or_none(pool_reservations_for(actor=actor).filter(pk=reservation_id))
    if found is None:
        raise NotFound(
            "there is no such reservation; a reservation that is ended before its start is removed"
        )
    return found


def pool_standing(*, reservation: PoolReservation, now: datetime) -> PoolStanding:
    if reservation.valid_to is not None and reservation.valid_to <= now:
        return PoolStanding.OVER
    return PoolStanding.WAITS if reservation.valid_from > now else PoolStanding.IN_FORCE


def pool_guests(
    *, actor: Actor, wanted: Iterable[tuple[GpuPool, uuid.UUID]]
) -> dict[tuple[uuid.UUID, uuid.UUID], list[Guest]]:
    """For operators: the other organizations that hold GPUs, by (pool, organization), most first; 1 query."""
    platform_require(actor=actor)
    asked = list(wanted)
    rows = (
        Reservation.objects.filter(
            site__in={pool.site_id for pool, _ in asked},
            resource__in={gpu_resource(pool.gpu_type.slug) for pool, _ in asked},
            state=ReservationState.HELD,
        )
        .order_by()
        .values_list(
            "site",
            "resource",
            "project__organization",
            "project__organization__slug",
            "project__slug",
            "project__organization__name",
            "project__name",
        )
        .annotate(holders=Count("holder_id", distinct=True), amount=Sum("amount"))
    )
    held = list(rows)
    return {
        (pool.pk, organization_id): sorted(
            (
                Guest(*guest)
                for site_id, resource, owner, *guest in held
                if (site_id, resource) == (pool.site_id, gpu_resource(pool.gpu_type.slug))
                and owner != organization_id
            ),
            key=lambda guest: (-guest.amount, guest.project),
        )
        for pool, organization_id in asked
    }


def pools_kept(*, project: Project, site: Site) -> dict[str, str]:
    """The resources at the site whose pool is reserved for another organization, with the refusal; 1 query."""
    with connection.cursor() as cursor:
        asked = (project.organization_id, site.pk, clock.now())
        cursor.execute("SELECT resource, until FROM quotas_pools_kept(%s, %s, %s)", asked)
        return {resource: pool_kept_sentence(resource, site, until) for resource, until in cursor.fetchall()}


def pools_owners() -> dict[uuid.UUID, uuid.UUID]:
    """By pool, the organization that alone gets more of it, now or because of a later reservation: that of the first
    reservation that has not ended; 1 query."""
    rows = PoolReservation.objects.exclude(valid_to__lte=clock.now())
    first = rows.order_by("pool_id", "valid_from").distinct("pool_id")
    return dict(first.values_list("pool_id", "project__organization_id"))


def pool_reserve_check(
    *,
    actor: Actor,
    flavor: Flavor,
    project: Project,
    valid_from: datetime | None = None,
    valid_to: datetime | None = None,
) -> list[Guest]:
    """Raises what `pool_reserve` would raise now; otherwise returns the other holders in the pool, who may stay."""
    return _plan(actor, flavor, project, valid_from, valid_to).guests


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
    """Reserves the whole pool of `flavor`, from now or later, for the organization of `project`.

    Raises Invalid on `flavor` (not of the class reserved, or retired), `valid_from` (in the past, already reserved at that time,
    or now while others hold some of it) and `valid_to` (not after the start).
    """
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    _lock(flavor.pool)
    plan = _plan(actor, flavor, project, valid_from, valid_to)
    made = PoolReservation.objects.create(
        pool=flavor.pool,
        flavor=flavor,
        project=project,
        valid_from=plan.start,
        valid_to=plan.end,
        note=note.strip()[:300],
        created_by=actor.name,
    )
    audit_record(actor=actor, action="pool.reserve", target=made, project=project, after=_told(made))
    return made


@transaction.atomic
def pool_reservation_end(
    *,
    actor: Actor,
    reservation: PoolReservation,
    at: datetime | None = None,
    expected_version: int | None = None,
) -> PoolReservation | None:
    """Ends it at `at` (default now). A reservation that has not started by then is deleted, and None is returned.

    Raises Conflict if it has already ended, StaleVersion if it is not as it was read, Invalid on `at` in the past.
    """
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    rows = PoolReservation.objects.select_for_update(of=("self",)).select_related("project", "flavor", "pool")
    row = one_or_none(rows.filter(pk=reservation.pk))
    now = clock.whole_second(clock.now())
    end = clock.whole_second(at) if at else now
    if row is None or (row.valid_to is not None and row.valid_to <= now):
        raise Conflict("this reservation has already ended")
    version_require(row.version, expected_version, "reservation")
    if end < now:
        raise Invalid.field("at", "idle time in the past is already charged; choose an end now or later")
    if row.valid_to is not None and row.valid_to < end:
        raise Invalid.field("at", f"it already ends at {row.valid_to:{TO_THE_MINUTE}} UTC, before that")
    clock.year_require(end, field="at")
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
    row.valid_to, row.version = end, row.version + 1
    row.save(update_fields=["valid_to", "version"])
    return row


class ReservationChanges(TypedDict, total=False):
    """valid_to: None for no end."""

    note: str
    valid_to: datetime | None


@transaction.atomic
def pool_reservation_change(
    *,
    actor: Actor,
    reservation: PoolReservation,
    changes: ReservationChanges,
    expected_version: int | None = None,
) -> PoolReservation:
    """What is not in `changes` stays, also if somebody else has changed it meanwhile, and so does what is past: its start, and all
    of it once it has ended.

    Raises Conflict if it has ended, StaleVersion if it is not as it was read, Invalid on `valid_to`: in the past, not after the
    start, or when it is reserved for others.
    """
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    _lock(reservation.pool)
    rows = PoolReservation.objects.select_for_update(of=("self",))
    row = one_or_none(rows.select_related("project", "flavor", "pool").filter(pk=reservation.pk))
    now = clock.whole_second(clock.now())
    if row is None or (row.valid_to is not None and row.valid_to <= now):
        raise Conflict("this reservation has ended; it stays as it was")
    version_require(row.version, expected_version, "reservation")
    before = _told(row)
    row.note = changes.get("note", row.note).strip()[:300]
    row.valid_to = _end_changed(row, changes.get("valid_to", row.valid_to), now)
    if _told(row) != before:
        row.version += 1
        row.save(update_fields=["valid_to", "note", "version"])
        audit_record(
            actor=actor,
            action="pool.reservation.change",
            target=row,
            project=row.project,
            before=before,
            after=_told(row),
        )
    return row


def _end_changed(row: PoolReservation, asked: datetime | None, now: datetime) -> datetime | None:
    end = clock.whole_second(asked) if asked else None
    if end == row.valid_to:
        return end
    if end is not None and end < now:
        raise Invalid.field(
            "valid_to", "idle time in the past is already charged; choose an end now or later"
        )
    if end is not None and end <= row.valid_from:
        raise Invalid.field("valid_to", "a reservation must end after it starts")
    if end is not None:
        clock.year_require(end, field="valid_to")
    _require_unreserved(row.pool, row.valid_from, end, but=row)
    return end


def pool_kept_sentence(resource: str, site: Site, until: datetime | None) -> str:
    when = f" until {until:{TO_THE_MINUTE}} UTC" if until else ""
    return (
        f"All {resource_unit(resource)} at {site.slug} are reserved for another organization{when}. "
        "Choose another GPU type or site, or ask an operator."
    )


def _lock(pool: GpuPool) -> None:
    """Until the commit, nobody can raise the counter of the pool; those who waited then see the new reservation."""
    resource = gpu_resource(pool.gpu_type.slug)
    SiteCapacity.objects.bulk_create(
        [SiteCapacity(site=pool.site, resource=resource, hard=0)], ignore_conflicts=True
    )
    SiteCapacity.objects.select_for_update(no_key=True).get(site=pool.site, resource=resource)


@dataclass(frozen=True)
class _Plan:
    start: datetime
    end: datetime | None
    guests: list[Guest]


def _plan(
    actor: Actor, flavor: Flavor, project: Project, valid_from: datetime | None, valid_to: datetime | None
) -> _Plan:
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    if flavor.price_class != PriceClass.RESERVED:
        sold = flavor.get_price_class_display().lower()
        raise Invalid.field(
            "flavor", f"{flavor.slug} is sold {sold}; choose a flavor of the price class reserved"
        )
    if Flavor.objects.filter(pk=flavor.pk, state=OfferState.RETIRED).exists():
        raise Invalid.field(
            "flavor", f"{flavor.slug} is retired, so nobody could get any of it; publish it first"
        )
    now = clock.whole_second(clock.now())
    start, end = _span(now, valid_from, valid_to)
    _require_unreserved(flavor.pool, start, end)
    (guests,) = pool_guests(actor=actor, wanted=[(flavor.pool, project.organization_id)]).values()
    if start <= now and guests:
        raise Invalid.field("valid_from", _still_there(flavor.pool, guests))
    return _Plan(start, end, guests)


def _span(
    now: datetime, valid_from: datetime | None, valid_to: datetime | None
) -> tuple[datetime, datetime | None]:
    start = clock.whole_second(valid_from) if valid_from else now
    end = clock.whole_second(valid_to) if valid_to else None
    if start < now:
        raise Invalid.field(
            "valid_from", "idle time in the past cannot be charged; choose a start now or later"
        )
    if end is not None and end <= start:
        raise Invalid.field("valid_to", "a reservation must end after it starts")
    clock.year_require(start, field="valid_from")
    if end is not None:
        clock.year_require(end, field="valid_to")
    return start, end


def _require_unreserved(
    pool: GpuPool, start: datetime, end: datetime | None, *, but: PoolReservation | None = None
) -> None:
    """Serializes per pool; the database also refuses an overlap."""
    rows = PoolReservation.objects.filter(pool=pool).select_related("project__organization")
    rows = rows.exclude(pk=but.pk) if but else rows
    before_end = Q() if end is None else Q(valid_from__lt=end)
    other = rows.filter(before_end).exclude(valid_to__lte=start).order_by("valid_from").first()
    if other is None:
        return
    begins, until = f"{other.valid_from:{TO_THE_MINUTE}} UTC", "on"
    if other.valid_to:
        until = f"to {other.valid_to:{TO_THE_MINUTE}} UTC"
    says = f"{_named(pool)} is reserved for {other.project.organization.name} from {begins} {until}"
    if start < other.valid_from:
        raise Invalid.field("valid_to", f"{says}; choose an end by then, or end that reservation first")
    instead = "choose a start after that, or end that reservation first" if other.valid_to else ""
    raise Invalid.field("valid_from", f"{says}; {instead or 'end that reservation first'}")


def _named(pool: GpuPool) -> str:
    return f"{pool.gpu_type.name} at {pool.site.slug}"


def _still_there(pool: GpuPool, guests: Sequence[Guest]) -> str:
    named = ", ".join(f"{guest.project_name} of {guest.organization_name} {guest.amount}" for guest in guests)
    return (
        f"others hold {sum(guest.amount for guest in guests)} GPUs of {_named(pool)}: {named}. Have them "
        "released, or choose a later start: then nobody else gets more of the pool from now on, and "
        "what is still held at the start stays until it is released"
    )


def _told(row: PoolReservation) -> dict[str, str | None]:
    return {
        "pool": str(row.pool),
        "flavor": row.flavor.slug,
        "project": row.project.slug,
        "valid_from": row.valid_from.isoformat(),
        "valid_to": row.valid_to.isoformat() if row.valid_to else None,
        "note": row.note,
    }
