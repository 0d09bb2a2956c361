"""The reader's place: who, in which project, with what permissions. Put on the request by the middleware.

Doors are decorators of views: each lets in who may see the page, hands the view its place (`here`), and templates know
it as `place`.
"""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial, wraps
from typing import Any, Concatenate, Generic, TypeVar
from zoneinfo import ZoneInfo

from django.contrib.auth.decorators import login_required
from django.db.models import QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from frontend.context import Console, attach
from frontend.nav import Choice
from gpuaas.core import clock
from gpuaas.core.errors import NotFound
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.states import WorkspaceState
from tenants.actors import Actor
from tenants.models import Organization, Project, User
from tenants.roles import Permission
from tenants.selectors import organization_get_for, organizations_for, project_require, projects_for

H = TypeVar("H")
R = TypeVar("R")
REMEMBERED = "project"
SWITCHED = 50  # projects that the switcher offers
POST = ("POST",)
NEEDS = {
    "workspaces": Permission.WORKSPACE_VIEW,
    "workspace_new": Permission.WORKSPACE_CREATE,
    "clusters": Permission.WORKSPACE_VIEW,
    "environments": Permission.WORKSPACE_VIEW,
    "jobs": Permission.WORKSPACE_VIEW,
    "volumes": Permission.WORKSPACE_VIEW,
    "data_credentials": Permission.WORKSPACE_VIEW,
    "usage": Permission.BILLING_VIEW,
    "costs": Permission.BILLING_VIEW,
    "budgets": Permission.BILLING_VIEW,
    "audit": Permission.AUDIT_VIEW,
}
NEEDS_ABOVE = {
    "projects": Permission.ORGANIZATION_VIEW,
    "invoices": Permission.BILLING_VIEW,
    "organization_costs": Permission.BILLING_VIEW,
    "organization_invoices": Permission.BILLING_VIEW,
    "organization_budgets": Permission.BILLING_VIEW,
    "organization_prices": Permission.BILLING_VIEW,
    "organization_pools": Permission.BILLING_VIEW,
}


@dataclass(frozen=True)
class Reader:
    """`now`: the one moment at which everything of a page is looked at."""

    user: User
    actor: Actor
    now: datetime

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.user.time_zone)


@dataclass(frozen=True)
class Place(Reader):
    """`project` is that of the URL, else the one last looked at, else the first; None for people without any.

    `projects` are the first that the reader may see: operators see tens of thousands.
    """

    projects: Sequence[Project]
    project: Project | None


@dataclass(frozen=True)
class ProjectPlace(Reader):
    """What a page of one project works with. `may` is for showing buttons; services decide for themselves."""

    project: Project
    may: frozenset[Permission]

    @property
    def given(self) -> dict[str, Any]:
        """What selectors and services of a scope take."""
        return {"actor": self.actor, "project": self.project}

    def can(self, permission: Permission) -> bool:
        return permission in self.may


@dataclass(frozen=True)
class OrganizationPlace(Reader):
    organization: Organization
    may: frozenset[Permission]

    @property
    def given(self) -> dict[str, Any]:
        return {"actor": self.actor, "organization": self.organization}


def place_for(*, request: HttpRequest, user: User, actor: Actor, kwargs: dict[str, Any]) -> Place:
    """Three queries: the actor's two are the caller's, one for the projects, one for the count in the menu. One more
    for a project or organization that is not among the first projects, and for people without any.

    Below an organization its pages say where one stands: of the projects only one of its own is the current one."""
    seen = projects_for(actor=actor)
    projects = list(seen[:SWITCHED])
    named = str(kwargs.get("project", ""))
    wanted = named or request.session.get(REMEMBERED, "")
    current = _one_of(projects, seen, slug=wanted)
    if current is None and not named:
        current = next(iter(projects), None)
    if current is not None and named and request.session.get(REMEMBERED) != named:
        request.session[REMEMBERED] = named
    organization = current.organization if current is not None else None
    above = str(kwargs.get("organization", ""))
    if above and (organization is None or organization.slug != above):
        current = _one_of(projects, seen, organization=above)
    if above or not projects:
        organization = current.organization if current is not None else _own_organization(actor, above)
    place = Place(user=user, actor=actor, now=clock.now(), projects=projects, project=current)
    console = _console(place, organization)
    visit, way_back = _visit(actor, organization if named or above else None, current if named else None)
    attach(request, replace(console, visit=visit, visit_way_back=way_back))
    return place


def _own_organization(actor: Actor, slug: str) -> Organization | None:
    """One without projects that the reader may see: of that name, or the first."""
    rows = organizations_for(actor=actor).order_by("slug")
    if not slug and actor.sees_all:
        return None
    found = rows.filter(slug=slug) if slug else rows
    return next(
        (row for row in found[:1] if Permission.ORGANIZATION_VIEW in actor.on_organization(row.pk)), None
    )


def _one_of(
    first: Sequence[Project], seen: QuerySet[Project], *, slug: str = "", organization: str = ""
) -> Project | None:
    """Of that name, or of the organization of that name; nothing more is asked where the first ones are all."""
    for row in first:
        if slug == row.slug or organization == row.organization.slug:
            return row
    if len(first) < SWITCHED or not (slug or organization):
        return None
    return seen.filter(**({"slug": slug} if slug else {"organization__slug": organization})).first()


def _visit(actor: Actor, organization: Organization | None, project: Project | None) -> tuple[str, str]:
    """For who is at a tenant's by a role of the platform alone: as what, and the way back."""
    if organization is None or Permission.PLATFORM_VIEW not in actor.on_platform():
        return "", ""
    if actor.as_tenant(organization.pk, None if project is None else project.pk):
        return "", ""
    where = f"{project.slug} of {organization.name}" if project is not None else organization.name
    if Permission.PLATFORM_MANAGE in actor.on_platform():
        text = f"You are viewing {where} as an operator. Your actions are recorded in its audit log under your name."
    else:
        text = f"You are viewing {where} as an auditor. You can see everything but change nothing."
    page = reverse("frontend:operator_organization", args=[organization.slug])
    return text, page


