"""Limits of all organizations and projects × all resources, for operators and auditors: whole, or some rows of it."""

import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from django.db.models import BigIntegerField, Count, Exists, F, OuterRef, Q, QuerySet, Subquery, Sum, Value
from django.db.models.expressions import Combinable
from django.db.models.functions import Coalesce

from gpuaas.core.errors import NotFound
from gpuaas.core.rows import one_or_none
from quotas.models import Limit, SiteCapacity
from quotas.resources import resource_order
from tenants.actors import Actor
from tenants.models import Organization, Project
from tenants.selectors import platform_require

UNLIMITED = 2**62  # sorts after every limit
TIGHT = {"used__gt": 0, "hard__lte": F("used") * 10 / 9}  # 90% or more of the limit is held


@dataclass(frozen=True)
class Cell:
    limit: int | None
    used: int
    version: int


NOTHING = Cell(limit=0, used=0, version=0)


class Owner(NamedTuple):
    """Whose limits a row shows: of the organization, or of its project of that slug. Sorts as rows do."""

    organization: str
    project: str
    pk: uuid.UUID


@dataclass(frozen=True)
class MatrixRow:
    """One organization (project None) or project, with a cell for each resource of the matrix."""

    organization: Organization
    project: Project | None
    cells: dict[str, Cell] = field(default_factory=dict)


@dataclass(frozen=True)
class Matrix:
    resources: tuple[str, ...]
    rows: tuple[MatrixRow, ...]


@dataclass(frozen=True)
class Total:
    """Of all projects: the sum of their limits, how many have none, and what of them is held."""

    limits: int = 0
    unlimited: int = 0
    held: int = 0


def limits_matrix(*, actor: Actor) -> Matrix:
    """All of it, in 4 queries."""
    platform_require(actor=actor)
    cells = _cells(Limit.objects.all())
    columns = tuple(_columns({name for own in cells.values() for name in own}))
    rows: list[MatrixRow] = []
    for organization in Organization.objects.prefetch_related("projects"):
        owners: list[Project | None] = [None, *organization.projects.all()]
        for project in owners:
            own = cells[project.pk if project else organization.pk]
            rows.append(MatrixRow(organization, project, {name: own.get(name, NOTHING) for name in columns}))
    return Matrix(columns, tuple(rows))


def limits_totals() -> dict[str, Total]:
    """By resource, in the order of columns: everything that a site counts or a limit names; 2 queries."""
    of_project = Q(project__isnull=False)
    rows = Limit.objects.order_by().values_list("resource")
    totals = {
        resource: Total(*sums)
        for resource, *sums in rows.annotate(
            sum_hard=Coalesce(Sum("hard", filter=of_project), 0),
            count_unlimited=Count("pk", filter=of_project & Q(hard__isnull=True)),
            sum_used=Coalesce(Sum("used", filter=of_project), 0),
        )
    }
    return {name: totals.get(name, Total()) for name in _columns(totals)}


def _columns(limited: Iterable[str]) -> list[str]:
    counted = SiteCapacity.objects.order_by().values_list("resource", flat=True).distinct()
    return sorted({*limited, *counted}, key=resource_order)


