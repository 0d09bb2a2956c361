"""What a site's page shows behind its tabs: nodes, drift, metering. Asking is a row and a poke; the worker calls the site."""

import uuid
from collections.abc import Callable, Iterable
from typing import Any

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse

from frontend.forms.operator import DriftPolicyForm
from frontend.frame import done, refusals_on, refusals_shown, sent, undo_by
from frontend.lists import Column, Filter, Listing, Query, find, list_page, named, saying, state_choices
from frontend.nav import Crumb
from frontend.presenters.drift import difference_words, drifts_shown, open_first
from frontend.presenters.gpus import card_of
from frontend.presenters.operator.metering import cross_checked, meter_facts
from frontend.presenters.operator.nodes import NodeShown, check_run, gpu_names_at, nodes_shown
from frontend.presenters.operator.sites import conditions_shown
from frontend.presenters.pods import eviction_rows
from frontend.presenters.words import words_of
from frontend.views.gpus import devices_of
from frontend.views.operator.common import OperatorPlace, crumbs, operator_action, site_action, site_page
from gpuaas.catalog import services as catalog_services
from gpuaas.catalog.models import Node, Site
from gpuaas.catalog.selectors import node_checks_of, nodes_named, nodes_sick
from gpuaas.catalog.states import DriftPolicy
from gpuaas.core.errors import Conflict, Invalid, NotFound
from gpuaas.gpustats.selectors import node_figures
from gpuaas.metering.health import meter_conditions
from gpuaas.metering.models import SiteMeter
from gpuaas.metering.selectors import cross_checks_of, gaps_of
from gpuaas.providers.registry import kind_or_missing
from gpuaas.workspaces import services as workspace_services
from gpuaas.workspaces.models import Drift, Eviction
from gpuaas.workspaces.selectors import comparison_at, drift_get_for, drifts_at
from gpuaas.workspaces.states import DriftState

SICK, CHECKS, DRIFTS, EVICTIONS = 25, 5, 25, 25
POLICIES = {
    DriftPolicy.REPAIR: "Changes by others are reverted within seconds and recorded.",
    DriftPolicy.OBSERVE: "Changes are recorded and left as they are, except those that weaken a quota.",
}


def tab(row: Site, name: str, leaf: str = "", **more: Any) -> dict[str, Any]:
    """What every tab of a site's page knows. `leaf`: one thing of that tab, as a page of its own."""
    trail = crumbs("Supply", ("Sites", "operator_sites"))
    if leaf:
        above = reverse(f"frontend:operator_site_{name}", args=[row.slug])
        site = Crumb(row.slug, reverse("frontend:operator_site", args=[row.slug]))
        trail = (*trail, site, Crumb(name.capitalize(), above))
    return {
        "site": row,
        "tab": name,
        "words": words_of(row),
        "has_hosts": kind_or_missing(row.driver).hosts,
        "open_drifts": drifts_at(site=row, state=DriftState.OPEN).count(),
        "crumbs": (*trail, Crumb(leaf or row.slug)),
        **more,
    }


def _each(name: str) -> Callable[[NodeShown], str]:
    """What is told of each GPU type of a node."""
    return lambda node: "; ".join(str(getattr(part, name)) for part in node.parts)


NODES = Listing(
    "nodes",
    columns=(
        Column("name", "Node", "name"),
        Column("state", "State", value="word"),
        Column("reason"),
        Column(
            "software",
            "Software",
            value=lambda node: "; ".join(f"{each.name}: {each.word}" for each in node.checks),
        ),
        Column("gpu_type", "GPU type", value=_each("name")),
        Column("allocated", "Allocated", value=_each("allocated"), numeric=True),
        Column("others", "Others", value=_each("others"), numeric=True),
        Column("out", "Out", value=_each("unhealthy"), numeric=True),
        Column("gpus", "GPUs", value=_each("capacity"), numeric=True),
        Column("vcpus", "vCPU", numeric=True),
        Column("memory_gib", "Memory", numeric=True),
        Column(
            "traits",
            "Location and tuning",
            value=lambda node: "; ".join(f"{each.term} {each.value}" for each in node.traits),
        ),
    ),
    filters=(find(), Filter("type", "GPU type", "every GPU type")),
)


