"""Admission: reserving, resizing and releasing parts of limits and capacity; setting limits; syncing capacity.

Locks are always taken in one global order, so that there are no deadlocks: the holder's own reservation rows, then
counters by (scope, owner, resource), all of which are moved by one statement (`admission.py`). A holder may hold at
several sites: limits count the total, each site's capacity its part.
"""

import uuid
from collections import Counter
from collections.abc import Mapping

from django.db import transaction
from django.db.models import F

from gpuaas.catalog.models import GpuPool, GpuType, Site
from gpuaas.core.clock import now
from gpuaas.core.errors import Conflict, Forbidden, Invalid
from gpuaas.core.rows import version_require
from quotas.admission import CounterKey, Refused, counters_move, parts_reserve
from quotas.checks import Check, Scope
from quotas.holds import holds_refuse
from quotas.models import Limit, Reservation, ReservationState, SiteCapacity
from quotas.pools import pool_kept_sentence
from quotas.resources import STORAGE, gpu_type_slug, is_resource, is_spot
from quotas.selectors import NOWHERE, Elsewhere, scope_names
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.models import Organization, Project
from tenants.roles import Permission
from tenants.selectors import organization_get_for, platform_require, project_require

Held = tuple[Site, str]  # where, and of which resource
MAX_HARD = 2**53 - 1  # what JSON readers everywhere hold exactly


def reservation_reserve(
    *,
    holder_kind: str,
    holder_id: uuid.UUID,
    project: Project,
    site: Site,
    amounts: Mapping[str, int],
    elsewhere: Elsewhere = NOWHERE,
) -> None:
    """Reserves `amounts` at the site, and those of `elsewhere` at other sites, for the holder, all or nothing. Zeros
    are left out. Raises OnHold, QuotaRefused or NoCapacity, and Conflict if the holder already holds something."""
    placed = _placed(site, amounts, elsewhere)
    refused = parts_reserve(
        holder_kind=holder_kind,
        holder_id=holder_id,
        project=project,
        parts=[(place.pk, *part) for place, there in placed.items() for part in there.items()],
        counters=_moves(project, placed),
    )
    if refused:
        raise _refusal(refused, project, placed)


@transaction.atomic
def reservation_grow(
    *,
    holder_kind: str,
    holder_id: uuid.UUID,
    amounts: Mapping[str, int],
    site: Site | None = None,
    elsewhere: Elsewhere = NOWHERE,
) -> None:
    """Raises what is held to `amounts` where they are higher; lower amounts change nothing. `site`: where `amounts`
    are, for a holder that may hold at several.

    The second half of a resize is `reservation_shrink`, after the site has confirmed the new amounts.
    """
    held = _held_locked(holder_kind, holder_id)
    if not held:
        raise Conflict(f"this {holder_kind} has no reservation to increase")
    sample = next(iter(held.values()))
    more: dict[Site, dict[str, int]] = {}
    for place, wanted in _placed(site or sample.site, amounts, elsewhere).items():
        for resource, amount in sorted(wanted.items()):
            row = held.get((place, resource))
            growth = amount - (row.amount if row else 0)
            if growth > 0:
                more.setdefault(place, {})[resource] = growth
    if more:
        holds_refuse(project=sample.project, holder_id=holder_id)
    for place, growths in more.items():
        for resource, growth in growths.items():
            _row_raise(sample, held.get((place, resource)), place, resource, growth)
    _counters_raise(sample.project, more, _moves(sample.project, more))


def _hold(holder_kind: str, holder_id: uuid.UUID, project: Project, placed: Elsewhere) -> None:
    moment = now()
    Reservation.objects.bulk_create(
        Reservation(
            holder_kind=holder_kind,
            holder_id=holder_id,
            project=project,
            site=place,
            resource=resource,
            amount=amount,
            created_at=moment,
        )
        for place, amounts in placed.items()
        for resource, amount in sorted(amounts.items())
    )


def _end(row: Reservation) -> None:
    ended = {"state": ReservationState.RELEASED, "released_at": _not_before(row)}
    Reservation.objects.filter(pk=row.pk).update(**ended)


def _row_raise(sample: Reservation, row: Reservation | None, place: Site, resource: str, growth: int) -> None:
    if row is not None:
        Reservation.objects.filter(pk=row.pk).update(amount=F("amount") + growth)
        return
    Reservation.objects.create(
        holder_kind=sample.holder_kind,
        holder_id=sample.holder_id,
        project_id=sample.project_id,
        site=place,
        resource=resource,
        amount=growth,
        created_at=now(),
    )


