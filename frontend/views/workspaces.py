"""The list of workspaces and the page of one."""

import uuid
from typing import Any

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from billing.months import month_of
from billing.selectors import cost_by_workspace, prices_at
from frontend.forms.workspaces import ExtendForm, LifetimeForm, MemberForm, ReasonForm, RobotForm
from frontend.nav import Crumb
from frontend.place import ProjectPlace, project_page
from frontend.presenters import detail, money, workspaces
from frontend.views.usage import crumbs
from gpuaas.core import clock
from gpuaas.core.errors import NotFound
from gpuaas.workspaces.machines.selectors import machines_sold
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.selectors import workspace_get_for, workspaces_for
from gpuaas.workspaces.states import LIVE, WorkspaceState
from tenants.roles import Permission

ROWS = 25
SORTS = {"name": "name", "lease": "lease_ends_at", "created": "created_at"}
STATES = (("", "not deleted"), *((state.value, state.label) for state in WorkspaceState))


@project_page(Permission.WORKSPACE_VIEW)
def index(request: HttpRequest, here: ProjectPlace) -> HttpResponse:
    query = {name: request.GET.get(name, "").strip() for name in ("q", "state", "site", "sort")}
    known = WorkspaceState(query["state"]) if query["state"] in WorkspaceState.values else None
    states = [known] if known else (list(WorkspaceState) if query["state"] == "all" else list(LIVE))
    found = workspaces_for(actor=here.actor, project=here.project, states=states, search=query["q"])
    if query["site"]:
        found = found.filter(site__slug=query["site"])
    column = SORTS.get(query["sort"].lstrip("-"))
    if column:
        found = found.order_by(f"-{column}" if query["sort"].startswith("-") else column, "-pk")
    page = Paginator(found, ROWS).get_page(request.GET.get("page"))
    context = {
        "place": here,
        "query": query,
        "filtered": any(query[name] for name in ("q", "state", "site")),
        "states": [(value, word) for value, word in STATES if value] + [("all", "with deleted ones")],
        "sites": site_slugs(here),
        "page": page,
        "crumbs": crumbs(here, "Workspaces"),
        **list_urls(here),
        **rows_context(list(page.object_list), here),
    }
    return render(request, "workspaces/list.html", context)


def rows_context(found: list[Workspace], here: ProjectPlace) -> dict[str, Any]:
    """Rows with their money, where the reader may see money and prices exist; 3 queries at any length."""
    now = clock.now()
    prices = costs = None
    if here.can(Permission.BILLING_VIEW):
        with money.Unpriced():
            spent = cost_by_workspace(actor=here.actor, project=here.project, now=now)
            prices = prices_at(at=now, organization=here.project.organization)
            costs = {row.workspace_id: row.amount for row in spent if row.workspace_id}
    rows = [workspaces.row_of(workspace, now=now, prices=prices, costs=costs) for workspace in found]
    per_hour = [row.per_hour for row in rows if row.per_hour is not None]
    spent_here = [row.month for row in rows if row.month is not None]
    totals = {"per_hour": sum(per_hour), "month": sum(spent_here)} if rows else None
    return {"rows": rows, "money": costs is not None, "month_name": f"{month_of(now):%B}", "totals": totals}


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


def machines_url(row: Workspace) -> str:
    return reverse("frontend:machines", args=[row.project.slug, row.pk])


@project_page(Permission.WORKSPACE_VIEW)
def show(request: HttpRequest, here: ProjectPlace, workspace: uuid.UUID) -> HttpResponse:
    row = workspace_at(here, workspace, Permission.WORKSPACE_VIEW)
    return draw(request, here, row)


def draw(
    request: HttpRequest,
    here: ProjectPlace,
    row: Workspace,
    *,
    status: int = 200,
    **forms: Any,
) -> HttpResponse:
    """The page, also with a form that was refused: its dialog opens again with the sentence beside the field."""
    page = detail.page_of(row, here, now=clock.now())
    context = {
        "place": here,
        "workspace": row,
        "page": page,
        "urls": detail.urls_of(row),
        "machines_url": machines_url(row) if machines_sold(site=row.site) else "",
        "extend_form": ExtendForm(initial={"until": row.lease_ends_at}),
        "member_form": MemberForm(auto_id="member_%s"),
        "lifetime_form": LifetimeForm(),
        "robot_form": RobotForm(auto_id="robot_%s"),
        "reason_form": ReasonForm(),
        "delete_title": f"Delete {row.name}",
        "crumbs": (
            *crumbs(here, "Workspaces", reverse("frontend:workspaces", args=[here.project.slug])),
            Crumb(row.name),
        ),
        **forms,
    }
    return render(request, "workspaces/detail.html", context, status=status)
