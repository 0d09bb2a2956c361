"""What a site's page shows behind its tabs: nodes, drift, metering. Asking is a row and a poke; the worker calls the site."""

import uuid
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from frontend.forms import refuse, sentence_of
from frontend.forms.operator import DriftPolicyForm
from frontend.nav import Crumb
from frontend.presenters.drift import drifts_shown, open_first
from frontend.presenters.operator.metering import cross_checked, meter_facts
from frontend.presenters.operator.nodes import check_run, gpu_names_at, nodes_shown
from frontend.presenters.operator.sites import conditions_shown
from frontend.presenters.pods import eviction_rows
from frontend.presenters.words import words_of
from frontend.views.operator.common import OperatorPlace, crumbs, operator_action, operator_page, paged
from gpuaas.catalog import services as catalog_services
from gpuaas.catalog.models import Site
from gpuaas.catalog.selectors import node_checks_of, site_get_for
from gpuaas.catalog.states import DriftPolicy
from gpuaas.core import clock
from gpuaas.core.errors import Conflict, Invalid, NotFound
from gpuaas.metering.health import meter_conditions
from gpuaas.metering.models import SiteMeter
from gpuaas.metering.selectors import cross_checks_of, gaps_of
from gpuaas.workspaces import services as workspace_services
from gpuaas.workspaces.models import Eviction
from gpuaas.workspaces.selectors import drift_get_for, drifts_at
from gpuaas.workspaces.states import DriftState

NODES, CHECKS, DRIFTS, EVICTIONS = 500, 5, 25, 25
POLICIES = {
    DriftPolicy.REPAIR: "What others change is set again within seconds and recorded.",
    DriftPolicy.OBSERVE: "It is recorded and left alone, except for what keeps the quota hard.",
}


def tab(row: Site, here: OperatorPlace, name: str, **more: Any) -> dict[str, Any]:
    """What every tab of a site's page knows."""
    return {
        "place": here,
        "site": row,
        "tab": name,
        "words": words_of(row),
        "open_drifts": drifts_at(site=row, state=DriftState.OPEN).count(),
        "crumbs": crumbs("Supply", ("Sites", "operator_sites"), (row.slug, "")),
        **more,
    }


@operator_page
def nodes(request: HttpRequest, here: OperatorPlace, slug: str) -> HttpResponse:
    row = site_get_for(actor=here.actor, slug=slug)
    rows = list(row.nodes.select_related("pool__gpu_type").order_by("name", "pool")[: NODES + 1])
    shown = nodes_shown(row, rows[:NODES])
    context = tab(
        row,
        here,
        "nodes",
        nodes=shown,
        cut=len(rows) > NODES,
        traits=any(node.traits for node in shown),
        sick=[node for node in shown if node.failing or node.unhealthy or node.word == "Not ready"],
    )
    return render(request, "operator/site_nodes.html", context)


@operator_page
def node(request: HttpRequest, here: OperatorPlace, slug: str, node: str) -> HttpResponse:
    """One node; while a check runs on it the page asks for itself every two seconds."""
    row = site_get_for(actor=here.actor, slug=slug)
    shown = nodes_shown(row, row.nodes.select_related("pool__gpu_type").filter(name=node).order_by("pool"))
    if not shown:
        raise NotFound("there is no such node")
    runs = [check_run(run) for run in node_checks_of(site=row).filter(node=node)[:CHECKS]]
    context = tab(row, here, "nodes", node=shown[0], runs=runs, busy=any(run.open for run in runs))
    context["crumbs"] = (
        *context["crumbs"][:-1],
        *site_crumbs(row, "Nodes", "operator_site_nodes"),
        Crumb(node),
    )
    return render(request, "operator/site_node.html", context)


def site_crumbs(row: Site, label: str, name: str) -> tuple[Crumb, Crumb]:
    return (
        Crumb(row.slug, reverse("frontend:operator_site", args=[row.slug])),
        Crumb(label, reverse(f"frontend:{name}", args=[row.slug])),
    )


@operator_action
def node_check(request: HttpRequest, here: OperatorPlace, slug: str, node: str) -> HttpResponse:
    row = site_get_for(actor=here.actor, slug=slug)
    if not row.nodes.filter(name=node).exists():
        raise NotFound("there is no such node")
    try:
        catalog_services.node_check_request(actor=here.actor, site=row, node=node)
    except (Conflict, Invalid) as error:
        messages.error(request, sentence_of(error.message))
    return redirect("frontend:operator_node", slug, node)


