"""Costs of a project or an organization: by whatever one asks, filtered step by step, down to the raw intervals."""

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from django.http import HttpRequest, HttpResponseBase, StreamingHttpResponse
from django.urls import reverse

from billing.exports import interval_rows, rows_csv
from billing.months import billing_zone
from billing.selectors import month_costs
from billing.selectors.breakdown import Breakdown, By, CostFilters, CostRow, cost_breakdown, cost_intervals
from billing.selectors.costs import MonthCosts
from billing.selectors.running import running_and_rest
from frontend import formats
from frontend.components import Chip, Meter, Stat
from frontend.lists import Column, Listed, Listing, list_page
from frontend.months import month_asked
from frontend.nav import Crumb
from frontend.presenters import money
from frontend.rows import Cut
from frontend.scope import Scope, of_organization, of_project
from frontend.views.home import running_stat
from frontend.views.usage import INTERVALS, lengths_of
from gpuaas.clusters.models import Cluster
from gpuaas.core.streams import csv_streamed
from gpuaas.workspaces.models import Workspace
from tenants.roles import Permission

LABELS = {
    By.PROJECT: "Project",
    By.WORKSPACE: "Workspace or cluster",
    By.GPU_TYPE: "GPU type",
    By.MEMBER: "Member",
    By.DAY: "Day",
}
# what a click on a row shows next, as far as it is not filtered already; then come the intervals
STEPS = (By.PROJECT, By.WORKSPACE, By.GPU_TYPE, By.DAY)
LIST = Listing(
    "rows",
    columns=(
        Column("name", "Item", "name", "0.name"),
        Column("key", value="0.key"),
        Column("project", value="0.project"),
        Column("share", "Share", value=None, quiet=True),
        Column("gpu_hours", "GPU hours held", "hours", "1", numeric=True),
        Column("amount", "Cost", "amount", "0.amount", numeric=True),
        Column("unpriced_lines", value="0.quarantined"),
    ),
)


@dataclass(frozen=True)
class Asked:
    """What the address says; `query` without its grouping."""

    month: date
    by: By
    filters: CostFilters
    query: dict[str, str]


def _views(scope: Scope) -> tuple[By, ...]:
    return tuple(by for by in By if by is not By.PROJECT or scope.project is None)


def asked(request: HttpRequest, scope: Scope, now: datetime) -> Asked:
    """Nonsense is left out, as on every page: a page is not an API."""
    month = month_asked(request, now)
    query = {"month": f"{month:%Y-%m}"}
    query |= {by.value: text for by in _views(scope) if (text := request.GET.get(by.value, "")[:100])}
    day = _day(query.get("day", ""), month)
    if day is None:
        query.pop("day", None)
    named = {name: query.get(name, "") for name in ("project", "workspace", "gpu_type", "member")}
    by = request.GET.get("by", "")
    view = By(by) if by in _views(scope) else _views(scope)[0]
    return Asked(month, view, CostFilters(**named, day=day), query)


def _day(text: str, month: date) -> date | None:
    try:
        found = date.fromisoformat(text)
    except ValueError:
        return None
    return found if found.replace(day=1) == month else None


def costs(request: HttpRequest, scope: Scope) -> HttpResponseBase:
    want = asked(request, scope, scope.now)
    month = money.month_shown(want.month, now=scope.now)
    unfiltered = month.running and want.filters == CostFilters()
    whole = month_costs(month=want.month, now=scope.now, **scope.given) if unfiltered else None
    shown, reads = _listed(request, scope, want, whole)
    if shown.wanted_as_file:
        return shown.file()
    page, found = shown.page, reads[-1]
    context = {
        "scope": scope,
        "month": month,
        "found": found,
        "page": page,
        "head": LABELS[want.by],
        "hours": money.hours_of(found.gpu_seconds),
        "chips": _chips(scope, want, "costs"),
        "intervals_url": scope.url("cost_intervals", query=want.query),
        **_other_views(scope, want, month),
        "crumbs": _crumbs(scope),
        "focus_url": _focus_url(scope, month.slug),
        **(_running(scope, month, scope.now, whole) if whole else {}),
    }
    return list_page(request, "billing/costs.html", shown, context)


