"""Operators: clusters of all tenants, what is left of them without a proof, and the templates that they are made of."""

import json
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from frontend.forms import refuse
from frontend.forms.clusters import TemplateForm, VersionForm
from frontend.presenters import clusters as shown
from frontend.views.clusters import STATES, states_of
from frontend.views.operator.common import OperatorPlace, crumbs, operator_action, operator_page, paged
from gpuaas.catalog.selectors import site_get_for, sites_for
from gpuaas.clusters import services
from gpuaas.clusters.imports import parameters_import_find
from gpuaas.clusters.models import ClusterTemplate
from gpuaas.clusters.selectors import (
    clusters_for,
    definition_of,
    ledger_orphans,
    template_get,
    template_version_get,
    templates_all,
)
from gpuaas.clusters.states import CLUSTER_KINDS, TEMPLATE_LOOKS, ClusterState, TemplateState
from gpuaas.clusters.waiting import warm_pools
from gpuaas.core import clock
from gpuaas.core.errors import Conflict, GpuaasError, Invalid
from gpuaas.providers.registry import cluster_driver_names
from tenants.selectors import organization_get_for, organizations_for

FILTERS = ("q", "state", "template", "site", "organization")


@operator_page
def clusters(request: HttpRequest, here: OperatorPlace) -> HttpResponse:
    query = {name: request.GET.get(name, "").strip()[:80] for name in FILTERS}
    found = clusters_for(
        actor=here.actor,
        states=states_of(query["state"]),
        template=query["template"],
        site=query["site"],
        search=query["q"],
    )
    if query["organization"]:
        found = found.filter(project__organization__slug=query["organization"])
    page = paged(request, found)
    now = clock.now()
    context = {
        "place": here,
        "query": query,
        "filtered": any(query.values()),
        "tenants": True,
        "page": page,
        "rows": [shown.row_of(row, now=now) for row in page.object_list],
        "states": STATES,
        "sites": list(sites_for(actor=here.actor).values_list("slug", flat=True)),
        "templates": list(templates_all(actor=here.actor).values_list("slug", "name")),
        "organizations": list(organizations_for(actor=here.actor).values_list("slug", "name")),
        "list_url": reverse("frontend:operator_clusters"),
        "orphans": ledger_orphans(actor=here.actor).filter(cluster__state=ClusterState.DELETED).count(),
        "crumbs": crumbs("Tenants", ("Clusters", "")),
    }
    return render(request, "operator/clusters.html", context)


@operator_page
def orphans(request: HttpRequest, here: OperatorPlace) -> HttpResponse:
    page = paged(request, ledger_orphans(actor=here.actor))
    rows = [(entry, *shown.look_of(entry.cluster), shown.url_of(entry.cluster)) for entry in page.object_list]
    context = {
        "place": here,
        "page": page,
        "rows": rows,
        "crumbs": crumbs("Tenants", ("Clusters", "operator_clusters"), ("Without a proof", "")),
    }
    return render(request, "operator/cluster_orphans.html", context)


@operator_page
def templates(request: HttpRequest, here: OperatorPlace) -> HttpResponse:
    found = templates_all(actor=here.actor)
    context = {
        "place": here,
        "rows": [(row, TEMPLATE_LOOKS[TemplateState(row.state)], _seen_by(row)) for row in found],
        "crumbs": crumbs("Supply", ("Cluster templates", "")),
    }
    return render(request, "operator/cluster_templates.html", context)


def _seen_by(row: ClusterTemplate) -> str:
    names = sorted(grant.organization.name for grant in row.grants.all())
    return "every organization" if row.public else ", ".join(names) or "nobody yet"


@operator_page
def template_new(request: HttpRequest, here: OperatorPlace) -> HttpResponse:
    if not here.may_manage:
        return redirect("frontend:operator_cluster_templates")
    choices = {
        "kind": CLUSTER_KINDS,
        "site": [(slug, slug) for slug in sites_for(actor=here.actor).values_list("slug", flat=True)],
        "driver": [(name, name) for name in cluster_driver_names()],
    }
    form = TemplateForm(request.POST if request.method == "POST" else None, choices=choices)
    if form.is_bound and form.is_valid():
        asked = dict(form.cleaned_data)
        site = site_get_for(actor=here.actor, slug=asked.pop("site"))
        try:
            made = services.template_create(actor=here.actor, site=site, **asked)
        except (Invalid, Conflict) as error:
            refuse(form, error)
        else:
            messages.success(request, f"{made.name} is a draft. Add its first version, then make it active.")
            return redirect(_url_of(made))
    context = {
        "place": here,
        "form": form,
        "crumbs": crumbs("Supply", ("Cluster templates", "operator_cluster_templates"), ("New", "")),
    }
    status = 422 if form.is_bound else 200
    return render(request, "operator/cluster_template_new.html", context, status=status)


