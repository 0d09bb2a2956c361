"""Admission: reserving, resizing and releasing parts of limits and capacity; setting limits; syncing capacity.

Locks are always taken in one global order, so that no two transactions can wait for each other: the holder's own
reservation rows, then counters by (scope, site, resource). Those of one scope and site move by one conditional UPDATE
(`counters.py`). A holder may hold at several sites: limits count all of it, each site's capacity what is there.
"""

import uuid
from collections import Counter
from collections.abc import Mapping

from django.db import IntegrityError, models, transaction
from django.db.models import F

from gpuaas.catalog.models import GpuType, Site
from gpuaas.core.clock import now
from gpuaas.core.errors import Conflict, Forbidden, Invalid, StaleVersion
from quotas.checks import Check, Scope
from quotas.counters import counters_lower, counters_raise
from quotas.holds import holds_refuse
from quotas.models import Limit, Reservation, ReservationState, SiteCapacity
from quotas.pools import pools_kept
from quotas.resources import STORAGE, gpu_type_slug, is_resource
from quotas.selectors import NOWHERE, Elsewhere, scope_names
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.models import Organization, Project
from tenants.roles import Permission
from tenants.selectors import organization_get_for, platform_require, project_require

Held = tuple[Site, str]  # where, and of which resource
MAX_HARD = 2**53 - 1  # what JSON readers everywhere hold exactly


@transaction.atomic
def reservation_reserve(
    *,
    holder_kind: str,
    holder_id: uuid.UUID,
    project: Project,
    site: Site,
    amounts: Mapping[str, int],
    elsewhere: Elsewhere = NOWHERE,
) -> None:
    """Hold `amounts` at the site, and what is named by sites of `elsewhere`, for the holder, or nothing at all. Raises OnHold,
    QuotaRefused or NoCapacity; zeros are left out."""
    wanted = _placed(site, amounts, elsewhere)
    holds_refuse(project=project, holder_id=holder_id)
    moment = now()
    try:
        with transaction.atomic():
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
                for place, amounts_there in wanted.items()
                for resource, amount in sorted(amounts_there.items())
            )
    except IntegrityError as error:
        raise Conflict(f"this {holder_kind} already holds a reservation") from error
    _counters_raise(project, wanted)


@transaction.atomic
def reservation_grow(
    *,
    holder_kind: str,
    holder_id: uuid.UUID,
    amounts: Mapping[str, int],
    site: Site | None = None,
    elsewhere: Elsewhere = NOWHERE,
) -> None:
    """Raise what is held to `amounts` where they are more; resources that shrink keep what they hold. `site`: where `amounts`
    are, for a holder that may hold at several.

    The second half of a resize is `reservation_shrink`, after the site has confirmed the new amounts.
    """
    held = _held_locked(holder_kind, holder_id)
    if not held:
        raise Conflict(f"this {holder_kind} holds no reservation that could grow")
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
    _counters_raise(sample.project, more)


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
    """Lower what is held to `amounts` where they are less; what is missing in them is given back whole."""
    held = _held_locked(holder_kind, holder_id)
    if not held:
        return
    wanted = _placed(site or next(iter(held.values())).site, amounts, elsewhere)
    less = {
        key: row.amount - kept
        for key, row in held.items()
        if row.amount > (kept := wanted.get(row.site, {}).get(row.resource, 0))
    }
    for key, amount in less.items():
        row = held[key]
        if row.amount == amount:
            Reservation.objects.filter(pk=row.pk).update(
                state=ReservationState.RELEASED, released_at=_not_before(row)
            )
        else:
            Reservation.objects.filter(pk=row.pk).update(amount=F("amount") - amount)
    _counters_lower(held, less)


@transaction.atomic
def reservation_release(*, holder_kind: str, holder_id: uuid.UUID, site: Site | None = None) -> bool:
    """Give everything back, or what is held at `site`, exactly once; False where nothing was held (any more)."""
    rows = _held_locked(holder_kind, holder_id)
    held = {key: row for key, row in rows.items() if site in {None, row.site}}
    for row in held.values():
        Reservation.objects.filter(pk=row.pk).update(
            state=ReservationState.RELEASED, released_at=_not_before(row)
        )
    _counters_lower(held, {key: row.amount for key, row in held.items()})
    return bool(held)


