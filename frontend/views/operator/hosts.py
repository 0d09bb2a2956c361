"""Hosts of a site of bare metal: the inventory, one host, and what operators do to it."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from frontend.forms import sentence_of
from frontend.forms.clusters import VersionForm
from frontend.nav import Crumb
from frontend.presenters.operator.hosts import hosts_shown
from frontend.views.operator.common import OperatorPlace, operator_action, operator_page, paged
from frontend.views.operator.site_parts import site_crumbs, tab
from gpuaas.catalog.models import Site
from gpuaas.catalog.selectors import site_get_for
from gpuaas.clusters.services.hosts import HostState, host_do, host_get, hosts_of_site, hosts_put
from gpuaas.core.errors import Conflict, GpuaasError, Invalid


@operator_page
def index(request: HttpRequest, here: OperatorPlace, slug: str) -> HttpResponse:
    return _draw(request, here, site_get_for(actor=here.actor, slug=slug), VersionForm())


def _draw(
    request: HttpRequest, here: OperatorPlace, row: Site, form: VersionForm, *, status: int = 200
) -> HttpResponse:
    query = {name: request.GET.get(name, "").replace("\x00", "").strip()[:80] for name in ("q", "state")}
    state = query["state"] if query["state"] in HostState.values else ""
    page = paged(request, hosts_of_site(actor=here.actor, site=row, state=state, search=query["q"]))
    context = tab(
        row,
        here,
        "hosts",
        query=query,
        filtered=any(query.values()),
        states=HostState.choices,
        page=page,
        hosts=hosts_shown(row, list(page.object_list)),
        form=form,
        list_url=reverse("frontend:operator_site_hosts", args=[row.slug]),
    )
    return render(request, "operator/site_hosts.html", context, status=status)


@operator_action
def put(request: HttpRequest, here: OperatorPlace, slug: str) -> HttpResponse:
    """New ones and changed ones, all or none."""
    row = site_get_for(actor=here.actor, slug=slug)
    form = VersionForm(request.POST, request.FILES)
    if form.is_valid():
        parsed: Any = form.cleaned_data["parsed"]
        described = parsed if isinstance(parsed, list) else [parsed]
        try:
            new = hosts_put(actor=here.actor, site=row, described=described)
        except Invalid as error:
            for place, said in error.fields.items():
                form.add_error("document", " ".join(f"{place}: {sentence_of(text)}" for text in said))
        except GpuaasError as error:
            form.add_error("document", sentence_of(error.message))
        else:
            messages.success(request, f"{len(described)} hosts were read, {new} of them new.")
            return redirect("frontend:operator_site_hosts", slug)
    return _draw(request, here, row, form, status=422)


@operator_page
def show(request: HttpRequest, here: OperatorPlace, slug: str, name: str) -> HttpResponse:
    row = site_get_for(actor=here.actor, slug=slug)
    return _one(request, here, row, name)


def _one(
    request: HttpRequest, here: OperatorPlace, row: Site, name: str, *, status: int = 200, refused: str = ""
) -> HttpResponse:
    (shown,) = hosts_shown(row, [host_get(actor=here.actor, site=row, name=name)])
    context = tab(row, here, "hosts", host=shown, refused=refused)
    above = site_crumbs(row, "Hosts", "operator_site_hosts")
    context["crumbs"] = (*context["crumbs"][:-1], *above, Crumb(name))
    return render(request, "operator/site_host.html", context, status=status)


@operator_action
def act(request: HttpRequest, here: OperatorPlace, slug: str, name: str) -> HttpResponse:
    """`confirm_name` is typed before a host is removed."""
    row = site_get_for(actor=here.actor, slug=slug)
    host = host_get(actor=here.actor, site=row, name=name)
    verb = request.POST.get("verb", "")
    reason = request.POST.get("reason", "").replace("\x00", "")[:300]
    if verb == "remove" and request.POST.get("confirm_name") != host.name:
        said = f"Nothing was removed: type {host.name} exactly to remove it."
        return _one(request, here, row, name, status=422, refused=said)
    try:
        host_do(actor=here.actor, site=row, name=name, verb=verb, reason=reason)
    except Invalid as error:
        said = " ".join(sentence_of(text) for texts in error.fields.values() for text in texts)
        return _one(request, here, row, name, status=422, refused=said or sentence_of(error.message))
    except Conflict as error:
        return _one(request, here, row, name, status=422, refused=sentence_of(error.message))
    messages.success(request, f"{name}: done. The next look at the site takes it in.")
    if verb == "remove":
        return redirect("frontend:operator_site_hosts", slug)
    return redirect("frontend:operator_site_host", slug, name)
