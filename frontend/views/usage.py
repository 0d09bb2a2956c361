"""Usage and cost of one project: a month by workspace and cluster, by GPU type and by day, down to the intervals."""

import uuid
from datetime import date, datetime
from typing import Any

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.urls import reverse

from billing import exports
from billing.exports import interval_rows, rows_csv
from billing.months import month_of, month_parse
from billing.selectors import Statement, cost_by_workspace, prices_at, statement
from billing.selectors.breakdown import cost_intervals
from billing.selectors.idle import idle_now
from frontend.charts import Chart
from frontend.formats import SIGNS, full_when
from frontend.nav import Crumb
from frontend.place import ProjectPlace, project_page
from frontend.presenters import money
from frontend.presenters.coming import coming_of
from gpuaas.clusters.selectors import clusters_holding
from gpuaas.core import clock
from gpuaas.core.errors import Invalid
from gpuaas.core.streams import csv_streamed
from gpuaas.workspaces.selectors import workspace_get_for, workspaces_for
from gpuaas.workspaces.states import LIVE
from tenants.roles import Permission

VIEWS = (("workspace", "By workspace and cluster"), ("type", "By GPU type"), ("day", "By day"))
ROWS = 50


def month_asked(request: HttpRequest, now: datetime) -> date:
    """The month of the query, the running one where it says nothing or nonsense (a page is not an API)."""
    try:
        return min(month_parse(request.GET.get("month", "")), month_of(now))
    except Invalid:
        return month_of(now)


@project_page(Permission.BILLING_VIEW)
def usage(request: HttpRequest, here: ProjectPlace) -> HttpResponse:
    now = clock.now()
    first = month_asked(request, now)
    month = money.month_shown(first, now=now)
    view = request.GET.get("by", "workspace")
    context: dict[str, Any] = {
        "place": here,
        "month": month,
        "view": view if view in dict(VIEWS) else "workspace",
        "views": VIEWS,
        "crumbs": crumbs(here, "Usage and cost"),
        "unpriced": True,
    }
    with money.Unpriced():
        sheet = statement(actor=here.actor, project=here.project, month=first, now=now)
        context |= {"unpriced": False, "statement": sheet, "groups": money.groups_of(sheet)}
        context["gpu_hours"] = money.hours_of(sheet.gpu_seconds)
        if context["view"] == "workspace":
            spent = cost_by_workspace(actor=here.actor, project=here.project, month=first, now=now)
            context["rows"] = [{"cost": row, "hours": money.hours_of(row.gpu_seconds)} for row in spent]
        if context["view"] == "day":
            context["chart"] = chart_of(here, month, now, sheet.currency)
    return render(request, "billing/usage.html", context)


def chart_of(here: ProjectPlace, month: money.Month, now: datetime, currency: str) -> Chart:
    """Days by workspace and cluster; in the running month also what is held now, where the reader may see workspaces."""
    values = money.days_by_workspace(project=here.project, month=month.first, now=now)
    coming: dict[str, money.Coming] = {}
    if month.running and here.can(Permission.WORKSPACE_VIEW):
        held = workspaces_for(actor=here.actor, project=here.project, states=LIVE)
        clusters = clusters_holding(actor=here.actor, project=here.project)
        coming = coming_of(held, clusters, prices_at(at=now, organization=here.project.organization))
        coming |= money.coming_idle(idle_now(actor=here.actor, project=here.project, now=now))
    sign = SIGNS.get(currency, f"{currency} ")
    return money.day_chart(month=month, values=values, coming=coming, now=now, sign=sign)


@project_page(Permission.BILLING_VIEW)
def intervals(request: HttpRequest, here: ProjectPlace, workspace: uuid.UUID) -> HttpResponse:
    """What a workspace's amount is made of: who held what, from when until when, in whole seconds."""
    now = clock.now()
    month = money.month_shown(month_asked(request, now), now=now)
    row = workspace_get_for(actor=here.actor, workspace_id=workspace, permission=Permission.WORKSPACE_VIEW)
    found = cost_intervals(actor=here.actor, project=here.project, month=month.first).filter(workspace=row)
    page = Paginator(found, ROWS).get_page(request.GET.get("page"))
    context = {
        "place": here,
        "month": month,
        "workspace": row,
        "page": page,
        "rows": [(item, int(((item.ended_at or now) - item.started_at).total_seconds())) for item in page],
        "crumbs": (
            *crumbs(here, "Usage and cost", reverse("frontend:usage", args=[here.project.slug])),
            Crumb(row.name),
        ),
    }
    return render(request, "billing/intervals.html", context)


@project_page(Permission.BILLING_VIEW)
def usage_csv(request: HttpRequest, here: ProjectPlace) -> StreamingHttpResponse:
    """Every interval of the month, as metered: seconds are whole, times are UTC."""
    first = month_asked(request, clock.now())
    found = cost_intervals(actor=here.actor, project=here.project, month=first)
    return csv_streamed(
        request, rows_csv(interval_rows(intervals=found)), name=f"usage-{here.project.slug}-{first:%Y-%m}"
    )


@project_page(Permission.BILLING_VIEW)
def statement_csv(request: HttpRequest, here: ProjectPlace, month: str) -> StreamingHttpResponse:
    sheet = statement(actor=here.actor, project=here.project, month=month_parse(month), now=clock.now())
    return csv_streamed(
        request, exports.statement_csv(statement=sheet), name=f"statement-{here.project.slug}-{month}"
    )


@project_page(Permission.BILLING_VIEW)
def project_statement(request: HttpRequest, here: ProjectPlace, month: str) -> HttpResponse:
    now = clock.now()
    first = month_parse(month)
    sheet = statement(actor=here.actor, project=here.project, month=first, now=now)
    context = {
        "place": here,
        "organization": here.project.organization,
        "crumbs": (*crumbs(here, "Statements"), Crumb(f"{first:%B %Y}")),
        "csv_url": reverse("frontend:statement_csv", args=[here.project.slug, month]),
        "usage_url": f"{reverse('frontend:usage', args=[here.project.slug])}?month={month}",
        **statement_context(sheet, now, here, "frontend:statement", here.project.slug),
    }
    return render(request, "billing/statement.html", context)


def statement_context(sheet: Statement, now: datetime, here: Any, name: str, slug: str) -> dict[str, Any]:
    """What both the project's and the organization's statement draw."""
    month = money.month_shown(sheet.month, now=now)
    return {
        "previous_url": reverse(name, args=[slug, month.previous]),
        "following_url": reverse(name, args=[slug, month.following]) if month.following else "",
        "statement": sheet,
        "groups": money.groups_of(sheet),
        "month": month,
        "gpu_hours": money.hours_of(sheet.gpu_seconds),
        "as_of": full_when(sheet.as_of, here.zone),
    }


def crumbs(here: ProjectPlace, label: str, url: str = "") -> tuple[Crumb, ...]:
    home = reverse("frontend:home", args=[here.project.slug])
    return (Crumb(here.project.slug, home), Crumb(label, url))
