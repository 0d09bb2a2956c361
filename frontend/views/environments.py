"""Environments of a project: the list, the order, and one with what can be done to it."""

import re
import uuid
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse

from frontend import formats
from frontend.forms import sentence_of
from frontend.forms.environments import CloneForm, IdleForm, KeepForm, LogForm, OrderForm
from frontend.frame import checked, done, draw_page, name_typed, posted, refusals_on, refusals_shown
from frontend.lists import Column, Filter, Listing, find, list_page, narrowed, state_choices, states_of
from frontend.nav import Crumb
from frontend.place import ProjectPlace, place_of, project_page, row_doors
from frontend.presenters import environments as shown
from frontend.presenters import held
from frontend.views.gpus import gpus_page
from frontend.views.inside import awake, first, form_shown, rooms_for
from frontend.views.usage import crumbs
from gpuaas.core.errors import Conflict, Forbidden, Invalid, NotFound
from gpuaas.environments import services
from gpuaas.environments.definition import Definition, definition_read
from gpuaas.environments.door import passes
from gpuaas.environments.door.envoy import OWN
from gpuaas.environments.models import Environment
from gpuaas.environments.selectors import (
    address_of,
    environment_at_for,
    environment_get_for,
    environments_for,
    hours_of,
    hours_words,
    kind_offered,
    kinds_offered,
    newest_version,
    was_idle,
)
from gpuaas.environments.services.access import is_guest, open_require
from gpuaas.environments.spec import ENVIRONMENTS
from gpuaas.environments.states import LIVE, ON_ITS_WAY, EnvironmentState
from gpuaas.gpustats.selectors import environment_figures
from tenants.roles import Permission

ACCESS = Permission.WORKSPACE_ACCESS
OPENING_SECONDS = 2
BROWSER = re.compile(r"[0-9a-f]{64}")
KIND, KIND_NAME = "made_of__kind__slug", "made_of__kind__name"
LIST = Listing(
    "environments",
    columns=(
        Column("name", "Name", "name"),
        Column("state", "State", "state", "word"),
        Column("kind", "Kind", KIND_NAME),
        Column("workspace", "Workspace", "workspace__name"),
        Column("gpus", "GPUs", "gpus"),
        Column("size", "vCPU and memory"),
        Column("created", "Requested", "created_at", "created_at"),
        Column("created_by"),
    ),
    filters=(
        find(),
        Filter("state", "State", "every state", state_choices(EnvironmentState)),
        Filter("kind", "Kind", "every kind"),
        Filter("workspace", "Workspace", "every workspace"),
    ),
    size=25,
)


@project_page(Permission.WORKSPACE_VIEW)
def index(request: HttpRequest, here: ProjectPlace) -> HttpResponseBase:
    mine = Environment.objects.filter(project=here.project, state__in=list(LIVE)).order_by()
    found = LIST.of(
        request,
        lambda query: narrowed(
            environments_for(
                **here.given, states=states_of(query, EnvironmentState, LIVE), search=query["q"]
            ),
            query,
            {"kind": KIND, "workspace": "workspace__name"},
        ),
        lambda rows: list(map(shown.row_of, rows)),
        kind=sorted(set(mine.values_list(KIND, KIND_NAME))),
        workspace=sorted(set(mine.values_list("workspace__name", flat=True))),
    )
    context = {
        "new_url": reverse("frontend:environment_new", args=[here.project.slug]),
        "may_order": here.can(ACCESS),
        "crumbs": crumbs(here, "Environments"),
    }
    return list_page(request, "environments/list.html", found, context)


@project_page(ACCESS)
def choose(request: HttpRequest, here: ProjectPlace) -> HttpResponse:
    found = awake(here)
    context = {
        "kinds": [
            (kind, reverse("frontend:environment_order", args=[here.project.slug, kind.slug]))
            for kind in kinds_offered()
        ],
        "ready": bool(rooms_for(here, ENVIRONMENTS, found)),
        "without": sorted({room.site.slug for room in found if not ENVIRONMENTS.is_offered(room.site)}),
        "workspaces_url": reverse("frontend:workspaces", args=[here.project.slug]),
        "crumbs": trail(here, Crumb("New")),
    }
    return draw_page(request, "environments/choose.html", context)