def _listed(
    request: HttpRequest, scope: Scope, want: Asked, whole: MonthCosts | None
) -> tuple[Listed, list[Breakdown]]:
    """The rows, and what was read of them so far: their sums with it."""
    given: dict[str, Any] = {
        "by": want.by,
        "month": want.month,
        "filters": want.filters,
        "now": scope.now,
        **scope.given,
    }
    reads: list[Breakdown] = []

    def read(sort: str, most: int | None, skipped: int) -> tuple[Sequence[CostRow], int]:
        reads.append(cost_breakdown(**given, costs=whole, most=most, skipped=skipped, sort=sort))
        return reads[-1].rows, reads[-1].count

    def drawn(rows: list[CostRow]) -> list[tuple[CostRow, Decimal, Meter, str]]:
        largest = reads[-1].largest or 1
        return [
            (row, money.hours_of(row.gpu_seconds), Meter(used=row.amount, limit=largest), url)
            for row, url in zip(rows, _steps(scope, want, rows), strict=True)
        ]

    listed = LIST.of(request, Cut(read), drawn, labels={"name": LABELS[want.by]})
    return listed, reads


def _other_views(scope: Scope, want: Asked, month: money.Month) -> dict[str, Any]:
    """The same by something else, and of the months beside it."""

    def at(slug: str) -> str:
        return scope.url("costs", query={**_without(want.query, "day"), "month": slug, "by": want.by})

    return {
        "views": [
            (by.value, LABELS[by], scope.url("costs", query={**want.query, "by": by.value}), by is want.by)
            for by in _views(scope)
        ],
        "previous": at(month.previous),
        "following": month.following and at(month.following),
    }


def _focus_url(scope: Scope, month: str) -> str:
    """Of the whole organization: only for who sees all of its costs."""
    if Permission.BILLING_VIEW not in scope.actor.on_organization(scope.organization.pk):
        return ""
    return reverse("api:organization-focus-csv", args=[scope.organization.slug, month])


def _steps(scope: Scope, want: Asked, found: Iterable[CostRow]) -> list[str]:
    """Where each row leads: the same, filtered by it; where no step is left, its intervals. Idle GPUs have none."""
    left = [by for by in STEPS if by in _views(scope) and by is not want.by and by.value not in want.query]
    urls = []
    for row in found:
        query = {**want.query, want.by.value: row.key}
        if want.by is By.WORKSPACE and row.project and scope.project is None:
            query["project"] = row.project
        rest = [by for by in left if by.value not in query]
        if rest:
            urls.append(scope.url("costs", query={**query, "by": rest[0].value}))
        else:
            urls.append(scope.url("cost_intervals", query=query))
    return urls


def _chips(scope: Scope, want: Asked, page: str) -> list[Chip]:
    named = dict(want.query)
    if "workspace" in named:
        named["workspace"] = _workspace_name(scope, named["workspace"])
    by = {"by": want.by.value} if page == "costs" else {}
    return [
        Chip(LABELS[By(key)], value, scope.url(page, query={**_without(want.query, key), **by}))
        for key, value in named.items()
        if key != "month"
    ]


def _workspace_name(scope: Scope, key: str) -> str:
    """Or the cluster's, of that id; what is none is shown as it came."""
    inside = {"project": scope.project} if scope.project else {"project__organization": scope.organization}
    try:
        pk = uuid.UUID(key)
    except ValueError:
        return key
    found = (model.objects.filter(pk=pk, **inside).first() for model in (Workspace, Cluster))
    return next((row.name for row in found if row), key)


def _without(query: dict[str, str], key: str) -> dict[str, str]:
    return {name: value for name, value in query.items() if name != key}