def limits_owners(
    *,
    actor: Actor,
    search: str = "",
    organization: str = "",
    tight: bool = False,
    sort: str = "",
) -> QuerySet[Organization, tuple[Any, ...]]:
    """Organizations, each before its projects, to be read page by page. search: part of a name of the project or of
    its organization; organization: a slug. tight: only projects that hold 90% or more of a limit. sort: `name`, or `held:` or
    `limit:` with a resource (no limit is the highest); with a minus in front turned round. Anything else sorts nothing.
    """
    platform_require(actor=actor)
    projects, organizations = Project.objects.order_by(), Organization.objects.order_by()
    if organization:
        organizations = organizations.filter(slug=organization)
        projects = projects.filter(organization__slug=organization)
    if search:
        organizations = organizations.filter(_named(search))
        projects = projects.filter(_named(search) | _named(search, "organization__"))
    if tight:
        organizations = organizations.none()
        projects = projects.filter(Exists(Limit.objects.filter(project=OuterRef("pk"), **TIGHT)))
    what, _, resource = sort.lstrip("-").partition(":")
    above = organizations.annotate(of=F("slug"), own=Value(""), by=_sorts("organization", what, resource))
    below = projects.annotate(of=F("organization__slug"), own=F("slug"), by=_sorts("project", what, resource))
    fields, down = ("of", "own", "pk", "by"), "-" if sort.startswith("-") else ""
    named = down if what == "name" else ""
    rows = above.values_list(*fields).union(below.values_list(*fields), all=True)
    return rows.order_by(f"{down}by", f"{named}of", "own")


def _sorts(owner: str, what: str, resource: str) -> Combinable:
    """What of an owner's limit the rows are sorted by; the same for all where that is something else."""
    values = {"held": F("used"), "limit": Coalesce(F("hard"), Value(UNLIMITED))}
    if what not in values:
        return Value(0)
    rows = Limit.objects.filter(**{owner: OuterRef("pk")}, resource=resource).order_by()
    return Coalesce(Subquery(rows.values(number=values[what])[:1]), Value(0), output_field=BigIntegerField())


def _named(search: str, of: str = "") -> Q:
    return Q(**{f"{of}slug__icontains": search}) | Q(**{f"{of}name__icontains": search})


def limits_owner(*, actor: Actor, kind: str, slug: str) -> Owner:
    """Of the kind `organization` or `project`. Raises NotFound."""
    platform_require(actor=actor)
    if kind == "project":
        project = one_or_none(Project.objects.select_related("organization").filter(slug=slug))
        if project is not None:
            return Owner(project.organization.slug, project.slug, project.pk)
    elif kind == "organization":
        organization = one_or_none(Organization.objects.filter(slug=slug))
        if organization is not None:
            return Owner(organization.slug, "", organization.pk)
    raise NotFound("there is no such organization or project")


def limits_rows(
    *, owners: Iterable[tuple[str, str, uuid.UUID]], resources: Collection[str]
) -> list[MatrixRow]:
    """Of what `limits_owners` found, in its order; 3 queries."""
    wanted = [Owner(*owner[:3]) for owner in owners]
    keys = [owner.pk for owner in wanted]
    projects = Project.objects.select_related("organization").in_bulk(keys)
    organizations = Organization.objects.in_bulk(keys)
    cells = _cells(Limit.objects.filter(Q(project__in=keys) | Q(organization__in=keys)))
    rows = []
    for owner in wanted:
        project = projects.get(owner.pk)
        organization = project.organization if project else organizations.get(owner.pk)
        if organization is not None:  # it may have been deleted meanwhile
            own = {name: cells[owner.pk].get(name, NOTHING) for name in resources}
            rows.append(MatrixRow(organization, project, own))
    return rows


def _cells(limits: Iterable[Limit]) -> defaultdict[uuid.UUID, dict[str, Cell]]:
    cells: defaultdict[uuid.UUID, dict[str, Cell]] = defaultdict(dict)
    for row in limits:
        owner = row.project_id or row.organization_id
        if owner is not None:
            cells[owner][row.resource] = Cell(row.hard, row.used, row.version)
    return cells


def limits_within(*, organization: Organization, resource: str) -> tuple[Cell, int]:
    """Of one resource: the organization's own limit, and the sum of the limits of its projects; 2 queries."""
    own = Limit.objects.filter(organization=organization, resource=resource).first()
    below = Limit.objects.filter(project__organization=organization, resource=resource)
    cap = Cell(own.hard, own.used, own.version) if own else NOTHING
    return cap, below.aggregate(total=Coalesce(Sum("hard"), 0))["total"]
