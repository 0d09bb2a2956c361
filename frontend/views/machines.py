"""Machines of a workspace: the list, the order, and one machine with what can be done to it."""

import uuid
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_POST

from frontend import formats
from frontend.forms import refuse
from frontend.forms.machines import MachineForm, RebuildForm
from frontend.nav import Crumb
from frontend.place import ProjectPlace, project_page
from frontend.presenters import machines as shown
from frontend.presenters.workspaces import url_of as workspace_url
from frontend.views.usage import crumbs
from frontend.views.workspaces import workspace_at
from gpuaas.core import clock
from gpuaas.core.errors import Conflict, Invalid, NotFound
from gpuaas.providers.base import MachineVerb
from gpuaas.workspaces.machines import services
from gpuaas.workspaces.machines.keys import keys_for
from gpuaas.workspaces.machines.models import Machine, MachineLook
from gpuaas.workspaces.machines.selectors import (
    flavors_left,
    images_of,
    machine_get,
    machine_look_of,
    machines_sold,
)
from gpuaas.workspaces.models import Workspace
from tenants.roles import Permission

VERBS = {verb.value: verb for verb in MachineVerb if verb is not MachineVerb.DELETE}


def machines_at(here: ProjectPlace, workspace: uuid.UUID, permission: Permission) -> Workspace:
    row = workspace_at(here, workspace, permission)
    if not machines_sold(site=row.site):
        raise NotFound("there are no machines at this site")
    return row


def trail(here: ProjectPlace, row: Workspace, *more: Crumb) -> tuple[Crumb, ...]:
    return (
        *crumbs(here, "Workspaces", reverse("frontend:workspaces", args=[here.project.slug])),
        Crumb(row.name, workspace_url(row)),
        *more,
    )


@project_page(Permission.WORKSPACE_VIEW)
def index(request: HttpRequest, here: ProjectPlace, workspace: uuid.UUID) -> HttpResponse:
    row = machines_at(here, workspace, Permission.WORKSPACE_VIEW)
    page = shown.machines_page(row, machine_look_of(workspace=row), here, now=clock.now())
    context = {
        "place": here,
        "workspace": row,
        "page": page,
        "urls": {
            "page": shown.url_of(row, "machines"),
            "new": shown.url_of(row, "machine_new"),
            "keys": reverse("frontend:keys"),
        },
        "workspace_url": workspace_url(row),
        "crumbs": trail(here, row, Crumb("Machines")),
    }
    return render(request, "machines/list.html", context)


@sensitive_post_parameters("cloud_init")
@project_page(Permission.WORKSPACE_ACCESS)
def new(request: HttpRequest, here: ProjectPlace, workspace: uuid.UUID) -> HttpResponse:
    row = machines_at(here, workspace, Permission.WORKSPACE_ACCESS)
    look = machine_look_of(workspace=row)
    if request.method != "POST":
        return _draw_new(request, here, row, look, _form(here, row, look))
    form = _form(here, row, look, request.POST)
    if form.is_valid():
        data = {**form.cleaned_data, "volume_gib": form.cleaned_data["volume_gib"] or 0}
        try:
            made = services.machine_order(actor=here.actor, workspace=row, wish=services.Wish(**data))
        except (Invalid, Conflict) as error:
            refuse(form, error)
        else:
            messages.success(request, f"{made.name} is ordered; it is made within seconds.")
            return redirect(shown.url_of(row, "machines"))
    return _draw_new(request, here, row, look, form, status=422)


def _form(here: ProjectPlace, row: Workspace, look: MachineLook | None, data: Any = None) -> MachineForm:
    rooms = flavors_left(workspace=row)
    flavors = [(room.flavor.slug, room.flavor.name) for room in rooms]
    images = [(image.id, image.name) for image in images_of(look)]
    keys = [(key.name, key.name) for key in keys_for(actor=here.actor)]
    first = next((room.flavor.slug for room in rooms if room.fits), "")
    initial = {"flavor": first, "key": keys[0][0] if keys else "", "volume_gib": 0}
    choices = [("", "No key"), *keys]
    return MachineForm(data, flavors=flavors, images=images, keys=choices, initial=initial)


