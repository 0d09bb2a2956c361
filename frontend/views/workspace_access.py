"""Credentials of people and of service accounts: taken, listed, ended. What is secret is shown once and kept nowhere."""

import base64
import uuid
from datetime import timedelta
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables

from frontend import formats
from frontend.forms.workspaces import LifetimeForm, RobotForm
from frontend.frame import checked, done, done_here, draw_piece, refusals_on
from frontend.nav import Crumb
from frontend.place import ProjectPlace, row_doors
from frontend.presenters.access import issued_of
from frontend.presenters.held import url_of
from frontend.presenters.rights import is_open, rights_of
from frontend.presenters.words import words_of
from frontend.views.workspace_actions import WORDS
from frontend.views.workspaces import draw, trail, workspace_action, workspace_at
from gpuaas.core.errors import Conflict, Invalid
from gpuaas.core.rows import first_of
from gpuaas.workspaces import services
from gpuaas.workspaces.models import Robot, Workspace
from gpuaas.workspaces.selectors import grantee_get, robot_can_issue, robots_of
from tenants.roles import Permission

SHOWN = 10


@never_cache
@sensitive_variables("access", "context")
@workspace_action(Permission.WORKSPACE_ACCESS)
def credential(request: HttpRequest, here: ProjectPlace, row: Workspace) -> HttpResponse:
    """The one call to a site in a request (docs/decisions/0004). Shown once: no cache keeps it, no row holds it."""
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
        "workspace": row,
        "name": name,
        "document": access.document,
        "kind": access.kind,
        "said": f"Valid until {formats.when(access.expires_at, here.zone)}. The portal keeps no copy; you can get a new one at any time.",
        "download": f"data:application/yaml;base64,{encoded}",
        "command": words_of(row.site).command.format(file=f"{name}.yaml", space=row.external_name),
    }
    return draw_piece(request, "workspaces/credential.html", context)


@workspace_action(Permission.WORKSPACE_ACCESS)
def revoke(request: HttpRequest, here: ProjectPlace, row: Workspace, user: uuid.UUID) -> HttpResponse:
    """One's own, or, for admins, anybody's. Whoever is still a member may take another."""
    person = grantee_get(workspace=row, user_id=user)
    services.access_revoke(actor=here.actor, workspace=row, user=person)
    return done_here(request, f"All credentials of {person.username} for {row.name} revoked.", url_of(row))


def robot_at(here: ProjectPlace, workspace: uuid.UUID, robot: uuid.UUID, permission: Permission) -> Robot:
    row = workspace_at(here, workspace, permission)
    found = first_of(robots_of(workspace=row).filter(pk=robot), "service account")
    found.workspace = row
    return found


robot_page, robot_action = row_doors(robot_at, "workspace", "robot")


@workspace_action(Permission.WORKSPACE_CREATE)
@checked
def robot_add(request: HttpRequest, here: ProjectPlace, row: Workspace) -> HttpResponse:
    form = RobotForm(request.POST, auto_id="robot_%s")
    if form.is_valid():
        with refusals_on(form, Invalid, Conflict, default="name"):
            made = services.robot_create(actor=here.actor, workspace=row, **form.cleaned_data)
            text = f"{made.name} created. Issue its credentials in the list of service accounts."
            return done(request, text, url_of(row))
    return draw(request, here, row, robot_form=form, opened="add-robot")


@robot_page(Permission.WORKSPACE_VIEW)
def robot(request: HttpRequest, here: ProjectPlace, found: Robot) -> HttpResponse:
    """What was issued to it, and what can be done: in the drawer, or as a page of its own."""
    row = found.workspace
    grants = found.grants.all()[:SHOWN]
    slug = here.project.slug
    may = rights_of(row, here)
    context = {
        "workspace": row,
        "robot": found,
        "does": WORDS[found.role],
        "issued": issued_of(grants),
        "lifetime_form": LifetimeForm(auto_id="robot_%s"),
        "may": may,
        "words": words_of(row.site),
        "may_issue": is_open(row) and robot_can_issue(actor=here.actor, workspace=row, robot=found),
        "urls": {
            name: reverse(f"frontend:workspace_robot_{name}", args=[slug, row.pk, found.pk])
            for name in ("issue", "revoke", "delete")
        },
        "crumbs": trail(here, row, Crumb(found.name)),
    }
    return draw_piece(request, "workspaces/robot.html", context)


@never_cache
@sensitive_variables("access")
@robot_action(Permission.WORKSPACE_CREATE)
def robot_issue(request: HttpRequest, here: ProjectPlace, found: Robot) -> HttpResponse:
    row = found.workspace
    access = services.robot_access_issue(actor=here.actor, robot=found, lifetime=lifetime_of(request))
    return shown_once(request, here, row, access, name=f"{row.name}-{found.name}")


@robot_action(Permission.WORKSPACE_CREATE)
def robot_revoke(request: HttpRequest, here: ProjectPlace, found: Robot) -> HttpResponse:
    row = found.workspace
    services.access_revoke(actor=here.actor, workspace=row, robot=found)
    return done(request, f"All credentials of {found.name} revoked.", url_of(row))


@robot_action(Permission.WORKSPACE_CREATE)
def robot_delete(request: HttpRequest, here: ProjectPlace, found: Robot) -> HttpResponse:
    row = found.workspace
    services.robot_delete(actor=here.actor, robot=found)
    return done(request, f"{found.name} deleted. Its credentials no longer work.", url_of(row))