@site_page
def nodes(request: HttpRequest, here: OperatorPlace, row: Site) -> HttpResponseBase:
    """By name, those with trouble also above all others."""

    def found(query: Query) -> QuerySet[Node]:
        return nodes_named(actor=here.actor, search=query["q"], site=row, gpu_type=query["type"])

    shown = NODES.of(
        request,
        lambda query: _names(found(query)),
        lambda names: sorted(nodes_shown(row, _named(row, names)), key=lambda node: names.index(node.name)),
        type=row.pools.order_by("gpu_type__name").values_list("gpu_type__slug", "gpu_type__name"),
    )
    sick = _names(nodes_sick(rows=found(shown.query)))
    context = tab(
        row,
        "nodes",
        live=f"site:{row.pk}",
        sick=nodes_shown(row, _named(row, sick[:SICK])),
        sick_count=sick.count(),
    )
    return list_page(request, "operator/site_nodes.html", shown, context)


def _names(rows: QuerySet[Node]) -> QuerySet[Node, str]:
    return rows.order_by("name").values_list("name", flat=True).distinct()


def _named(row: Site, names: Iterable[str]) -> QuerySet[Node]:
    named = row.nodes.select_related("pool__gpu_type").filter(name__in=list(names))
    return named.order_by("name", "pool")


@site_page
def node(request: HttpRequest, here: OperatorPlace, row: Site, node: str) -> HttpResponseBase:
    """One node; while a check runs on it the page asks for itself every two seconds."""
    shown = nodes_shown(row, row.nodes.select_related("pool__gpu_type").filter(name=node).order_by("pool"))
    if not shown:
        raise NotFound("there is no such node")
    figures = node_figures(actor=here.actor, site=row, node=node, now=here.now)
    runs = [check_run(run, here.now) for run in node_checks_of(site=row).filter(node=node)[:CHECKS]]
    context = tab(row, "nodes", node, node=shown[0], runs=runs, busy=any(run.open for run in runs))
    context["gpus"] = card_of(figures, zone=here.zone)
    return list_page(request, "operator/site_node.html", devices_of(request, figures, holders=True), context)


@site_action
def node_check(request: HttpRequest, here: OperatorPlace, row: Site, node: str) -> HttpResponse:
    if not row.nodes.filter(name=node).exists():
        raise NotFound("there is no such node")
    with refusals_shown(request, Conflict, Invalid):
        catalog_services.node_check_request(actor=here.actor, site=row, node=node)
    return redirect("frontend:operator_node", row.slug, node)


@site_action
def site_preflight(request: HttpRequest, here: OperatorPlace, row: Site) -> HttpResponse:
    with refusals_shown(request, Conflict):
        catalog_services.site_preflight_request(actor=here.actor, site=row)
        messages.info(request, f"{row.slug} is being checked; results will appear here.")
    return redirect("frontend:operator_site", row.slug)


DRIFT = Listing(
    "findings",
    columns=(
        Column("workspace", "Workspace", "workspace__name", "workspace.name"),
        Column("project", "Project", "workspace__project__slug", "workspace.project.slug"),
        Column("state", value="word"),
        Column("found_at", "Found", "found_at"),
        Column("resolved_at", "Resolved", "resolved_at"),
        Column("resolved_by"),
        Column("differences", value=lambda drift: "; ".join(map(difference_words, drift.rows))),
    ),
    filters=(
        find("Find a workspace or project", "Workspace or project"),
        Filter("state", "State", "every state", state_choices(DriftState)[:-1]),
    ),
    size=DRIFTS,
)
EVICTED = Listing(
    "evictions",
    columns=(
        Column("name", "Name", "consumer_name"),
        Column("gpus"),
        Column("workspace", "Workspace", "workspace__name", "workspace.name"),
        Column("project", "Project", "workspace__project__slug", "workspace.project.slug"),
        Column("seen_at", "Seen", "seen_at", "at"),
        Column("text"),
    ),
    filters=(find("Find a name, workspace or project", "Name, workspace or project"),),
    size=EVICTIONS,
)
DIFFERENCES = Listing(
    "differences",
    columns=(
        Column("name", "Name", "name"),
        Column("workspace", "Workspace", "workspace"),
        Column("difference", "Difference", "what", "what"),
        Column("state", "State", "word", "word"),
        Column("found_at", "Found", "found_at"),
    ),
    filters=(find("Find a name, workspace or difference", "Name, workspace or difference"),),
    size=EVICTIONS,
    mark="difference-",
)
OF_WORKSPACE = ("workspace__name", "workspace__project__slug")


def drift_found(rows: QuerySet[Drift], query: Query) -> QuerySet[Drift]:
    state = query.one_of("state", DriftState.values)
    rows = named(open_first(rows), query["q"], *OF_WORKSPACE)
    return rows.filter(state=state) if state else rows


@site_page
def drift(request: HttpRequest, here: OperatorPlace, row: Site) -> HttpResponseBase:
    return _draw_drift(request, row, DriftPolicyForm(initial={"drift_policy": row.drift_policy}))