@transaction.atomic
def reservation_move(*, holder_kind: str, holder_id: uuid.UUID, project: Project) -> None:
    """Hand what is held over to another project, or change nothing: its limits are asked as for an order (OnHold, QuotaRefused),
    the site's capacity stays taken all the while. NoCapacity only where a pool is another organization's."""
    held = _held_locked(holder_kind, holder_id)
    if not held:
        raise Conflict(f"this {holder_kind} holds no reservation that could be handed over")
    old, moment = next(iter(held.values())).project, now()
    holds_refuse(project=project, holder_id=holder_id)
    placed: dict[Site, dict[str, int]] = {}
    for (place, resource), row in held.items():
        placed.setdefault(place, {})[resource] = row.amount
        Reservation.objects.filter(pk=row.pk).update(
            state=ReservationState.RELEASED, released_at=_not_before(row)
        )
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
        for resource, amount in amounts.items()
    )
    _counters_move(old, project, placed)


def _counters_move(old: Project, new: Project, placed: Elsewhere) -> None:
    """Of two owners in one scope the counters are locked in the order of their ids."""
    total, anywhere = _totals(placed), next(iter(placed))
    for scope in (Scope.PROJECT, Scope.ORGANIZATION):
        giver, taker = _owner(scope, old, anywhere), _owner(scope, new, anywhere)
        for owner in sorted({giver, taker} if giver != taker else ()):
            if owner == giver:
                counters_lower(scope, owner, total)
            else:
                _scope_raise(scope, new, anywhere, total)
    for site in sorted(placed, key=lambda place: place.pk):
        counters_lower(Scope.SITE, site.pk, dict.fromkeys(placed[site], 0))  # the lock, for whose a pool is
        if kept := pools_kept(project=new, site=site, resources=placed[site]):
            raise _refusal(Scope.SITE, new, site, min(kept), placed[site], kept[min(kept)])


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
    """Set the limit of one project or organization (hard None = unlimited). Below its use it evicts nobody.

    `expected_version` 0 means: there must be no limit yet. Raises StaleVersion where another version is current.
    """
    owner = _limit_owner(actor, project, organization)
    _limit_validate(resource, hard)
    Limit.objects.bulk_create([Limit(**owner, resource=resource, hard=0, version=0)], ignore_conflicts=True)
    row = Limit.objects.select_for_update(no_key=True).get(**owner, resource=resource)
    if expected_version is not None and expected_version != row.version:
        raise StaleVersion(
            "the limit was changed meanwhile; look at it again", detail={"version": row.version}
        )
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
    """Make the sellable capacity of a site what was observed there; writes only what changed.

    GPU types that are no longer observed become 0. vCPU, memory and storage that are not given are not counted.
    """
    known = {row.resource: row for row in SiteCapacity.objects.filter(site=site)}
    changed = []
    for resource in sorted(known.keys() | healthy.keys() | {STORAGE}):
        if resource not in healthy and not gpu_type_slug(resource):
            count, hard = 0, None
        else:
            count = healthy.get(resource, 0)
            hard = count * oversubscription_percent // 100
        old = known.get(resource)
        new = (count, oversubscription_percent, hard)
        if old is None or (old.healthy, old.oversubscription_percent, old.hard) != new:
            changed.append(
                SiteCapacity(
                    site=site,
                    resource=resource,
                    healthy=count,
                    oversubscription_percent=oversubscription_percent,
                    hard=hard,
                )
            )
    SiteCapacity.objects.bulk_create(
        changed,
        update_conflicts=True,
        unique_fields=["site", "resource"],
        update_fields=["healthy", "oversubscription_percent", "hard"],
    )


def _positive(amounts: Mapping[str, int]) -> dict[str, int]:
    for resource, amount in amounts.items():
        if amount < 0 or not is_resource(resource):
            raise ValueError(f"{resource}={amount} cannot be reserved")
    return {resource: amount for resource, amount in amounts.items() if amount}


