"""Workspaces of all tenants."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from billing.selectors.accounts import currencies_of
from billing.selectors.running import rates_of
from frontend.lists import narrowed, paged, query_of, state_choices, states_of
from frontend.presenters import workspaces as shown
from frontend.views.operator.common import OperatorPlace, crumbs, operator_page
from gpuaas.catalog.selectors import sites_for
from gpuaas.workspaces.selectors import workspaces_for
from gpuaas.workspaces.states import LIVE, WorkspaceState
from tenants.selectors import organizations_for, projects_for

COLUMNS = {"site": "site__slug", "project": "project__slug", "organization": "project__organization__slug"}


@operator_page
def workspaces(request: HttpRequest, here: OperatorPlace) -> HttpResponse:
    query = query_of(request, "q", "state", *COLUMNS)
    states = states_of(query, WorkspaceState, LIVE)
    found = workspaces_for(actor=here.actor, states=states, search=query["q"])
    page = paged(request, narrowed(found, query, COLUMNS))
    rates = rates_of(actor=here.actor, holders=[row.pk for row in page.object_list], now=here.now)
    currencies = currencies_of(organizations={row.project.organization_id for row in page.object_list})
    rows = [
        (row, shown.row_of(row, now=here.now, rates=rates, currency=currencies[row.project.organization_id]))
        for row in page.object_list
    ]
    context = {
        **query.shown,
        "page": page,
        "rows": rows,
        "states": state_choices(WorkspaceState),
        "sites": list(sites_for(actor=here.actor).values_list("slug", flat=True)),
        "projects": list(projects_for(actor=here.actor).values_list("slug", flat=True)),
        "organizations": list(organizations_for(actor=here.actor).values_list("slug", "name")),
        "crumbs": crumbs("Tenants", ("Workspaces", "")),
    }
    return render(request, "operator/workspaces.html", context)