def _draw_new(
    request: HttpRequest,
    here: ProjectPlace,
    row: Workspace,
    look: MachineLook | None,
    form: MachineForm,
    *,
    status: int = 200,
) -> HttpResponse:
    context = {
        "place": here,
        "workspace": row,
        "form": form,
        "rooms": shown.rooms_of(row),
        "no_order": shown.no_order(row),
        "chosen": form["flavor"].value(),
        "waiting": look is None or look.slow_at is None,
        "volumes_sold": look is not None and bool(look.volumes_sold),
        "back": shown.url_of(row, "machines"),
        "keys_url": reverse("frontend:keys"),
        "crumbs": trail(here, row, Crumb("Machines", shown.url_of(row, "machines")), Crumb("New")),
    }
    return render(request, "machines/new.html", context, status=status)


def machine_at(
    here: ProjectPlace, workspace: uuid.UUID, machine: uuid.UUID, permission: Permission
) -> Machine:
    return machine_get(workspace=machines_at(here, workspace, permission), machine_id=machine)


@project_page(Permission.WORKSPACE_VIEW)
def show(request: HttpRequest, here: ProjectPlace, workspace: uuid.UUID, machine: uuid.UUID) -> HttpResponse:
    row = machine_at(here, workspace, machine, Permission.WORKSPACE_VIEW)
    images = [(image.id, image.name) for image in images_of(machine_look_of(workspace=row.workspace))]
    back = shown.url_of(row.workspace, "machines")
    context = {
        "place": here,
        "workspace": row.workspace,
        "machine": row,
        "page": shown.machine_page(row, here, now=clock.now()),
        "rebuild_form": RebuildForm(images=images),
        "urls": {
            name: shown.url_of(row.workspace, f"machine{tail}", row)
            for name, tail in (("page", ""), ("act", "_act"), ("delete", "_delete"), ("console", "_console"))
        },
        "delete_title": f"Delete {row.name}?",
        "crumbs": trail(here, row.workspace, Crumb("Machines", back), Crumb(row.name)),
    }
    return render(request, "machines/machine.html", context)


@require_POST
@project_page(Permission.WORKSPACE_ACCESS)
def act(request: HttpRequest, here: ProjectPlace, workspace: uuid.UUID, machine: uuid.UUID) -> HttpResponse:
    row = machine_at(here, workspace, machine, Permission.WORKSPACE_ACCESS)
    verb = VERBS.get(request.POST.get("verb", ""))
    if verb is None:
        raise Invalid.field("verb", "choose what is to be done")
    image = request.POST.get("image", "") if verb is MachineVerb.REBUILD else ""
    services.machine_act(actor=here.actor, machine=row, verb=verb, image=image)
    messages.success(request, f"{shown.DOING[verb.value]} {row.name}.")
    return redirect(shown.url_of(row.workspace, "machine", row))


@require_POST
@project_page(Permission.WORKSPACE_ACCESS)
def delete(
    request: HttpRequest, here: ProjectPlace, workspace: uuid.UUID, machine: uuid.UUID
) -> HttpResponse:
    row = machine_at(here, workspace, machine, Permission.WORKSPACE_ACCESS)
    if request.POST.get("confirm_name") != row.name:
        raise Conflict(f"Nothing was deleted: type {row.name} exactly to delete it.")
    services.machine_delete(actor=here.actor, machine=row)
    messages.success(request, f"Deleting {row.name}, and its disk.")
    return redirect(shown.url_of(row.workspace, "machines"))


@require_POST
@never_cache
@sensitive_variables("console", "context")
@project_page(Permission.WORKSPACE_ACCESS)
def console(
    request: HttpRequest, here: ProjectPlace, workspace: uuid.UUID, machine: uuid.UUID
) -> HttpResponse:
    """Asked of the site in the request, like a kubeconfig (docs/decisions/0015): a secret shown once is not stored."""
    row = machine_at(here, workspace, machine, Permission.WORKSPACE_ACCESS)
    found = services.console_request(actor=here.actor, machine=row)
    context = {
        "place": here,
        "machine": row,
        "link": found.url,
        "said": f"Opens the screen for whoever has it, until {formats.when(found.expires_at, here.zone)}.",
    }
    htmx = request.headers.get("HX-Request")
    response = render(request, "machines/_console.html" if htmx else "machines/console.html", context)
    response["Cache-Control"] = "no-store"
    return response
