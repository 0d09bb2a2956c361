"""Credentials of people and of service accounts: taken, listed, ended. What is secret is shown once and kept nowhere."""

import base64
import uuid
from datetime import timedelta
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_POST

from frontend import formats
from frontend.forms import refuse
from frontend.forms.workspaces import LifetimeForm, RobotForm
from frontend.nav import Crumb
from frontend.place import ProjectPlace, project_page
from frontend.presenters.access import issued_of
from frontend.presenters.rights import is_open, rights_of
from frontend.presenters.words import words_of
from frontend.presenters.workspaces import url_of
from frontend.views.usage import crumbs
from frontend.views.workspace_actions import WORDS, done, done_or_reload
from frontend.views.workspaces import draw, workspace_at
from gpuaas.core.errors import Conflict, Invalid, NotFound
from gpuaas.workspaces import services
from gpuaas.workspaces.models import Robot, Workspace
from gpuaas.workspaces.selectors import robots_of
from tenants.models import User
from tenants.roles import Permission

SHOWN = 10


@require_POST
@never_cache
@sensitive_variables("access", "context")
@project_page(Permission.WORKSPACE_ACCESS)
def credential(request: HttpRequest, here: ProjectPlace, workspace: uuid.UUID) -> HttpResponse:
    """The one call to a site in a request (docs/decisions/0004). Shown once: no cache keeps it, no row holds it."""
    row = workspace_at(here, workspace, Permission.WORKSPACE_ACCESS)
    access = services.credential_issue(actor=here.actor, workspace=row, lifetime=lifetime_of(request))
    return shown_once(request, here, row, access, name=row.name)


def lifetime_of(request: HttpRequest) -> timedelta | None:
    """None, the usual one, where nothing is said."""
    form = LifetimeForm(request.POST)
    if form.is_valid():
        found: timedelta = form.cleaned_data["lifetime"]
        return found
    if not request.POST.get("lifetime"):
        return None
    raise Invalid.field("lifetime", "choose one of the lifetimes")


@sensitive_variables("access", "context", "encoded")
def shown_once(
    request: HttpRequest, here: ProjectPlace, row: Workspace, access: Any, *, name: str
) -> HttpResponse:
    encoded = base64.b64encode(access.document.encode()).decode()
    context: dict[str, Any] = {
        "place": here,
        "workspace": row,
        "name": name,
        "document": access.document,
        "kind": access.kind,
        "said": f"Valid until {formats.when(access.expires_at, here.zone)}. The portal keeps no copy; take another any time.",
        "download": f"data:application/yaml;base64,{encoded}",
        "command": words_of(row.site).command.format(file=f"{name}.yaml", space=row.external_name),
    }
    htmx = request.headers.get("HX-Request")
    response = render(
        request, "workspaces/_credential.html" if htmx else "workspaces/credential.html", context
    )
    response["Cache-Control"] = "no-store"
    return response


@require_POST
@project_page(Permission.WORKSPACE_ACCESS)
def revoke(request: HttpRequest, here: ProjectPlace, workspace: uuid.UUID, user: uuid.UUID) -> HttpResponse:
    """One's own, or, for admins, anybody's. Whoever is still a member may take another."""
    row = workspace_at(here, workspace, Permission.WORKSPACE_ACCESS)
    person = User.objects.filter(pk=user).first()
    if person is None:
        raise NotFound("there is no such person")
    services.access_revoke(actor=here.actor, workspace=row, user=person)
    return done_or_reload(request, row, f"Every credential of {person.username} for {row.name} has ended.")


@require_POST
@project_page(Permission.WORKSPACE_CREATE)
def robot_add(request: HttpRequest, here: ProjectPlace, workspace: uuid.UUID) -> HttpResponse:
    row = workspace_at(here, workspace, Permission.WORKSPACE_CREATE)
    form = RobotForm(request.POST, auto_id="robot_%s")
    if form.is_valid():
        try:
            made = services.robot_create(actor=here.actor, workspace=row, **form.cleaned_data)
        except (Invalid, Conflict) as error:
            refuse(form, error, default="name")
        else:
            return done(
                request, row, f"{made.name} is made. Take its credential in the list of service accounts."
            )
    return draw(request, here, row, status=422, robot_form=form, opened="add-robot")


@project_page(Permission.WORKSPACE_VIEW)
def robot(request: HttpRequest, here: ProjectPlace, workspace: uuid.UUID, robot: uuid.UUID) -> HttpResponse:
    """What was issued to it, and what can be done: in the drawer, or as a page of its own."""
    row = workspace_at(here, workspace, Permission.WORKSPACE_VIEW)
    found = robot_at(row, robot)
    grants = found.grants.all()[:SHOWN]
    slug = here.project.slug
    may = rights_of(row, here)
    context = {
        "place": here,
        "workspace": row,
        "robot": found,
        "does": WORDS[found.role],
        "issued": issued_of(grants),
        "lifetime_form": LifetimeForm(auto_id="robot_%s"),
        "may": may,
        "words": words_of(row.site),
        "open": is_open(row),
        "urls": {
            name: reverse(f"frontend:workspace_robot_{name}", args=[slug, row.pk, found.pk])
            for name in ("issue", "revoke", "delete")
        },
        "crumbs": (
            *crumbs(here, "Workspaces", reverse("frontend:workspaces", args=[slug])),
            Crumb(row.name, url_of(row)),
            Crumb(found.name),
        ),
    }
    htmx = request.headers.get("HX-Request")
    return render(request, "workspaces/_robot.html" if htmx else "workspaces/robot.html", context)


def robot_at(row: Workspace, key: uuid.UUID) -> Robot:
    found = robots_of(workspace=row).filter(pk=key).first()
    if found is None:
        raise NotFound("there is no such service account")
    found.workspace = row
    return found


@require_POST
@never_cache
@sensitive_variables("access")
@project_page(Permission.WORKSPACE_CREATE)
def robot_issue(
    request: HttpRequest, here: ProjectPlace, workspace: uuid.UUID, robot: uuid.UUID
) -> HttpResponse:
    row = workspace_at(here, workspace, Permission.WORKSPACE_CREATE)
    found = robot_at(row, robot)
    access = services.robot_access_issue(actor=here.actor, robot=found, lifetime=lifetime_of(request))
    return shown_once(request, here, row, access, name=f"{row.name}-{found.name}")


@require_POST
@project_page(Permission.WORKSPACE_CREATE)
def robot_revoke(
    request: HttpRequest, here: ProjectPlace, workspace: uuid.UUID, robot: uuid.UUID
) -> HttpResponse:
    row = workspace_at(here, workspace, Permission.WORKSPACE_CREATE)
    found = robot_at(row, robot)
    services.access_revoke(actor=here.actor, workspace=row, robot=found)
    return done(request, row, f"Every credential of {found.name} has ended.")


@require_POST
@project_page(Permission.WORKSPACE_CREATE)
def robot_delete(
    request: HttpRequest, here: ProjectPlace, workspace: uuid.UUID, robot: uuid.UUID
) -> HttpResponse:
    row = workspace_at(here, workspace, Permission.WORKSPACE_CREATE)
    found = robot_at(row, robot)
    services.robot_delete(actor=here.actor, robot=found)
    return done(request, row, f"{found.name} is deleted; its credentials open nothing any more.")
