"""Workspaces of all tenants."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from billing.selectors import prices_at
from frontend.presenters import workspaces as shown
from frontend.views.operator.common import OperatorPlace, crumbs, operator_page, paged
from gpuaas.catalog.selectors import sites_for
from gpuaas.core import clock
from gpuaas.workspaces.selectors import workspaces_for
from gpuaas.workspaces.states import LIVE, WorkspaceState
from tenants.selectors import organizations_for, projects_for

FILTERS = ("q", "state", "site", "project", "organization")


@operator_page
def workspaces(request: HttpRequest, here: OperatorPlace) -> HttpResponse:
    query = {name: request.GET.get(name, "").strip()[:80] for name in FILTERS}
    known = WorkspaceState(query["state"]) if query["state"] in WorkspaceState.values else None
    states = [known] if known else (list(WorkspaceState) if query["state"] == "all" else list(LIVE))
    found = workspaces_for(actor=here.actor, states=states, search=query["q"])
    for name, column in (
        ("site", "site__slug"),
        ("project", "project__slug"),
        ("organization", "project__organization__slug"),
    ):
        if query[name]:
            found = found.filter(**{column: query[name]})
    page = paged(request, found)
    now = clock.now()
    prices = prices_at(at=now)
    rows = [(row, shown.row_of(row, now=now, prices=prices, costs={})) for row in page.object_list]
    context = {
        "place": here,
        "query": query,
        "filtered": any(query.values()),
        "page": page,
        "rows": rows,
        "states": [(state.value, state.label) for state in WorkspaceState] + [("all", "with deleted ones")],
        "sites": list(sites_for(actor=here.actor).values_list("slug", flat=True)),
        "projects": list(projects_for(actor=here.actor).values_list("slug", flat=True)),
        "organizations": list(organizations_for(actor=here.actor).values_list("slug", "name")),
        "crumbs": crumbs("Tenants", ("Workspaces", "")),
    }
    return render(request, "operator/workspaces.html", context)
