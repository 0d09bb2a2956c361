"""Usage and cost of one project: a month by workspace and cluster, by GPU type and by day, down to the intervals."""

import uuid
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.shortcuts import render
from django.urls import reverse

from billing import exports
from billing.exports import interval_rows, rows_csv
from billing.holders import DEAREST
from billing.months import month_span
from billing.selectors import Statement, cost_by_holder_page, month_costs, statement
from billing.selectors.breakdown import cost_intervals
from billing.selectors.costs import HolderCost, MonthCosts
from frontend.charts import Chart
from frontend.formats import SIGNS, full_when
from frontend.lists import Column, Listing, list_page
from frontend.months import month_asked, month_named
from frontend.nav import Crumb
from frontend.place import ProjectPlace, project_page
from frontend.presenters import money
from frontend.presenters.gpus import MonthRow, month_rows
from frontend.rows import Cut
from gpuaas.core.errors import Conflict
from gpuaas.core.streams import csv_streamed
from gpuaas.gpustats.selectors import month_figures
from gpuaas.metering.models import UsageInterval
from gpuaas.workspaces.selectors import workspace_get_for
from tenants.roles import Permission

VIEWS = (("workspace", "By workspace and cluster"), ("type", "By GPU type"), ("day", "By day"))


HOLDERS = Listing(
    "workspaces and clusters",
    columns=(
        Column("name", "Workspace or cluster", "name", "0.holder"),
        Column("held_by", value=lambda row: "cluster" if row[0].is_cluster else "workspace"),
        Column("gpu_hours", "GPU hours", "hours", "1", numeric=True),
        Column("amount", "Cost", "amount", "0.amount", numeric=True),
    ),
)
LINES = Listing(
    "lines",
    columns=(
        Column("line", "Line", "name", "name"),
        Column("note"),
        Column("quantity", "Quantity", "hours", "hours", numeric=True),
        Column("unit", "Unit", "unit"),
        Column("price", "Price", "price", numeric=True),
        Column("amount", "Amount", "amount", numeric=True),
    ),
)


@project_page(Permission.BILLING_VIEW)
def usage(request: HttpRequest, here: ProjectPlace) -> HttpResponseBase:
    first = month_asked(request, here.now)
    month = money.month_shown(first, now=here.now)
    view = request.GET.get("by", "workspace")
    context: dict[str, Any] = {
        "month": month,
        "view": view if view in dict(VIEWS) else "workspace",
        "views": VIEWS,
        "crumbs": crumbs(here, "Usage and cost"),
        "unpriced": True,
    }
    with money.Unpriced():
        asked = {**here.given, "month": first, "now": here.now}
        costs = month_costs(**asked) if context["view"] == "day" else None
        sheet = costs.statement if costs else statement(**asked)
        context |= {"unpriced": False, "statement": sheet}
        context["gpu_hours"] = money.hours_of(sheet.gpu_seconds)
        if context["view"] == "type":
            context["gpu_use"] = use_of(here, first)
        if context["view"] == "workspace":
            shown = HOLDERS.of(request, holders(asked), with_hours)
            return list_page(request, "billing/usage.html", shown, context)
        if context["view"] == "type":
            lines = [line for group in money.groups_of(sheet) for line in group.lines]
            return list_page(request, "billing/usage.html", LINES.of(request, lines), context)
        if costs:
            context["chart"] = chart_of(here, month, here.now, costs)
    return render(request, "billing/usage.html", context)


def use_of(here: ProjectPlace, month: date) -> tuple[MonthRow, ...]:
    """Nothing of a month that was archived before the portal kept what GPUs do, and nothing for who sees money alone."""
    if not here.can(Permission.WORKSPACE_VIEW):
        return ()
    span = month_span(month)
    with suppress(Conflict):
        return month_rows(
            month_figures(**here.given, starts_at=span.starts_at, ends_at=span.ends_at, now=here.now)
        )
    return ()


def holders(asked: dict[str, Any]) -> Cut:
    """What workspaces and clusters cost, a page at a time."""
    return Cut(
        lambda sort, most, skipped: cost_by_holder_page(
            **asked, most=most, skipped=skipped, sort=sort or DEAREST
        )
    )