def _running(scope: Scope, month: money.Month, now: datetime, whole: MonthCosts) -> dict[str, Any]:
    """The head of the running month: today, so far, per hour, expected; and its days."""
    days, so_far, currency = whole.days, whole.statement.total, whole.statement.currency
    here = now.astimezone(billing_zone()).date()
    today = sum((row.amount for row in days if row.day == here), so_far - so_far)
    running, rest = running_and_rest(now=now, **scope.given)
    sign = formats.SIGNS.get(currency, f"{currency} ")
    values = money.days_by_project(days)
    return {
        "stats": (
            Stat("Today so far", formats.money(today, currency), note=f"{here:%A}, {here.day} {here:%B}"),
            Stat(f"{month.first:%B} so far", formats.money(so_far, currency)),
            running_stat(running, currency),
            Stat(
                f"{month.first:%B} expected",
                formats.money(so_far + rest, currency),
                note="if nothing changes",
            ),
        ),
        "chart": money.day_chart(month=month, values=values, coming={}, now=now, sign=sign) if days else None,
    }


def costs_csv(request: HttpRequest, scope: Scope) -> StreamingHttpResponse:
    want = asked(request, scope, scope.now)
    found = cost_breakdown(by=want.by, month=want.month, filters=want.filters, now=scope.now, **scope.given)
    name = f"costs-{scope.slug}-{want.month:%Y-%m}-by-{want.by.value}"
    return csv_streamed(request, rows_csv(_cells(found)), name=name)


def _cells(found: Breakdown) -> Iterator[Sequence[object]]:
    """Every column by a name of its own: of projects the key is the project already."""
    of = () if found.by is By.PROJECT else ("project",)
    yield found.by.value, "name", *of, "gpu_seconds", "amount", "currency", "unpriced_lines"
    for row in found.rows:
        within = [row.project for _ in of]
        key = date.fromisoformat(row.key) if found.by is By.DAY else row.key
        yield key, row.name, *within, row.gpu_seconds, row.amount, found.currency, row.quarantined


def intervals(request: HttpRequest, scope: Scope) -> HttpResponseBase:
    """The last step: what was held, in whole seconds; cut to nothing, so that one sees where it began and ended."""
    want = asked(request, scope, scope.now)
    found = cost_intervals(month=want.month, filters=want.filters, **scope.given)
    shown = INTERVALS.of(request, found, lambda rows: lengths_of(rows, scope.now))
    context = {
        "scope": scope,
        "month": money.month_shown(want.month, now=scope.now),
        "day": want.filters.day,
        "chips": _chips(scope, want, "cost_intervals"),
        "costs_url": scope.url("costs", query=_without(want.query, "day")),
        "csv_url": scope.url("cost_intervals_csv", query=want.query),
        "crumbs": (
            *_crumbs(scope, scope.url("costs", query={"month": want.query["month"]})),
            Crumb("Intervals"),
        ),
    }
    return list_page(request, "billing/cost_intervals.html", shown, context)


def cost_intervals_csv(request: HttpRequest, scope: Scope) -> StreamingHttpResponse:
    want = asked(request, scope, scope.now)
    found = cost_intervals(month=want.month, filters=want.filters, **scope.given)
    name = f"intervals-{scope.slug}-{want.filters.day or want.query['month']}"
    return csv_streamed(request, rows_csv(interval_rows(intervals=found)), name=name)


def _crumbs(scope: Scope, url: str = "") -> tuple[Crumb, ...]:
    return (Crumb("Organization" if scope.project is None else "Project"), Crumb("Costs", url))


project_costs, organization_costs = of_project()(costs), of_organization()(costs)
project_csv, organization_csv = of_project()(costs_csv), of_organization()(costs_csv)
project_intervals, organization_intervals = of_project()(intervals), of_organization()(intervals)
project_intervals_csv = of_project()(cost_intervals_csv)
organization_intervals_csv = of_organization()(cost_intervals_csv)
