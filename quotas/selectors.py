"""Reads of limits, capacity and reservations."""

import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from django.db.models import F, OuterRef, Q, QuerySet, Subquery, Sum
from django.db.models.functions import Coalesce

from gpuaas.catalog.models import Site
from gpuaas.core.errors import NotFound, OnHold
from quotas.checks import Check, Scope
from quotas.holds import hold_on
from quotas.matrix import NOTHING, Cell
from quotas.models import Limit, Reservation, ReservationState, SiteCapacity
from quotas.pools import pools_kept
from quotas.resources import resource_order
from tenants.models import Organization, Project


@dataclass(frozen=True)
class Preview:
    """What admission would answer now, without reserving. `hold`: why nothing is given at all now, else ''."""

    checks: tuple[Check, ...]
    hold: str = ""

    @property
    def fits(self) -> bool:
        return not self.hold and all(check.fits for check in self.checks)

    def refuse(self) -> None:
        """Raises what admission would raise: OnHold, QuotaRefused or NoCapacity; nothing if it fits."""
        if self.hold:
            raise OnHold(self.hold, detail={"reason": self.hold})
        if self.refusals:
            raise self.refusals[0].refusal()

    @property
    def refusals(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if not check.fits)

    def tightest(self, resource: str) -> Check | None:
        """The limit (not capacity) with the least left for this resource; None if nothing of it is requested."""
        limits = [
            check for check in self.checks if check.resource == resource and check.scope is not Scope.SITE
        ]
        return min(limits, key=_room, default=None)

    def capacity(self, resource: str) -> Check | None:
        """What the site can still sell."""
        return next((c for c in self.checks if c.resource == resource and c.scope is Scope.SITE), None)


def holders_at(site_id: uuid.UUID) -> frozenset[uuid.UUID]:
    """The workspaces and clusters that hold something at the site."""
    rows = Reservation.objects.filter(site=site_id, state=ReservationState.HELD).order_by()
    return frozenset(rows.values_list("holder_id", flat=True).distinct())


@dataclass(frozen=True)
class LimitLine:
    """A project's limit beside its organization's, for one resource. None = unlimited."""

    resource: str
    limit: int | None
    used: int
    version: int
    organization_limit: int | None
    organization_used: int

    @property
    def left(self) -> int | None:
        """What can still be requested: the smaller remainder of both; None = both unlimited."""
        rests = [
            max(limit - used, 0)
            for limit, used in ((self.limit, self.used), (self.organization_limit, self.organization_used))
            if limit is not None
        ]
        return min(rests, default=None)


@dataclass(frozen=True)
class Mismatch:
    """A counter that differs from the sum of the held reservations below it."""

    scope: Scope
    scope_name: str
    resource: str
    counter: int
    held: int


Elsewhere = Mapping[Site, Mapping[str, int]]  # amounts by the sites at which they are asked beside the first
NOWHERE: Elsewhere = {}


def _room(check: Check) -> float:
    return float("inf") if check.left is None else check.left


def limits_of(*, project: Project) -> QuerySet[Limit]:
    """The limits on the path of a project: its own and its organization's."""
    return Limit.objects.filter(Q(project=project) | Q(organization_id=project.organization_id))


def limit_get(
    *, resource: str, project: Project | None = None, organization: Organization | None = None
) -> Limit:
    """The limit of a project, or of an organization. Raises NotFound if none was ever set, which counts as zero."""
    found = Limit.objects.filter(project=project, organization=organization, resource=resource).first()
    if found is None:
        raise NotFound(f"no limit for {resource} was ever set here, which counts as zero")
    return found


