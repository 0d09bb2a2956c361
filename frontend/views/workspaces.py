"""The list of workspaces and the page of one."""

import uuid
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.urls import reverse

from billing.months import month_of
from billing.selectors import cost_by_holder
from billing.selectors.costs import HolderCost, currency_of
from billing.selectors.running import rates_of
from frontend.forms.workspaces import ExtendForm, LifetimeForm, MemberForm, ReasonForm, RobotForm
from frontend.frame import draw_page
from frontend.lists import (
    Column,
    Filter,
    Listing,
    Query,
    find,
    list_page,
    narrowed,
    state_choices,
    states_of,
)
from frontend.nav import Crumb
from frontend.place import ProjectPlace, project_page, row_doors
from frontend.presenters import detail, held, money, workspaces
from frontend.views.gpus import gpus_page
from frontend.views.usage import crumbs
from gpuaas.core.errors import NotFound
from gpuaas.gpustats.selectors import workspace_figures
from gpuaas.workspaces.machines.selectors import machines_sold
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.selectors import workspace_get_for, workspaces_for
from gpuaas.workspaces.states import LIVE, WorkspaceState
from tenants.roles import Permission

LIST = Listing(
    "workspaces",
    columns=(
        Column("name", "Name", "name"),
        Column("state", "State", "state", "word"),
        Column("holds", "Holds"),
        Column("site", "Site", "site__slug"),
        Column("lease", "Lease ends", "lease_ends_at", "lease_ends_at"),
        Column("created", "Requested", "created_at", "created_at"),
        Column("created_by"),
        Column("per_hour", "Per hour", numeric=True),
        Column("month", "This month", numeric=True),
        Column("currency"),
    ),
    filters=(
        find(),
        Filter("state", "State", "every state", state_choices(WorkspaceState)),
        Filter("site", "Site", "every site"),
    ),
    size=25,
)
MONEY = frozenset({"per_hour", "month", "currency"})


@project_page(Permission.WORKSPACE_VIEW)
def index(request: HttpRequest, here: ProjectPlace) -> HttpResponseBase:
    def found(query: Query) -> QuerySet[Workspace]:
        states = states_of(query, WorkspaceState, LIVE)
        rows = workspaces_for(**here.given, states=states, search=query["q"])
        return narrowed(rows, query, {"site": "site__slug"})

    priced = here.can(Permission.BILLING_VIEW)
    month = f"{month_of(here.now):%B}"
    shown = LIST.of(
        request,
        found,
        lambda rows: rows_context(rows, here)["rows"],
        without=() if priced else MONEY,
        labels={"month": month},
        site=site_slugs(here),
    )
    context = {
        "money": priced,
        "month_name": month,
        "totals": totals_of(shown.rows),
        "crumbs": crumbs(here, "Workspaces"),
        **list_urls(here),
    }
    return list_page(request, "workspaces/list.html", shown, context)


def rows_context(found: list[Workspace], here: ProjectPlace, *, dearest: int | None = 0) -> dict[str, Any]:
    """Rows with their money, where the reader may see money and prices exist; a few queries at any length.

    `spent`: what these and so many of the `dearest` cost in this month, the dearest first; None = not asked, which
    spares the longest query.
    """
    rates = costs = None
    spent: list[HolderCost] | None = None
    currency = currency_of(here.project.organization_id)
    if here.can(Permission.BILLING_VIEW):
        with money.Unpriced():
            shown = [row.pk for row in found]
            asked: dict[str, Any] = {**here.given, "now": here.now}
            if dearest is not None:
                spent = cost_by_holder(**asked, holders=shown, dearest=dearest)
                costs = {row.holder_id: row.amount for row in spent if row.holder_id}
            rates = rates_of(actor=here.actor, holders=shown, project=here.project, now=here.now)
    rows = [
        workspaces.row_of(workspace, now=here.now, rates=rates, costs=costs, currency=currency)
        for workspace in found
    ]
    return {
        "rows": rows,
        "spent": spent,
        "money": rates is not None,
        "currency": currency,
        "month_name": f"{month_of(here.now):%B}",
        "totals": totals_of(rows),
    }


def totals_of(rows: list[workspaces.Row]) -> dict[str, Any]:
    """What the rows of a page come to."""
    per_hour = [row.per_hour for row in rows if row.per_hour is not None]
    month = [row.month for row in rows if row.month is not None]
    return {"per_hour": sum(per_hour), "month": sum(month), "currency": rows[0].currency} if per_hour else {}


def list_urls(here: ProjectPlace) -> dict[str, Any]:
    return {
        "list_url": reverse("frontend:workspaces", args=[here.project.slug]),
        "new_url": reverse("frontend:workspace_new", args=[here.project.slug]),
        "may_create": here.can(Permission.WORKSPACE_CREATE),
    }


def site_slugs(here: ProjectPlace) -> list[str]:
    rows = Workspace.objects.filter(project=here.project).order_by("site__slug")
    return list(rows.values_list("site__slug", flat=True).distinct())


def workspace_at(here: ProjectPlace, workspace: uuid.UUID, permission: Permission) -> Workspace:
    """A workspace of the URL's project; another project's is not found here even by people who may see it there."""
    row = workspace_get_for(actor=here.actor, workspace_id=workspace, permission=permission)
    if row.project_id != here.project.pk:
        raise NotFound("there is no such workspace")
    return row


workspace_page, workspace_action = row_doors(workspace_at, "workspace")


def trail(here: ProjectPlace, row: Workspace, *rest: Crumb) -> tuple[Crumb, ...]:
    above = crumbs(here, "Workspaces", reverse("frontend:workspaces", args=[here.project.slug]))
    return (*above, Crumb(row.name, held.url_of(row) if rest else ""), *rest)


def machines_url(row: Workspace) -> str:
    return reverse("frontend:machines", args=[row.project.slug, row.pk])


def draw(request: HttpRequest, here: ProjectPlace, row: Workspace, **forms: Any) -> HttpResponse:
    """The page, also with a form that was refused: its dialog opens again with the sentence beside the field."""
    page = detail.page_of(row, here, now=here.now)
    context = {
        "workspace": row,
        "page": page,
        "urls": detail.urls_of(row),
        "machines_url": machines_url(row) if machines_sold(site=row.site) else "",
        "extend_form": ExtendForm(ends_at=row.lease_ends_at),
        "member_form": MemberForm(auto_id="member_%s"),
        "lifetime_form": LifetimeForm(),
        "robot_form": RobotForm(auto_id="robot_%s"),
        "reason_form": ReasonForm(),
        "delete_title": f"Delete {row.name}",
        "crumbs": trail(here, row),
        **forms,
    }
    return draw_page(request, "workspaces/detail.html", context)


show = workspace_page(Permission.WORKSPACE_VIEW)(draw)


@workspace_page(Permission.WORKSPACE_VIEW)
def gpus(request: HttpRequest, here: ProjectPlace, row: Workspace) -> HttpResponseBase:
    """What the GPUs do; the workspace's page fetches a part of it every minute."""
    figures = workspace_figures(actor=here.actor, workspace=row, now=here.now)
    return gpus_page(request, row.name, figures, here.zone, trail(here, row, Crumb("GPUs")))