@operator_action
def site_preflight(request: HttpRequest, here: OperatorPlace, slug: str) -> HttpResponse:
    row = site_get_for(actor=here.actor, slug=slug)
    try:
        catalog_services.site_preflight_request(actor=here.actor, site=row)
    except Conflict as error:
        messages.error(request, sentence_of(error.message))
    else:
        messages.info(request, f"{slug} is being checked; each result shows here by itself.")
    return redirect("frontend:operator_site", slug)


@operator_page
def drift(request: HttpRequest, here: OperatorPlace, slug: str) -> HttpResponse:
    row = site_get_for(actor=here.actor, slug=slug)
    return _draw_drift(request, here, row, DriftPolicyForm(initial={"drift_policy": row.drift_policy}))


def _draw_drift(
    request: HttpRequest, here: OperatorPlace, row: Site, form: DriftPolicyForm, *, status: int = 200
) -> HttpResponse:
    """Open ones first, then the newest."""
    page = paged(request, open_first(drifts_at(site=row)), DRIFTS)
    context = tab(row, here, "drift", page=page, drifts=drifts_shown(page), form=form, policies=POLICIES)
    return render(request, "operator/site_drift.html", context, status=status)


@operator_action
def drift_policy(request: HttpRequest, here: OperatorPlace, slug: str) -> HttpResponse:
    row = site_get_for(actor=here.actor, slug=slug)
    form = DriftPolicyForm(request.POST)
    if form.is_valid():
        try:
            catalog_services.site_update(actor=here.actor, site=row, **form.cleaned_data)
        except Invalid as error:
            refuse(form, error)
        else:
            policy = DriftPolicy(form.cleaned_data["drift_policy"])
            said = "are set right by themselves" if policy == DriftPolicy.REPAIR else "are only recorded"
            messages.success(request, f"Changes by others at {slug} {said}.")
            return redirect("frontend:operator_site_drift", slug)
    return _draw_drift(request, here, row, form, status=422)


@operator_action
def drift_check(request: HttpRequest, here: OperatorPlace, slug: str) -> HttpResponse:
    row = site_get_for(actor=here.actor, slug=slug)
    workspace_services.site_drift_check_request(actor=here.actor, site=row)
    messages.info(request, f"Every workspace at {slug} is being compared; what differs shows here by itself.")
    return redirect("frontend:operator_site_drift", slug)


@operator_action
def drift_repair(request: HttpRequest, here: OperatorPlace, drift: uuid.UUID) -> HttpResponse:
    row = drift_get_for(actor=here.actor, drift_id=drift)
    try:
        workspace_services.drift_repair(actor=here.actor, drift=row)
    except Conflict as error:
        messages.error(request, sentence_of(error.message))
    else:
        messages.info(request, f"{row.workspace.name} is being set right.")
    return redirect("frontend:operator_site_drift", row.workspace.site.slug)


@operator_action
def site_sell_unfit(request: HttpRequest, here: OperatorPlace, slug: str) -> HttpResponse:
    """An operator may know better than a check."""
    row = site_get_for(actor=here.actor, slug=slug)
    sell = request.POST.get("sell") == "1"
    catalog_services.site_update(actor=here.actor, site=row, sell_unfit=sell)
    said = "is sold in spite of its checks" if sell else "is sold only while its checks allow it"
    messages.success(request, f"{slug} {said}.")
    return redirect("frontend:operator_site", slug)


@operator_page
def metering(request: HttpRequest, here: OperatorPlace, slug: str) -> HttpResponse:
    row = site_get_for(actor=here.actor, slug=slug)
    now = clock.now()
    meter = SiteMeter.objects.filter(site=row).first()
    evictions = Eviction.objects.filter(workspace__site=row).select_related(
        "workspace__project", "workspace__site"
    )
    page = paged(request, evictions, EVICTIONS)
    context = tab(
        row,
        here,
        "metering",
        metered=conditions_shown(meter_conditions(site_id=row.pk, now=now)),
        meter=meter_facts(meter, now=now),
        checks=cross_checked(cross_checks_of(actor=here.actor, site=row)[:CHECKS]),
        gaps=gaps_of(actor=here.actor, site=row)[:CHECKS],
        page=page,
        evictions=eviction_rows(list(page), gpu_names_at(row)),
    )
    return render(request, "operator/site_metering.html", context)