def _url_of(row: ClusterTemplate) -> str:
    return reverse("frontend:operator_cluster_template", args=[row.slug])


@operator_page
def template(request: HttpRequest, here: OperatorPlace, slug: str) -> HttpResponse:
    return _draw(request, here, template_get(actor=here.actor, slug=slug))


def _draw(
    request: HttpRequest, here: OperatorPlace, row: ClusterTemplate, *, status: int = 200, **more: Any
) -> HttpResponse:
    versions = list(row.versions.all())
    newest = versions[0] if versions else None
    text = json.dumps(newest.document, indent=2, ensure_ascii=False) if newest else ""
    for version in versions:
        version.template = row
    given = {grant.organization_id for grant in row.grants.all()}
    context = {
        "place": here,
        "template": row,
        "look": TEMPLATE_LOOKS[TemplateState(row.state)],
        "states": [
            (state.value, state.label)
            for state in TemplateState
            if state != TemplateState.DRAFT or row.state == TemplateState.DRAFT
        ],
        "versions": [(version, definition_of(version)) for version in versions],
        "document": text,
        "given": [grant.organization for grant in row.grants.all()],
        "others": [one for one in organizations_for(actor=here.actor) if one.pk not in given],
        "importable": services.parameters_are_told(row),
        "importing": parameters_import_find(actor=here.actor, template=row) is not None,
        "warm": warm_pools(actor=here.actor, template=row).count(),
        "version_form": VersionForm(initial={"document": text}),
        "crumbs": crumbs("Supply", ("Cluster templates", "operator_cluster_templates"), (row.name, "")),
        **more,
    }
    return render(request, "operator/cluster_template.html", context, status=status)


@operator_action
def template_state(request: HttpRequest, here: OperatorPlace, slug: str) -> HttpResponse:
    row = template_get(actor=here.actor, slug=slug)
    state, public = request.POST.get("state", ""), "public" in request.POST
    try:
        services.template_update(actor=here.actor, template=row, state=state, public=public)
    except Invalid as error:
        return _draw(request, here, row, status=422, offer_error=error.message)
    return _done(request, row, f"{row.name} is {TemplateState(state).label.lower()} now.")


@operator_action
def template_version(request: HttpRequest, here: OperatorPlace, slug: str) -> HttpResponse:
    row = template_get(actor=here.actor, slug=slug)
    form = VersionForm(request.POST, request.FILES)
    if form.is_valid():
        try:
            made = services.template_version_add(
                actor=here.actor,
                template=row,
                document=form.cleaned_data["parsed"],
                note=form.cleaned_data["note"],
            )
        except GpuaasError as error:
            refuse(form, error, fields={"settings": "document"}, default="document")
        else:
            return _done(request, row, f"Version {made.number} is what is ordered from now on.")
    return _draw(request, here, row, status=422, version_form=form)


@operator_action
def version_deprecate(request: HttpRequest, here: OperatorPlace, slug: str, version: int) -> HttpResponse:
    row = template_get(actor=here.actor, slug=slug)
    found = template_version_get(template=row, number=version)
    deprecated = found.deprecated_at is None
    services.template_version_deprecate(actor=here.actor, version=found, deprecated=deprecated)
    said = "is deprecated: orders of it are warned" if deprecated else "is not deprecated any more"
    return _done(request, row, f"Version {version} {said}.")


@operator_action
def template_give(request: HttpRequest, here: OperatorPlace, slug: str) -> HttpResponse:
    """To one organization, or back from it."""
    row = template_get(actor=here.actor, slug=slug)
    organization = organization_get_for(actor=here.actor, slug=request.POST.get("organization", "")[:40])
    granted = request.POST.get("granted") == "yes"
    services.template_grant(actor=here.actor, template=row, organization=organization, granted=granted)
    said = "may order it now" if granted else "may not order it any more; what it has stays"
    return _done(request, row, f"{organization.name} {said}.")


def _done(request: HttpRequest, row: ClusterTemplate, text: str) -> HttpResponse:
    messages.success(request, text)
    return redirect(_url_of(row))