@transaction.atomic
def reservation_shrink(
    *,
    holder_kind: str,
    holder_id: uuid.UUID,
    amounts: Mapping[str, int],
    site: Site | None = None,
    elsewhere: Elsewhere = NOWHERE,
) -> None:
    """Lowers what is held to `amounts` where they are lower; resources missing there are released completely."""
    held = _held_locked(holder_kind, holder_id)
    if not held:
        return
    wanted = _placed(site or next(iter(held.values())).site, amounts, elsewhere)
    less = {
        key: row.amount - remaining
        for key, row in held.items()
        if row.amount > (remaining := wanted.get(row.site, {}).get(row.resource, 0))
    }
    for key, amount in less.items():
        row = held[key]
        if row.amount == amount:
            _end(row)
        else:
            Reservation.objects.filter(pk=row.pk).update(amount=F("amount") - amount)
    _counters_lower(held, less)


@transaction.atomic
def reservation_release(*, holder_kind: str, holder_id: uuid.UUID, site: Site | None = None) -> bool:
    """Releases everything, or what is held at `site`, exactly once; False if nothing was held any more."""
    rows = _held_locked(holder_kind, holder_id)
    held = {key: row for key, row in rows.items() if site in {None, row.site}}
    for row in held.values():
        _end(row)
    _counters_lower(held, {key: row.amount for key, row in held.items()})
    return bool(held)


@transaction.atomic
def reservation_move(*, holder_kind: str, holder_id: uuid.UUID, project: Project) -> None:
    """Moves what is held to another project, all or nothing: its limits are checked as for an order (OnHold, QuotaRefused),
    and the site's capacity stays taken. NoCapacity only if a pool is reserved for another organization."""
    held = _held_locked(holder_kind, holder_id)
    if not held:
        raise Conflict(f"this {holder_kind} has no reservation to hand over")
    old = next(iter(held.values())).project
    holds_refuse(project=project, holder_id=holder_id)
    placed: dict[Site, dict[str, int]] = {}
    for (place, resource), row in held.items():
        placed.setdefault(place, {})[resource] = row.amount
        _end(row)
    _hold(holder_kind, holder_id, project, placed)
    moves = Counter(_moves(project, placed))
    moves.subtract(_moves(old, placed))  # capacity moves by 0: it is only locked, for whose a pool is
    _counters_raise(project, placed, moves)


@transaction.atomic
def limit_set(
    *,
    actor: Actor,
    resource: str,
    hard: int | None,
    project: Project | None = None,
    organization: Organization | None = None,
    expected_version: int | None = None,
) -> Limit:
    """Sets the limit of one project or organization (hard None = unlimited). A limit below its use evicts nobody.

    `expected_version` 0 means that there must be no limit yet. Raises StaleVersion if another version is current.
    """
    owner = _limit_owner(actor, project, organization)
    _limit_validate(resource, hard)
    Limit.objects.bulk_create([Limit(**owner, resource=resource, hard=0, version=0)], ignore_conflicts=True)
    row = Limit.objects.select_for_update(no_key=True).get(**owner, resource=resource)
    version_require(row.version, expected_version, "limit")
    before = {"hard": row.hard} if row.version else None
    row.hard, row.version = hard, row.version + 1
    row.save(update_fields=["hard", "version"])
    audit_record(
        actor=actor,
        action="limit.set",
        target=row,
        project=project,
        organization=organization,
        before=before,
        after={"resource": resource, "hard": hard},
    )
    return row


@transaction.atomic
def capacity_sync(*, site: Site, healthy: Mapping[str, int], oversubscription_percent: int) -> None:
    """Sets the sellable capacity of a site to what was observed; writes only changes.

    GPU types that are no longer observed become 0. vCPU, memory and storage that are not given are not counted.
    """
    known = {row.resource: row for row in SiteCapacity.objects.filter(site=site)}
    changed = []
    for resource in sorted(known.keys() | healthy.keys() | {STORAGE}):
        percent = 100 if is_spot(resource) else oversubscription_percent  # no more is lent than there is
        if resource not in healthy and not gpu_type_slug(resource):
            count, hard = 0, None
        else:
            count = healthy.get(resource, 0)
            hard = count * percent // 100
        old = known.get(resource)
        new = (count, percent, hard)
        if old is None or (old.healthy, old.oversubscription_percent, old.hard) != new:
            changed.append(
                SiteCapacity(
                    site=site,
                    resource=resource,
                    healthy=count,
                    oversubscription_percent=percent,
                    hard=hard,
                )
            )
    # the database sorts names by its own collation, as in admission, whose order this is
    rows = SiteCapacity.objects.filter(site=site, resource__in=[row.resource for row in changed])
    list(rows.order_by("resource").select_for_update(no_key=True).values_list("pk"))
    SiteCapacity.objects.bulk_create(
        changed,
        update_conflicts=True,
        unique_fields=["site", "resource"],
        update_fields=["healthy", "oversubscription_percent", "hard"],
    )


@transaction.atomic
def capacity_take_over(*, project: Project, site: Site, amounts: Mapping[str, int]) -> None:
    """Devices that were in other hands are from now on for sale at the site, because who has them becomes a holder of ours: call it in
    the transaction that reserves them. Never more than is healthy there; the next look at the site counts again."""
    wanted = _positive(amounts)
    counters_move(dict.fromkeys(_moves(project, {site: wanted}), 0))  # locks them, in their order
    healthy = dict(GpuPool.objects.filter(site=site).values_list("gpu_type__slug", "healthy"))
    for row in SiteCapacity.objects.filter(site=site, resource__in=wanted):
        most = healthy.get(gpu_type_slug(row.resource), 0)
        row.healthy = max(row.healthy, min(row.healthy + wanted[row.resource], most))
        row.hard = row.healthy * row.oversubscription_percent // 100
        row.save(update_fields=["healthy", "hard"])