def _console(place: Place, organization: Organization | None) -> Console:
    project = place.project
    operator = Permission.PLATFORM_VIEW in place.actor.on_platform()
    choices = tuple(
        Choice(
            label=row.slug,
            url=reverse("frontend:home", kwargs={"project": row.slug}),
            note=row.organization.name,
            current=row == project,
        )
        for row in place.projects
    )
    console = Console(projects=choices, is_operator=operator, time_zone=place.user.time_zone, now=place.now)
    if project is None and organization is not None:
        scope = {"organization": organization.slug}
        above = _hidden_above(place, organization.pk)
        return replace(console, organization=organization.name, scope=scope, hidden=above)
    if project is None:
        return console
    may = place.actor.on_project(project.pk, project.organization_id)
    running = Workspace.objects.filter(project=project).exclude(state=WorkspaceState.DELETED).count()
    return replace(
        console,
        project=project.slug,
        organization=project.organization.name,
        counts={"workspaces": running},
        scope={"project": project.slug, "organization": project.organization.slug},
        topics=(f"project:{project.pk}",),
        hidden=_hidden(place, project, may),
    )


def _hidden(place: Place, project: Project, may: frozenset[Permission]) -> frozenset[str]:
    """Menu entries that would only lead to a refusal."""
    hidden = {name for name, permission in NEEDS.items() if permission not in may}
    return _hidden_above(place, project.organization_id) | hidden


def _hidden_above(place: Place, organization_id: uuid.UUID) -> frozenset[str]:
    above = place.actor.on_organization(organization_id)
    return frozenset(name for name, permission in NEEDS_ABOVE.items() if permission not in above)


def place_of(request: HttpRequest) -> Place:
    found = getattr(request, "place", None)
    if not isinstance(found, Place):
        raise NotFound("there is no such page")
    return found


Shown = Callable[..., HttpResponseBase]


@dataclass(frozen=True)
class Door(Generic[H]):
    """A decorator of views. `enter` takes what it needs from the address and says where the reader then stands."""

    enter: Callable[[HttpRequest, dict[str, Any]], H]
    methods: tuple[str, ...] = ()

    def __call__(self, view: Callable[Concatenate[HttpRequest, H, ...], HttpResponseBase]) -> Shown:
        shown: Shown = view

        @login_required
        @wraps(view)
        def page(request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
            here = self.enter(request, kwargs)
            vars(request)["here"] = here
            return shown(request, here, **kwargs)

        return require_http_methods(self.methods)(page) if self.methods else page

    def row(self, find: Callable[..., R], *names: str) -> "RowDoor[H, R]":
        return RowDoor(self, find, names)


@dataclass(frozen=True)
class RowDoor(Generic[H, R]):
    """To pages of one row: `find(here, …)` gets what the address calls `names`; the view gets the row."""

    door: Callable[[Shown], Shown]
    find: Callable[..., R]
    names: tuple[str, ...]

    def __call__(self, view: Callable[Concatenate[HttpRequest, H, R, ...], HttpResponseBase]) -> Shown:
        shown: Shown = view

        @wraps(view)
        def page(request: HttpRequest, here: H, **kwargs: Any) -> HttpResponseBase:
            row = self.find(here, *[kwargs.pop(name) for name in self.names])
            return shown(request, here, row, **kwargs)

        return self.door(page)


def _project(permission: Permission, request: HttpRequest, address: dict[str, Any]) -> ProjectPlace:
    place = place_of(request)
    row = place.project
    if row is None or row.slug != address.pop("project"):
        raise NotFound("there is no such project")
    project_require(actor=place.actor, project=row, permission=permission)
    may = place.actor.on_project(row.pk, row.organization_id)
    return ProjectPlace(place.user, place.actor, place.now, row, may)


def _organization(permission: Permission, request: HttpRequest, address: dict[str, Any]) -> OrganizationPlace:
    place = place_of(request)
    row = organization_get_for(actor=place.actor, slug=address.pop("organization"), permission=permission)
    return OrganizationPlace(place.user, place.actor, place.now, row, place.actor.on_organization(row.pk))


def project_page(permission: Permission) -> Door[ProjectPlace]:
    """To what is below /p/<project>/: sign-in, then NotFound for outsiders, Forbidden for insiders without `permission`."""
    return Door(partial(_project, permission))


def project_action(permission: Permission) -> Door[ProjectPlace]:
    """Likewise, to what only changes something."""
    return Door(partial(_project, permission), POST)


def organization_page(permission: Permission = Permission.ORGANIZATION_VIEW) -> Door[OrganizationPlace]:
    """To what is below /o/<organization>/."""
    return Door(partial(_organization, permission))


def organization_action(permission: Permission = Permission.ORGANIZATION_VIEW) -> Door[OrganizationPlace]:
    return Door(partial(_organization, permission), POST)


ProjectRowDoor = Callable[[Permission], RowDoor[ProjectPlace, R]]


def row_doors(find: Callable[..., R], *names: str) -> tuple[ProjectRowDoor[R], ProjectRowDoor[R]]:
    """To the pages and to the actions of one row below a project; `find` also gets the `permission`."""

    def page(permission: Permission) -> RowDoor[ProjectPlace, R]:
        return project_page(permission).row(partial(find, permission=permission), *names)

    def action(permission: Permission) -> RowDoor[ProjectPlace, R]:
        return project_action(permission).row(partial(find, permission=permission), *names)

    return page, action
