"""Hosts of a site of bare metal: the inventory, one host, and what operators do to it."""

from functools import partial
from typing import Any

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect

from frontend.forms import sentence_of
from frontend.forms.clusters import HostsForm
from frontend.frame import Refusals, checked, done, draw_page, name_typed
from frontend.lists import Column, Filter, Listing, Query, find, list_page
from frontend.presenters.operator.hosts import hosts_shown
from frontend.views.operator.common import OperatorPlace, site_action, site_page
from frontend.views.operator.site_parts import tab
from gpuaas.catalog.models import Site
from gpuaas.clusters.services.hosts import HostState, host_do, host_get, hosts_of_site, hosts_put
from gpuaas.core.errors import Conflict, GpuaasError, Invalid

LIST = Listing(
    "hosts",
    columns=(
        Column("name", "Host", "name"),
        Column("state", "State", "state", "word"),
        Column("gpus", "GPUs", "product"),
        Column("holder", "Held by"),
        Column("reason", "Reason"),
    ),
    filters=(find("Find by name or GPU"), Filter("state", "State", "every state", HostState.choices)),
)


@site_page
def index(request: HttpRequest, here: OperatorPlace, row: Site) -> HttpResponseBase:
    return _draw(request, here, row, HostsForm())


def _draw(request: HttpRequest, here: OperatorPlace, row: Site, form: HostsForm) -> HttpResponseBase:
    def found(query: Query) -> QuerySet[Any]:
        state = query.one_of("state", HostState.values)
        return hosts_of_site(actor=here.actor, site=row, state=state, search=query["q"])

    shown = LIST.of(request, found, lambda rows: hosts_shown(row, rows))
    return list_page(request, "operator/site_hosts.html", shown, tab(row, "hosts", form=form))


@site_action
@checked
def put(request: HttpRequest, here: OperatorPlace, row: Site) -> HttpResponseBase:
    """New ones and changed ones, all or none."""
    form = HostsForm(request.POST, request.FILES)
    if form.is_valid():
        parsed: Any = form.cleaned_data["parsed"]
        described = parsed if isinstance(parsed, list) else [parsed]
        with Refusals(partial(_refuse, form), GpuaasError):
            new = hosts_put(actor=here.actor, site=row, described=described)
            text = f"Hosts imported: {len(described)}, of which new: {new}."
            return done(request, text, "frontend:operator_site_hosts", row.slug)
    return _draw(request, here, row, form)


def _refuse(form: HostsForm, error: GpuaasError) -> None:
    """All of it is about the document: which host and field are named before each sentence."""
    for place, texts in error.fields.items() or [("", [error.message])]:
        said = " ".join(f"{place}: {sentence_of(text)}" if place else sentence_of(text) for text in texts)
        form.add_error("document", said)


@site_page
def show(request: HttpRequest, here: OperatorPlace, row: Site, name: str) -> HttpResponse:
    return _one(request, here, row, name)


def _one(
    request: HttpRequest, here: OperatorPlace, row: Site, name: str, *, refused: str = ""
) -> HttpResponse:
    (shown,) = hosts_shown(row, [host_get(actor=here.actor, site=row, name=name)])
    context = tab(row, "hosts", name, host=shown, refused=refused)
    return draw_page(request, "operator/site_host.html", context, refused=bool(refused))


@site_action
def act(request: HttpRequest, here: OperatorPlace, row: Site, name: str) -> HttpResponse:
    """`confirm_name` is typed before a host is removed."""
    host = host_get(actor=here.actor, site=row, name=name)
    verb = request.POST.get("verb", "")
    reason = request.POST.get("reason", "").replace("\x00", "")[:300]
    if verb == "remove" and not name_typed(request, host.name, done="removed", do="remove"):
        return _one(request, here, row, name)
    try:
        host_do(actor=here.actor, site=row, name=name, verb=verb, reason=reason)
    except Invalid as error:
        message = " ".join(sentence_of(text) for texts in error.fields.values() for text in texts)
        return _one(request, here, row, name, refused=message or sentence_of(error.message))
    except Conflict as error:
        return _one(request, here, row, name, refused=sentence_of(error.message))
    messages.success(request, f"{name} changed. The site's next check takes it into account.")
    if verb == "remove":
        return redirect("frontend:operator_site_hosts", row.slug)
    return redirect("frontend:operator_site_host", row.slug, name)