def _positive(amounts: Mapping[str, int]) -> dict[str, int]:
    for resource, amount in amounts.items():
        if amount < 0 or not is_resource(resource):
            raise ValueError(f"{resource}={amount} cannot be reserved")
    return {resource: amount for resource, amount in amounts.items() if amount}


def _placed(site: Site, amounts: Mapping[str, int], elsewhere: Elsewhere) -> dict[Site, dict[str, int]]:
    """Amounts above zero, by sites in the order in which their counters are locked."""
    placed = {place: _positive(there) for place, there in {site: amounts, **elsewhere}.items()}
    return {place: placed[place] for place in sorted(placed, key=lambda place: place.pk) if placed[place]}


def _totals(placed: Elsewhere) -> dict[str, int]:
    """What counts against limits: the total of all sites."""
    total: Counter[str] = Counter()
    for amounts in placed.values():
        total.update(amounts)
    return dict(sorted(total.items()))


def _held_locked(holder_kind: str, holder_id: uuid.UUID) -> dict[Held, Reservation]:
    rows = (
        Reservation.objects.select_for_update(of=("self",))
        .filter(holder_kind=holder_kind, holder_id=holder_id, state=ReservationState.HELD)
        .select_related("project__organization", "site")
        .order_by("resource", "site")
    )
    return {(row.site, row.resource): row for row in rows}


def _not_before(row: Reservation) -> object:
    """Now, or the start of the row if the clock of another machine is ahead of ours."""
    return max(now(), row.created_at)


def _moves(project: Project, placed: Elsewhere) -> dict[CounterKey, int]:
    """What is held there, by each counter that counts it: limits the total, capacity its site's part."""
    owners = ((Scope.PROJECT, project.pk), (Scope.ORGANIZATION, project.organization_id))
    limits = {(*owner, resource): amount for owner in owners for resource, amount in _totals(placed).items()}
    capacity = {
        (Scope.SITE, site.pk, resource): amount
        for site, amounts in placed.items()
        for resource, amount in amounts.items()
    }
    return limits | capacity


def _counters_raise(project: Project, placed: Elsewhere, moves: Mapping[CounterKey, int]) -> None:
    """All or nothing. The owner of a pool is read under the lock of its counter, so it cannot change before the commit."""
    refused = counters_move(moves, organization_id=project.organization_id)
    if refused:
        raise _refusal(refused, project, placed)


def _refusal(refused: Refused, project: Project, placed: Elsewhere) -> Conflict:
    scope, resource = refused.scope, refused.resource
    site = next((place for place in placed if place.pk == refused.owner), next(iter(placed)))
    asked = placed[site][resource] if scope is Scope.SITE else _totals(placed)[resource]
    why = pool_kept_sentence(resource, site, refused.until) if refused.kept else ""
    name = scope_names(project=project, site=site)[scope]
    return Check(scope, name, resource, refused.hard, refused.used, asked, reserved_because=why).refusal()


def _counters_lower(held: Mapping[Held, Reservation], less: Mapping[Held, int]) -> None:
    placed: dict[Site, dict[str, int]] = {}
    for (site, resource), amount in less.items():
        placed.setdefault(site, {})[resource] = amount
    if placed:
        project = next(iter(held.values())).project
        counters_move({key: -amount for key, amount in _moves(project, placed).items()})


def _limit_owner(
    actor: Actor, project: Project | None, organization: Organization | None
) -> dict[str, Project] | dict[str, Organization]:
    """Outsiders get NotFound; tenants see their limits, but only operators set them."""
    owner: dict[str, Project] | dict[str, Organization]
    if project is not None and organization is None:
        project_require(actor=actor, project=project, permission=Permission.PROJECT_VIEW)
        owner = {"project": project}
    elif organization is not None and project is None:
        organization_get_for(actor=actor, slug=organization.slug)
        owner = {"organization": organization}
    else:
        raise ValueError("a limit belongs to either a project or an organization")
    if Permission.PLATFORM_VIEW not in actor.on_platform():
        raise Forbidden("only operators set limits; ask an operator")
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    return owner


def _limit_validate(resource: str, hard: int | None) -> None:
    slug = gpu_type_slug(resource)
    if not is_resource(resource) or (slug and not GpuType.objects.filter(slug=slug).exists()):
        raise Invalid.field("resource", f"unknown resource {resource[:80]!r}")
    if hard is None:
        return
    if type(hard) is not int or not 0 <= hard <= MAX_HARD:
        raise Invalid.field("hard", "a limit is a whole number of 0 or more, or empty for unlimited")
