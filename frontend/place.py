"""The reader's place: who, in which project, with what permissions. Put on the request by the middleware."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, Concatenate, ParamSpec
from zoneinfo import ZoneInfo

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import reverse

from frontend.context import Console, attach
from frontend.nav import Choice
from gpuaas.core.errors import NotFound
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.states import WorkspaceState
from tenants.actors import Actor
from tenants.models import Organization, Project, User
from tenants.roles import Permission
from tenants.selectors import organization_get_for, project_require, projects_for

P = ParamSpec("P")
REMEMBERED = "project"
NEEDS = {
    "workspaces": Permission.WORKSPACE_VIEW,
    "workspace_new": Permission.WORKSPACE_CREATE,
    "clusters": Permission.WORKSPACE_VIEW,
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
class Place:
    """`project` is that of the URL, else the one last looked at, else the first; None for people without any."""

    user: User
    actor: Actor
    projects: Sequence[Project]
    project: Project | None

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.user.time_zone)


@dataclass(frozen=True)
class ProjectPlace:
    """What a page of one project works with. `may` is for showing buttons; services decide for themselves."""

    user: User
    actor: Actor
    project: Project
    may: frozenset[Permission]

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.user.time_zone)

    def can(self, permission: Permission) -> bool:
        return permission in self.may


def place_for(*, request: HttpRequest, user: User, actor: Actor, kwargs: dict[str, Any]) -> Place:
    """Three queries: the actor's two are the caller's, one for the projects, one for the count in the menu."""
    projects = list(projects_for(actor=actor))
    named = str(kwargs.get("project", ""))
    wanted = named or request.session.get(REMEMBERED, "")
    current = next((project for project in projects if project.slug == wanted), None)
    if current is None and not named:
        current = next(iter(projects), None)
    if current is not None and named and request.session.get(REMEMBERED) != named:
        request.session[REMEMBERED] = named
    place = Place(user=user, actor=actor, projects=projects, project=current)
    attach(request, _console(place))
    return place


def _console(place: Place) -> Console:
    project = place.project
    operator = Permission.PLATFORM_VIEW in place.actor.on_platform()
    choices = tuple(
        Choice(
            label=row.slug,
            url=reverse("frontend:home", kwargs={"project": row.slug}),
            note=row.organization.name,
            current=row == project,
        )
        for row in place.projects[:50]
    )
    console = Console(projects=choices, is_operator=operator, time_zone=place.user.time_zone)
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
    above = place.actor.on_organization(project.organization_id)
    return frozenset(hidden | {name for name, permission in NEEDS_ABOVE.items() if permission not in above})


def place_of(request: HttpRequest) -> Place:
    found = getattr(request, "place", None)
    if not isinstance(found, Place):
        raise NotFound("there is no such page")
    return found


def project_page(
    permission: Permission,
) -> Callable[
    [Callable[Concatenate[HttpRequest, ProjectPlace, P], HttpResponseBase]],
    Callable[..., HttpResponseBase],
]:
    """A view below /p/<project>/: sign-in, then NotFound for outsiders, Forbidden for insiders without `permission`."""

    def decorate(
        view: Callable[Concatenate[HttpRequest, ProjectPlace, P], HttpResponseBase],
    ) -> Callable[..., HttpResponseBase]:
        @login_required
        @wraps(view)
        def page(request: HttpRequest, project: str, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
            place = place_of(request)
            row = place.project
            if row is None or row.slug != project:
                raise NotFound("there is no such project")
            project_require(actor=place.actor, project=row, permission=permission)
            may = place.actor.on_project(row.pk, row.organization_id)
            return view(request, ProjectPlace(place.user, place.actor, row, may), *args, **kwargs)

        return page

    return decorate


@dataclass(frozen=True)
class OrganizationPlace:
    user: User
    actor: Actor
    organization: Organization
    may: frozenset[Permission]

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.user.time_zone)


def organization_place(
    request: HttpRequest, slug: str, permission: Permission = Permission.ORGANIZATION_VIEW
) -> OrganizationPlace:
    place = place_of(request)
    row = organization_get_for(actor=place.actor, slug=slug, permission=permission)
    return OrganizationPlace(place.user, place.actor, row, place.actor.on_organization(row.pk))
