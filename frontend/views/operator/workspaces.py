"""Workspaces of all tenants."""

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponseBase

from billing.selectors.accounts import currencies_of
from billing.selectors.running import rates_of
from frontend.lists import Column, Filter, Listing, Query, list_page, narrowed, offered, states_of
from frontend.presenters import workspaces as shown
from frontend.views.operator.common import OperatorPlace, crumbs, operator_page
from frontend.views.workspaces import LIST as OF_A_PROJECT
from gpuaas.catalog.selectors import sites_for
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.selectors import workspaces_for
from gpuaas.workspaces.states import LIVE, WorkspaceState
from tenants.selectors import organizations_for, projects_for

LOOKUPS = {"site": "site__slug", "project": "project__slug", "organization": "project__organization__slug"}
LIST = Listing(
    "workspaces",
    columns=(
        *OF_A_PROJECT.columns[:2],
        Column("project", "Project", "project__slug"),
        Column("organization"),
        *(each for each in OF_A_PROJECT.columns[2:] if each.key != "month"),
    ),
    filters=(
        *OF_A_PROJECT.filters,
        Filter("organization", "Organization", "every organization"),
        Filter("project", "Project", "every project"),
    ),
)


@operator_page
def workspaces(request: HttpRequest, here: OperatorPlace) -> HttpResponseBase:
    def found(query: Query) -> QuerySet[Workspace]:
        states = states_of(query, WorkspaceState, LIVE)
        return narrowed(workspaces_for(actor=here.actor, states=states, search=query["q"]), query, LOOKUPS)

    found_list = LIST.of(
        request,
        found,
        lambda rows: rows_of(rows, here),
        site=offered(sites_for(actor=here.actor).values_list("slug", flat=True)),
        project=offered(projects_for(actor=here.actor).values_list("slug", flat=True)),
        organization=offered(organizations_for(actor=here.actor).values_list("slug", "name")),
    )
    return list_page(
        request, "operator/workspaces.html", found_list, {"crumbs": crumbs("Tenants", ("Workspaces", ""))}
    )


def rows_of(found: list[Workspace], here: OperatorPlace) -> list[shown.Row]:
    rates = rates_of(actor=here.actor, holders=[row.pk for row in found], now=here.now)
    currencies = currencies_of(organizations={row.project.organization_id for row in found})
    return [
        shown.row_of(row, now=here.now, rates=rates, currency=currencies[row.project.organization_id])
        for row in found
    ]