def _placed(site: Site, amounts: Mapping[str, int], elsewhere: Elsewhere) -> dict[Site, dict[str, int]]:
    """What is more than nothing, by sites in the order in which their counters are locked."""
    found = {place: _positive(there) for place, there in {site: amounts, **elsewhere}.items()}
    return {place: found[place] for place in sorted(found, key=lambda place: place.pk) if found[place]}


def _totals(placed: Elsewhere) -> dict[str, int]:
    """What counts against limits: of all sites together."""
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
    """Now, or the row's beginning where another machine's clock is ahead of ours."""
    return max(now(), row.created_at)


def _counter(
    scope: Scope, project: Project, site: Site, resource: str
) -> models.QuerySet[Limit] | models.QuerySet[SiteCapacity]:
    if scope is Scope.PROJECT:
        return Limit.objects.filter(project=project, resource=resource)
    if scope is Scope.ORGANIZATION:
        return Limit.objects.filter(organization_id=project.organization_id, resource=resource)
    return SiteCapacity.objects.filter(site=site, resource=resource)


def _counters_raise(project: Project, placed: Elsewhere) -> None:
    """In the global order; the first counter that has no room refuses, and the caller's transaction undoes the rest."""
    if not placed:
        return
    total, anywhere = _totals(placed), next(iter(placed))
    for scope in (Scope.PROJECT, Scope.ORGANIZATION):
        _scope_raise(scope, project, anywhere, total)
    for site, amounts in placed.items():
        _scope_raise(Scope.SITE, project, site, dict(sorted(amounts.items())))


def _scope_raise(scope: Scope, project: Project, site: Site, wanted: Mapping[str, int]) -> None:
    """Whose a pool is is read under the lock of its counter: it cannot be reserved for anybody else before the commit."""
    refused = set(wanted) - counters_raise(scope, _owner(scope, project, site), wanted)
    kept = pools_kept(project=project, site=site, resources=wanted) if scope is Scope.SITE else {}
    if refused or kept:
        resource = min(kept or refused)
        raise _refusal(scope, project, site, resource, wanted, kept.get(resource, ""))


def _refusal(
    scope: Scope, project: Project, site: Site, resource: str, asked: Mapping[str, int], kept: str = ""
) -> Conflict:
    hard, used = _counter(scope, project, site, resource).values_list("hard", "used").first() or (0, 0)
    name = scope_names(project=project, site=site)[scope]
    return Check(scope, name, resource, hard, used, asked[resource], kept=kept).refusal()


def _owner(scope: Scope, project: Project, site: Site) -> uuid.UUID:
    return {
        Scope.PROJECT: project.pk,
        Scope.ORGANIZATION: project.organization_id,
        Scope.SITE: site.pk,
    }[scope]


def _counters_lower(held: Mapping[Held, Reservation], less: Mapping[Held, int]) -> None:
    placed: dict[Site, dict[str, int]] = {}
    for (site, resource), amount in less.items():
        placed.setdefault(site, {})[resource] = amount
    if not placed:
        return
    project, total = next(iter(held.values())).project, _totals(placed)
    counters_lower(Scope.PROJECT, project.pk, total)
    counters_lower(Scope.ORGANIZATION, project.organization_id, total)
    for site in sorted(placed, key=lambda site: site.pk):
        counters_lower(Scope.SITE, site.pk, dict(sorted(placed[site].items())))


def _limit_owner(
    actor: Actor, project: Project | None, organization: Organization | None
) -> dict[str, Project] | dict[str, Organization]:
    """Outsiders find nothing; tenants see their limits but only operators set them."""
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
        raise Forbidden("only operators set limits; ask for more")
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    return owner


def _limit_validate(resource: str, hard: int | None) -> None:
    slug = gpu_type_slug(resource)
    if not is_resource(resource) or (slug and not GpuType.objects.filter(slug=slug).exists()):
        raise Invalid.field("resource", f"there is no resource {resource[:80]!r}")
    if hard is None:
        return
    if type(hard) is not int or not 0 <= hard <= MAX_HARD:
        raise Invalid.field("hard", "a limit is a whole number of 0 or more, or nothing for unlimited")