def _draw_drift(request: HttpRequest, row: Site, form: DriftPolicyForm) -> HttpResponseBase:
    """Open ones first, then the newest."""
    page_url = reverse("frontend:operator_site_drift", args=[row.slug])
    found = drifts_at(site=row)
    shown = DRIFT.of(request, lambda query: drift_found(found, query), drifts_shown, page_url=page_url)
    context = tab(row, "drift", form=form, policies=POLICIES, comparison=comparison_at(site=row))
    return list_page(request, "operator/site_drift.html", shown, context)


@site_action
def drift_policy(request: HttpRequest, here: OperatorPlace, row: Site) -> HttpResponseBase:
    form = DriftPolicyForm(sent(request))
    if form.is_valid():
        back = undo_by("frontend:operator_site_drift_policy", row.slug, drift_policy=row.drift_policy)
        with refusals_on(form, Invalid):
            catalog_services.site_update(actor=here.actor, site=row, **form.cleaned_data)
            policy = DriftPolicy(form.cleaned_data["drift_policy"])
            does = "are repaired automatically" if policy == DriftPolicy.REPAIR else "are only recorded"
            text = f"Changes by others at {row.slug} {does}."
            return done(request, text, "frontend:operator_site_drift", row.slug, undo=back)
    return _draw_drift(request, row, form)


@site_action
def drift_check(request: HttpRequest, here: OperatorPlace, row: Site) -> HttpResponse:
    workspace_services.site_drift_check_request(actor=here.actor, site=row)
    messages.info(request, f"Comparing every workspace at {row.slug}. Differences will appear here.")
    return redirect("frontend:operator_site_drift", row.slug)


@operator_action
def drift_repair(request: HttpRequest, here: OperatorPlace, drift: uuid.UUID) -> HttpResponse:
    row = drift_get_for(actor=here.actor, drift_id=drift)
    with refusals_shown(request, Conflict):
        workspace_services.drift_repair(actor=here.actor, drift=row)
        messages.info(request, f"{row.workspace.name} is being repaired.")
    return redirect("frontend:operator_site_drift", row.workspace.site.slug)


@site_action
def site_sell_unfit(request: HttpRequest, here: OperatorPlace, row: Site) -> HttpResponse:
    """An operator may know better than a check."""
    sell = sent(request).get("sell") == "1"
    back = undo_by("frontend:operator_site_sell", row.slug, sell=int(row.sell_unfit))
    catalog_services.site_update(actor=here.actor, site=row, sell_unfit=sell)
    outcome = "is sold despite failed checks" if sell else "is sold only while its checks pass"
    return done(request, f"{row.slug} {outcome}.", "frontend:operator_site", row.slug, undo=back)


@site_action
def site_confirm(request: HttpRequest, here: OperatorPlace, row: Site) -> HttpResponse:
    """After a restore of the database: what waits at the site begins."""
    confirmed = sent(request).get("confirmed") == "1"
    back = undo_by("frontend:operator_site_confirm", row.slug, confirmed=int(row.confirmed))
    catalog_services.site_update(actor=here.actor, site=row, confirmed=confirmed)
    outcome = (
        "is confirmed: the portal makes it match again"
        if confirmed
        else "stays as it is until you confirm it"
    )
    return done(request, f"{row.slug} {outcome}.", "frontend:operator_site", row.slug, undo=back)


@site_page
def metering(request: HttpRequest, here: OperatorPlace, row: Site) -> HttpResponseBase:
    meter = SiteMeter.objects.filter(site=row).first()
    evictions = Eviction.objects.filter(workspace__site=row).select_related(
        "workspace__project", "workspace__site"
    )
    shown = EVICTED.of(
        request,
        lambda query: named(evictions, query["q"], "consumer_name", *OF_WORKSPACE),
        lambda rows: eviction_rows(rows, gpu_names_at(row)),
    )
    words, checks = words_of(row), cross_checked(cross_checks_of(actor=here.actor, site=row)[:CHECKS])
    findings = [each for check in checks for each in check.findings]
    differences = DIFFERENCES.of(
        request,
        lambda query: saying(findings, query["q"], lambda each: f"{each.name} {each.workspace} {each.what}"),
        labels={"name": words.consumer.capitalize()},
    )
    context = tab(
        row,
        "metering",
        differences=differences,
        metered=conditions_shown(meter_conditions(site_id=row.pk, now=here.now)),
        meter=meter_facts(meter, now=here.now),
        checks=checks,
        gaps=gaps_of(actor=here.actor, site=row)[:CHECKS],
    )
    return list_page(request, "operator/site_metering.html", shown, context, differences)