@project_page(ACCESS)
@checked
def new(request: HttpRequest, here: ProjectPlace, kind: str) -> HttpResponse:
    found = kind_offered(slug=kind)
    rooms = rooms_for(here, ENVIRONMENTS, awake(here))
    definition = definition_read(newest_version(found).document)
    form = OrderForm(
        posted(request),
        definition=definition,
        rooms=rooms,
        wrong=partial(services.environment_wrong, kind=found.slug),
        initial=first(request, rooms),
    )
    if form.is_valid():
        with refusals_on(form, Invalid, Conflict):
            room = rooms[form.cleaned_data["workspace"]]
            made = services.environment_create(
                actor=here.actor, workspace=room, kind=found.slug, **form.asked()
            )
            return done(request, f"{made.name} is being created.", held.url_of(made))
    context = {
        "kind": found,
        **form_shown(form, rooms),
        "submit": "Create environment",
        "back": reverse("frontend:environment_new", args=[here.project.slug]),
        "crumbs": trail(
            here,
            Crumb("New", reverse("frontend:environment_new", args=[here.project.slug])),
            Crumb(found.name),
        ),
    }
    return draw_page(request, "environments/new.html", context)


def environment_at(here: ProjectPlace, environment: uuid.UUID, permission: Permission) -> Environment:
    """An environment of the URL's project; another project's is not found here even by people who may see it there."""
    row = environment_get_for(actor=here.actor, environment_id=environment, permission=permission)
    if row.project_id != here.project.pk:
        raise NotFound("there is no such environment")
    return row


environment_page, environment_action = row_doors(environment_at, "environment")


def trail(here: ProjectPlace, *rest: Crumb) -> tuple[Crumb, ...]:
    index_url = reverse("frontend:environments", args=[here.project.slug])
    return (*crumbs(here, "Environments", index_url), *rest)


def _draw(request: HttpRequest, here: ProjectPlace, row: Environment, **forms: Any) -> HttpResponse:
    """The page, also with a form that was refused: its dialog opens again with the sentence beside the field."""
    page = shown.page_of(row, here)
    context = {
        "environment": row,
        "page": page,
        "urls": shown.urls_of(row),
        "clone_form": CloneForm(initial={"name": f"{row.name}-2"[:40]}, auto_id="clone_%s"),
        "keep_form": KeepForm(auto_id="keep_%s"),
        "log_form": LogForm(workers=row.workers, initial={"worker": page.log.asked if page.log else 0}),
        "idle_form": IdleForm(initial={"idle_hours": row.idle_hours}, definition=definition_of(row)),
        "delete_title": f"Delete {row.name}?",
        "crumbs": trail(here, Crumb(row.name)),
        **forms,
    }
    return draw_page(request, "environments/detail.html", context)


show = environment_page(Permission.WORKSPACE_VIEW)(_draw)


@environment_page(Permission.WORKSPACE_VIEW)
def gpus(request: HttpRequest, here: ProjectPlace, row: Environment) -> HttpResponseBase:
    """What its GPUs do; its page fetches a part of it."""
    figures = environment_figures(actor=here.actor, environment=row, now=here.now)
    way = trail(here, Crumb(row.name, held.url_of(row)), Crumb("GPUs"))
    return gpus_page(request, row.name, figures, here.zone, way)


def definition_of(row: Environment) -> Definition:
    return definition_read(row.made_of.document)


def _deed(service: Callable[..., object], text: str) -> Any:
    """One click: a refusal becomes a message on the page."""

    @environment_action(ACCESS)
    def view(request: HttpRequest, here: ProjectPlace, row: Environment) -> HttpResponse:
        with refusals_shown(request, Conflict):
            service(actor=here.actor, environment=row)
            return done(request, text.format(name=row.name), held.url_of(row))
        return _draw(request, here, row)

    return view


start = _deed(services.environment_start, "Starting {name}.")
stop = _deed(services.environment_stop, "Stopping {name}. Its home stays.")
restart = _deed(services.environment_restart, "Restarting {name}.")


@environment_action(ACCESS)
def log(request: HttpRequest, here: ProjectPlace, row: Environment) -> HttpResponse:
    form = LogForm(request.POST, workers=row.workers)
    if form.is_valid():
        with refusals_shown(request, Conflict):
            services.environment_log_ask(
                actor=here.actor, environment=row, worker=form.cleaned_data["worker"] or 0
            )
            return done(request, f"The portal is fetching the log of {row.name}.", held.url_of(row))
    return _draw(request, here, row, log_form=form)


