"""Machines of a workspace: the list, the order, and one machine with what can be done to it."""

import uuid
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables

from frontend import formats
from frontend.forms.machines import MachineForm, RebuildForm
from frontend.frame import checked, done, draw_page, draw_piece, name_typed, posted, refusals_on
from frontend.lists import Column, Listing, find, list_page, saying
from frontend.nav import Crumb
from frontend.place import ProjectPlace, row_doors
from frontend.presenters import machines as shown
from frontend.presenters.held import url_of as workspace_url
from frontend.presenters.unconfirmed import waits_at
from frontend.views.workspaces import trail, workspace_at
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


def machine_at(
    here: ProjectPlace, workspace: uuid.UUID, machine: uuid.UUID, permission: Permission
) -> Machine:
    return machine_get(workspace=machines_at(here, workspace, permission), machine_id=machine)


machines_page, _ = row_doors(machines_at, "workspace")
machine_page, machine_action = row_doors(machine_at, "workspace", "machine")


LIST = Listing(
    "machines",
    columns=(
        Column("name", "Machine", "name"),
        Column("state", "State", "word", "word"),
        Column("flavor", "Flavor", "flavor"),
        Column("gpus", "GPUs", "gpus"),
        Column("addresses", "Addresses", value=lambda row: " ".join(row.addresses)),
        Column("image", "Image", "image"),
        Column("age", "Age", "created_at", "created_at", numeric=True),
        Column("why"),
    ),
    filters=(find("Find by name or address", "Name, flavor, image or address"),),
)


@machines_page(Permission.WORKSPACE_VIEW)
def index(request: HttpRequest, here: ProjectPlace, row: Workspace) -> HttpResponseBase:
    page = shown.machines_page(row, machine_look_of(workspace=row), here, now=here.now)
    context = {
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
    found = LIST.of(
        request,
        lambda query: saying(
            page.rows, query["q"], lambda one: " ".join((one.name, one.flavor, one.image, *one.addresses))
        ),
    )
    return list_page(request, "machines/list.html", found, context)


@sensitive_post_parameters("cloud_init")
@machines_page(Permission.WORKSPACE_ACCESS)
@checked
def new(request: HttpRequest, here: ProjectPlace, row: Workspace) -> HttpResponse:
    look = machine_look_of(workspace=row)
    form = _form(here, row, look, posted(request))
    if form.is_valid():
        data = {**form.cleaned_data, "volume_gib": form.cleaned_data["volume_gib"] or 0}
        with refusals_on(form, Invalid, Conflict):
            made = services.machine_order(
                actor=here.actor, workspace=row, order=services.MachineOrder(**data)
            )
            text = f"{made.name} ordered. It is created within seconds."
            return done(request, text, shown.url_of(row, "machines"))
    context = {
        "workspace": row,
        "form": form,
        "waits": waits_at([row.site]),
        "rooms": shown.rooms_of(row),
        "no_order": shown.no_order(row),
        "chosen": form["flavor"].value(),
        "waiting": look is None or look.slow_at is None,
        "volumes_sold": look is not None and bool(look.volumes_sold),
        "back": shown.url_of(row, "machines"),
        "keys_url": reverse("frontend:keys"),
        "crumbs": trail(here, row, Crumb("Machines", shown.url_of(row, "machines")), Crumb("New")),
    }
    return draw_page(request, "machines/new.html", context)


def _form(here: ProjectPlace, row: Workspace, look: MachineLook | None, data: Any) -> MachineForm:
    rooms = flavors_left(workspace=row)
    flavors = [(room.flavor.slug, room.flavor.name) for room in rooms]
    images = [(image.id, image.name) for image in images_of(look)]
    keys = [(key.name, key.name) for key in keys_for(actor=here.actor)]
    first = next((room.flavor.slug for room in rooms if room.fits), "")
    initial = {"flavor": first, "key": keys[0][0] if keys else "", "volume_gib": 0}
    choices = [("", "No key"), *keys]
    return MachineForm(data, flavors=flavors, images=images, keys=choices, initial=initial)


def _draw(request: HttpRequest, here: ProjectPlace, row: Machine) -> HttpResponse:
    look = machine_look_of(workspace=row.workspace)
    images = [(image.id, image.name) for image in images_of(look)]
    back = shown.url_of(row.workspace, "machines")
    context = {
        "workspace": row.workspace,
        "machine": row,
        "page": shown.machine_page(row, here, look, now=here.now),
        "rebuild_form": RebuildForm(images=images),
        "urls": {
            name: shown.url_of(row.workspace, f"machine{tail}", row)
            for name, tail in (("page", ""), ("act", "_act"), ("delete", "_delete"), ("console", "_console"))
        },
        "delete_title": f"Delete {row.name}?",
        "crumbs": trail(here, row.workspace, Crumb("Machines", back), Crumb(row.name)),
    }
    return draw_page(request, "machines/machine.html", context)


show = machine_page(Permission.WORKSPACE_VIEW)(_draw)


@machine_action(Permission.WORKSPACE_ACCESS)
def act(request: HttpRequest, here: ProjectPlace, row: Machine) -> HttpResponse:
    verb = VERBS.get(request.POST.get("verb", ""))
    if verb is None:
        raise Invalid.field("verb", "choose an action")
    image = request.POST.get("image", "") if verb is MachineVerb.REBUILD else ""
    services.machine_act(actor=here.actor, machine=row, verb=verb, image=image)
    text = f"{shown.DOING[verb.value]} {row.name}."
    return done(request, text, shown.url_of(row.workspace, "machine", row))


@machine_action(Permission.WORKSPACE_ACCESS)
def delete(request: HttpRequest, here: ProjectPlace, row: Machine) -> HttpResponse:
    if not name_typed(request, row.name):
        return _draw(request, here, row)
    services.machine_delete(actor=here.actor, machine=row)
    return done(request, f"Deleting {row.name} and its disk.", shown.url_of(row.workspace, "machines"))


@never_cache
@sensitive_variables("found", "context")
@machine_action(Permission.WORKSPACE_ACCESS)
def console(request: HttpRequest, here: ProjectPlace, row: Machine) -> HttpResponse:
    """Asked of the site in the request, like a kubeconfig (docs/decisions/0015): a secret shown once is not stored."""
    found = services.console_request(actor=here.actor, machine=row)
    context = {
        "machine": row,
        "link": found.url,
        "said": f"Anyone with this link can open the console until {formats.when(found.expires_at, here.zone)}.",
    }
    return draw_piece(request, "machines/console.html", context)