def admission_preview(
    *,
    project: Project,
    site: Site,
    amounts: Mapping[str, int],
    holder_id: uuid.UUID | None = None,
    elsewhere: Elsewhere = NOWHERE,
) -> Preview:
    """All checks of `reservation_reserve` (or, for a holder, `reservation_grow`), in their order; 4 queries, and one
    more for each other site."""
    placed = {site: amounts, **elsewhere}
    wanted = {place: _asked(there) for place, there in placed.items() if place == site or _asked(there)}
    total: Counter[str] = Counter()
    for asked in wanted.values():
        total.update(asked)
    limits = {
        (Scope.PROJECT if row.project_id else Scope.ORGANIZATION, row.resource): (row.hard, row.used)
        for row in limits_of(project=project).filter(resource__in=list(total))
    }
    names = scope_names(project=project, site=site)
    checks = [
        Check(scope, names[scope], resource, *limits.get((scope, resource), (0, 0)), total[resource])
        for scope in (Scope.PROJECT, Scope.ORGANIZATION)
        for resource in sorted(total)
    ]
    room = {
        (row.site_id, row.resource): (row.hard, row.used)
        for row in SiteCapacity.objects.filter(site__in=list(wanted), resource__in=list(total))
    }
    for place, asked in sorted(wanted.items(), key=lambda each: each[0].pk):
        reserved = pools_kept(project=project, site=place)
        for resource in sorted(asked):
            hard, used = room.get((place.pk, resource), (0, 0))
            refusal = reserved.get(resource, "")
            checks.append(
                Check(Scope.SITE, place.slug, resource, hard, used, asked[resource], reserved_because=refusal)
            )
    hold = hold_on(project=project, holder_id=holder_id) if total else None
    return Preview(tuple(checks), hold=hold.reason if hold else "")


def _asked(amounts: Mapping[str, int]) -> dict[str, int]:
    return {resource: amount for resource, amount in amounts.items() if amount > 0}


def scope_names(*, project: Project, site: Site) -> dict[Scope, str]:
    return {
        Scope.PROJECT: project.slug,
        Scope.ORGANIZATION: project.organization.slug,
        Scope.SITE: site.slug,
    }


def limits_for_project(*, project: Project) -> list[LimitLine]:
    """One line per resource for which the project or its organization has a limit; 1 query."""
    own: dict[str, Cell] = {}
    shared: dict[str, Cell] = {}
    for row in limits_of(project=project):
        (own if row.project_id else shared)[row.resource] = Cell(row.hard, row.used, row.version)
    lines = []
    for resource in sorted(own.keys() | shared.keys(), key=resource_order):
        mine, ours = own.get(resource, NOTHING), shared.get(resource, NOTHING)
        lines.append(LimitLine(resource, mine.limit, mine.used, mine.version, ours.limit, ours.used))
    return lines


def reservations_held(*, holder_kind: str, holder_id: uuid.UUID) -> dict[str, int]:
    """Sum over all sites."""
    rows = Reservation.objects.filter(
        holder_kind=holder_kind, holder_id=holder_id, state=ReservationState.HELD
    )
    return dict(rows.order_by().values_list("resource").annotate(total=Sum("amount")))


def counters_mismatches() -> list[Mismatch]:
    """Compares counters with the sum of held reservations; each comparison is one statement, so it is one snapshot."""
    mismatches: list[Mismatch] = []
    limits = Limit.objects.select_related("project", "organization")
    project_limits = limits.filter(project__isnull=False)
    organization_limits = limits.filter(organization__isnull=False)
    for scope, rows, path in (
        (Scope.PROJECT, project_limits, "project"),
        (Scope.ORGANIZATION, organization_limits, "project__organization"),
    ):
        owner = "project" if scope is Scope.PROJECT else "organization"
        for row in rows.annotate(held=_held(path, owner)).exclude(used=F("held")):
            name = str(row.project or row.organization)
            mismatches.append(Mismatch(scope, name, row.resource, row.used, row.held))
    sites = SiteCapacity.objects.select_related("site").annotate(held=_held("site", "site"))
    mismatches.extend(
        Mismatch(Scope.SITE, row.site.slug, row.resource, row.used, row.held)
        for row in sites.exclude(used=F("held"))
    )
    return mismatches


def _held(path: str, owner: str) -> Coalesce:
    rows = (
        Reservation.objects.filter(
            **{path: OuterRef(owner)}, resource=OuterRef("resource"), state=ReservationState.HELD
        )
        .order_by()
        .values("resource")
        .annotate(total=Sum("amount"))
        .values("total")
    )
    return Coalesce(Subquery(rows), 0)