def with_hours(rows: list[HolderCost]) -> list[tuple[HolderCost, Decimal]]:
    return [(row, money.hours_of(row.gpu_seconds)) for row in rows]


def chart_of(here: ProjectPlace, month: money.Month, now: datetime, costs: MonthCosts) -> Chart:
    """Days by workspace and cluster; in the running month also what runs now, until each lease ends."""
    values = money.days_by_holder(**here.given, month=month.first, now=now, days=costs.days)
    coming: money.Days = {}
    if month.running:
        coming = money.days_to_come(**here.given, month=month.first, now=now)
    currency = costs.statement.currency
    sign = SIGNS.get(currency, f"{currency} ")
    return money.day_chart(month=month, values=values, coming=coming, now=now, sign=sign)


INTERVALS = Listing(
    "intervals",
    columns=(
        Column("item", "Item", "consumer_name", "0.consumer_name"),
        Column("flavor", value="0.flavor.slug"),
        Column("held_by", value=lambda row: "cluster" if row[0].cluster_id else "workspace"),
        Column("holder", "Workspace or cluster", value="0.holder_name"),
        Column("project", value="0.project.slug"),
        Column("meter", "Meter", "meter", "0.meter"),
        Column("quantity", "Quantity", "quantity", "0.counted", numeric=True),
        Column("started_at", "From", "started_at", "0.started_at"),
        Column("ended_at", "Until", "ended_at", "0.ended_at"),
        Column("seconds", "Seconds", value="1", numeric=True),
        Column("owner", value="0.owner"),
        Column("node", value="0.node"),
        Column("surplus", value="0.surplus"),
    ),
)


def lengths_of(rows: list[UsageInterval], now: datetime) -> list[tuple[UsageInterval, int]]:
    """With its whole seconds so far."""
    return [(row, int(((row.ended_at or now) - row.started_at).total_seconds())) for row in rows]


@project_page(Permission.BILLING_VIEW)
def intervals(request: HttpRequest, here: ProjectPlace, workspace: uuid.UUID) -> HttpResponseBase:
    """What a workspace's amount is made of: who held what, from when until when, in whole seconds."""
    month = money.month_shown(month_asked(request, here.now), now=here.now)
    row = workspace_get_for(actor=here.actor, workspace_id=workspace, permission=Permission.BILLING_VIEW)
    found = cost_intervals(**here.given, month=month.first).filter(workspace=row)
    shown = INTERVALS.of(request, found, lambda rows: lengths_of(rows, here.now), without={"holder"})
    context = {
        "month": month,
        "workspace": row,
        "crumbs": (
            *crumbs(here, "Usage and cost", reverse("frontend:usage", args=[here.project.slug])),
            Crumb(row.name),
        ),
    }
    return list_page(request, "billing/intervals.html", shown, context)


@project_page(Permission.BILLING_VIEW)
def usage_csv(request: HttpRequest, here: ProjectPlace) -> StreamingHttpResponse:
    """Every interval of the month, as metered: seconds are whole, times are UTC."""
    first = month_asked(request, here.now)
    found = cost_intervals(**here.given, month=first)
    return csv_streamed(
        request, rows_csv(interval_rows(intervals=found)), name=f"usage-{here.project.slug}-{first:%Y-%m}"
    )


@project_page(Permission.BILLING_VIEW)
def statement_csv(request: HttpRequest, here: ProjectPlace, month: str) -> StreamingHttpResponse:
    sheet = statement(**here.given, month=month_named(month), now=here.now)
    return csv_streamed(
        request, exports.statement_csv(statement=sheet), name=f"statement-{here.project.slug}-{month}"
    )


@project_page(Permission.BILLING_VIEW)
def project_statement(request: HttpRequest, here: ProjectPlace, month: str) -> HttpResponse:
    first = month_named(month)
    sheet = statement(**here.given, month=first, now=here.now)
    context = {
        "organization": here.project.organization,
        "crumbs": (*crumbs(here, "Statements"), Crumb(f"{first:%B %Y}")),
        "csv_url": reverse("frontend:statement_csv", args=[here.project.slug, month]),
        "usage_url": f"{reverse('frontend:usage', args=[here.project.slug])}?month={month}",
        **statement_context(sheet, here.now, here, "frontend:statement", here.project.slug),
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
