"""Ordering what runs inside a workspace: in which ones it can run, and the page with the form."""

from typing import Any

from django.http import HttpRequest

from frontend.forms.inside import InsideForm
from frontend.place import ProjectPlace
from frontend.presenters.inside import free_in
from frontend.presenters.machines import may_run
from frontend.presenters.unconfirmed import waits_at
from gpuaas.lifecycle.allowed import Verb
from gpuaas.lifecycle.inside import Part
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.selectors import workspaces_for
from gpuaas.workspaces.states import ALLOWED, WorkspaceState

Rooms = dict[str, Workspace]


def awake(here: ProjectPlace) -> list[Workspace]:
    states = [WorkspaceState(state) for state in ALLOWED[Verb.RUN].states]
    return list(workspaces_for(**here.given, states=states))


def rooms_for(here: ProjectPlace, part: Part[Any, Any, Any], found: list[Workspace]) -> Rooms:
    """Those in which the reader can order one, by their id."""
    return {str(room.pk): room for room in found if part.is_offered(room.site) and may_run(room, here)}


def first(request: HttpRequest, rooms: Rooms) -> dict[str, str]:
    """What a new form begins with."""
    asked = request.GET.get("workspace", "")
    return {"workspace": asked if asked in rooms else next(iter(rooms), "")}


def form_shown(form: InsideForm, rooms: Rooms) -> dict[str, Any]:
    """With what the chosen workspace has free, and whether the order waits for an operator."""
    chosen = rooms.get(str(form["workspace"].value()), next(iter(rooms.values()), None))
    return {
        "form": form,
        "chosen": chosen,
        "waits": waits_at(room.site for room in rooms.values()),
        "free": free_in(chosen) if chosen is not None else (),
    }