@environment_action(ACCESS)
@checked
def clone(request: HttpRequest, here: ProjectPlace, row: Environment) -> HttpResponse:
    form = CloneForm(request.POST, auto_id="clone_%s")
    if form.is_valid():
        with refusals_on(form, Invalid, Conflict, default="name"):
            made = services.environment_clone(
                actor=here.actor, environment=row, name=form.cleaned_data["name"]
            )
            return done(request, f"{made.name} is being created.", held.url_of(made))
    return _draw(request, here, row, clone_form=form, opened="clone")


@environment_action(ACCESS)
def keep(request: HttpRequest, here: ProjectPlace, row: Environment) -> HttpResponse:
    form = KeepForm(request.POST, auto_id="keep_%s")
    if form.is_valid():
        with refusals_on(form, Invalid, Conflict, default="hours"):
            until = here.now + timedelta(hours=form.cleaned_data["hours"])
            services.environment_keep(actor=here.actor, environment=row, until=until)
            return done(request, f"{row.name} is kept until {formats.when(until)}.", held.url_of(row))
    return _draw(request, here, row, keep_form=form)


@environment_action(ACCESS)
@checked
def idle(request: HttpRequest, here: ProjectPlace, row: Environment) -> HttpResponse:
    form = IdleForm(request.POST, definition=definition_of(row))
    if form.is_valid():
        with refusals_on(form, Invalid, Conflict, default="idle_hours"):
            found = services.environment_idle_set(
                actor=here.actor, environment=row, idle_hours=form.cleaned_data["idle_hours"]
            )
            hours = hours_of(found)
            never = "is never stopped for want of use"
            text = f"is stopped after {hours_words(hours)} without use" if hours else never
            return done(request, f"{row.name} {text}.", held.url_of(row))
    return _draw(request, here, row, idle_form=form, opened="idle")


@environment_action(ACCESS)
def delete(request: HttpRequest, here: ProjectPlace, row: Environment) -> HttpResponse:
    if not name_typed(request, row.name):
        return _draw(request, here, row)
    services.environment_delete(actor=here.actor, environment=row)
    return done(
        request,
        f"Deleting {row.name} and its home.",
        reverse("frontend:environments", args=[here.project.slug]),
    )


def _looks_ahead(request: HttpRequest) -> bool:
    """Whether the browser asks before somebody wants to go there; or for a part of another page, such as one of an environment, which
    is of the same site to a browser."""
    is_part = request.headers.get("Sec-Fetch-Dest", "document") != "document"
    return request.method != "GET" or is_part or "prefetch" in request.headers.get("Sec-Purpose", "")


@login_required
def enter(request: HttpRequest, label: str) -> HttpResponse:
    """On the way in by the door, which sends here whoever has no pass: back with a ticket for the browser that asked. Without
    one it only leads to the door. One that was stopped for want of use is started, and waited for."""
    place = place_of(request)
    row = environment_at_for(actor=place.actor, label=label)
    address, browser = address_of(row), request.GET.get("browser", "")
    if not address:
        raise NotFound("there is no such page")
    if not BROWSER.fullmatch(browser):
        return redirect(address)
    open_require(place.actor, row)
    if row.state != EnvironmentState.READY and is_guest(place.actor, row):
        raise Forbidden(f"{row.name} does not run now; members of its workspace can start it")
    try:
        if row.state == EnvironmentState.STOPPED and was_idle(row) and not _looks_ahead(request):
            row = services.environment_start(actor=place.actor, environment=row)
        if row.state in ON_ITS_WAY or (row.state == EnvironmentState.STOPPING and was_idle(row)):
            context = {"environment": row, "url": held.url_of(row), "word": held.look_of(row)[1].lower()}
            answer = draw_page(request, "environments/opening.html", context)
            answer["Refresh"] = str(OPENING_SECONDS)
            return answer
        ticket = passes.ticket_write(
            actor=place.actor,
            user=place.user,
            environment=row,
            session_key=request.session.session_key or "",
            browser=browser,
        )
    except Conflict as error:
        messages.error(request, sentence_of(error.message))
        return redirect(held.url_of(row))
    return redirect(f"{address}{OWN.lstrip('/')}/enter?{urlencode({'ticket': ticket})}")
