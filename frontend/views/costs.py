"""Costs of a project or an organization: by whatever one asks, filtered step by step, down to the raw intervals."""

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse

from billing.exports import interval_rows, rows_csv
from billing.months import billing_zone
from billing.selectors import burn_per_hour, cost_by_day, prices_at
from billing.selectors.breakdown import Breakdown, By, CostFilters, cost_breakdown, cost_intervals
from billing.selectors.idle import idle_now
from frontend import formats
from frontend.components import Chip, Meter, Stat
from frontend.nav import Crumb
from frontend.place import OrganizationPlace, ProjectPlace, organization_place, project_page
from frontend.presenters import money
from frontend.presenters.coming import coming_of
from frontend.views.usage import month_asked
from gpuaas.clusters.models import Cluster
from gpuaas.clusters.selectors import clusters_holding
from gpuaas.core import clock
from gpuaas.core.streams import csv_streamed
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.selectors import workspaces_for
from gpuaas.workspaces.states import LIVE
from tenants.actors import Actor
from tenants.models import Organization, Project
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
ROWS = 50


@dataclass(frozen=True)
class Scope:
    """Of a project or of a whole organization; `url` are its costs."""

    actor: Actor
    place: ProjectPlace | OrganizationPlace
    organization: Organization
    project: Project | None

    @property
    def given(self) -> dict[str, Any]:
        scope = {"project": self.project} if self.project else {"organization": self.organization}
        return {"actor": self.actor, **scope}

    @property
    def slug(self) -> str:
        return self.project.slug if self.project else self.organization.slug

    @property
    def views(self) -> tuple[By, ...]:
        return tuple(by for by in By if by is not By.PROJECT or self.project is None)

    def url(self, name: str, query: dict[str, str]) -> str:
        room = "" if self.project else "organization_"
        return f"{reverse(f'frontend:{room}{name}', args=[self.slug])}?{urlencode(query)}"


@dataclass(frozen=True)
class Asked:
    """What the address says; `query` without its grouping."""

    month: date
    by: By
    filters: CostFilters
    query: dict[str, str]


Page = Callable[[HttpRequest, Scope], HttpResponseBase]


def of_project(page: Page) -> Callable[..., HttpResponseBase]:
    @project_page(Permission.BILLING_VIEW)
    def shown(request: HttpRequest, here: ProjectPlace) -> HttpResponseBase:
        return page(request, Scope(here.actor, here, here.project.organization, here.project))

    return shown


def of_organization(page: Page) -> Callable[..., HttpResponseBase]:
    @login_required
    def shown(request: HttpRequest, organization: str) -> HttpResponseBase:
        here = organization_place(request, organization, Permission.BILLING_VIEW)
        return page(request, Scope(here.actor, here, here.organization, None))

    return shown


def asked(request: HttpRequest, scope: Scope, now: datetime) -> Asked:
    """Nonsense is left out, as on every page: a page is not an API."""
    month = month_asked(request, now)
    query = {"month": f"{month:%Y-%m}"}
    query |= {by.value: text for by in scope.views if (text := request.GET.get(by.value, "")[:100])}
    day = _day(query.get("day", ""), month)
    if day is None:
        query.pop("day", None)
    named = {name: query.get(name, "") for name in ("project", "workspace", "gpu_type", "member")}
    by = request.GET.get("by", "")
    view = By(by) if by in scope.views else scope.views[0]
    return Asked(month, view, CostFilters(**named, day=day), query)


def _day(text: str, month: date) -> date | None:
    try:
        found = date.fromisoformat(text)
    except ValueError:
        return None
    return found if found.replace(day=1) == month else None


def costs(request: HttpRequest, scope: Scope) -> HttpResponse:
    now = clock.now()
    want = asked(request, scope, now)
    month = money.month_shown(want.month, now=now)
    found = cost_breakdown(by=want.by, month=want.month, filters=want.filters, now=now, **scope.given)
    largest = max((row.amount for row in found.rows), default=Decimal(0))
    whole = month.running and want.filters == CostFilters()
    context = {
        "place": scope.place,
        "scope": scope,
        "month": month,
        "found": found,
        "head": LABELS[want.by],
        "hours": money.hours_of(found.gpu_seconds),
        "rows": [
            (row, money.hours_of(row.gpu_seconds), Meter(used=row.amount, limit=largest or 1), url)
            for row, url in zip(found.rows, _steps(scope, want, found), strict=True)
        ],
        "views": [
            (by.value, LABELS[by], scope.url("costs", {**want.query, "by": by.value}), by is want.by)
            for by in scope.views
        ],
        "chips": _chips(scope, want, "costs"),
        "intervals_url": scope.url("cost_intervals", want.query),
        "previous": scope.url(
            "costs", {**_without(want.query, "day"), "month": month.previous, "by": want.by}
        ),
        "following": month.following
        and scope.url("costs", {**_without(want.query, "day"), "month": month.following, "by": want.by}),
        "crumbs": _crumbs(scope),
        "csv_url": scope.url("costs_csv", {**want.query, "by": want.by.value}),
        **(_running(scope, month, now, found.currency) if whole else {}),
    }
    return render(request, "billing/costs.html", context)


def _steps(scope: Scope, want: Asked, found: Breakdown) -> list[str]:
    """Where each row leads: the same, filtered by it; where no step is left, its intervals. Idle GPUs have none."""
    left = [by for by in STEPS if by in scope.views and by is not want.by and by.value not in want.query]
    urls = []
    for row in found.rows:
        query = {**want.query, want.by.value: row.key}
        if want.by is By.WORKSPACE and row.project and scope.project is None:
            query["project"] = row.project
        rest = [by for by in left if by.value not in query]
        if rest:
            urls.append(scope.url("costs", {**query, "by": rest[0].value}))
        else:
            urls.append(scope.url("cost_intervals", query))
    return urls


def _chips(scope: Scope, want: Asked, page: str) -> list[Chip]:
    named = dict(want.query)
    if "workspace" in named:
        named["workspace"] = _workspace_name(scope, named["workspace"])
    by = {"by": want.by.value} if page == "costs" else {}
    return [
        Chip(LABELS[By(key)], value, scope.url(page, {**_without(want.query, key), **by}))
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


def _running(scope: Scope, month: money.Month, now: datetime, currency: str) -> dict[str, Any]:
    """The head of the running month: today, so far, per hour, expected; and its days."""
    days = cost_by_day(month=month.first, now=now, **scope.given)
    nothing = Decimal("0.00")
    here = now.astimezone(billing_zone()).date()
    today = sum((row.amount for row in days if row.day == here), nothing)
    so_far = sum((row.amount for row in days), nothing)
    expected = so_far + _rest(scope, month, now)
    burn = burn_per_hour(now=now, **scope.given)
    sign = formats.SIGNS.get(currency, f"{currency} ")
    values = money.days_by_project(days)
    return {
        "stats": (
            Stat("Today so far", formats.money(today, currency), note=f"{here:%A}, {here.day} {here:%B}"),
            Stat(f"{month.first:%B} so far", formats.money(so_far, currency)),
            Stat("Running now", formats.money(burn, currency), "per hour"),
            Stat(f"{month.first:%B} expected", formats.money(expected, currency), note="if nothing changes"),
        ),
        "chart": money.day_chart(month=month, values=values, coming={}, now=now, sign=sign) if days else None,
    }


def _rest(scope: Scope, month: money.Month, now: datetime) -> Decimal:
    """What is held now, until its lease ends, and what is idle of reserved pools; one by one, as projects may use the same names."""
    prices = prices_at(at=now, organization=scope.organization)
    rooms = workspaces_for(actor=scope.actor, project=scope.project, states=LIVE)
    clusters = clusters_holding(actor=scope.actor, project=scope.project)
    inside = {"project__organization": scope.organization}
    each = [coming_of([row], [], prices) for row in rooms.filter(**inside)]
    each += [coming_of([], [row], prices) for row in clusters.filter(**inside)]
    each.append(money.coming_idle(idle_now(now=now, **scope.given)))
    return sum((money.expected_rest(one.values(), month=month, now=now) for one in each), Decimal("0.00"))


def costs_csv(request: HttpRequest, scope: Scope) -> StreamingHttpResponse:
    now = clock.now()
    want = asked(request, scope, now)
    found = cost_breakdown(by=want.by, month=want.month, filters=want.filters, now=now, **scope.given)
    name = f"costs-{scope.slug}-{want.month:%Y-%m}-by-{want.by.value}"
    return csv_streamed(request, rows_csv(_cells(found)), name=name)


def _cells(found: Breakdown) -> Iterator[Sequence[object]]:
    yield found.by.value, "name", "project", "gpu_seconds", "amount", "currency", "unpriced_lines"
    for row in found.rows:
        yield row.key, row.name, row.project, row.gpu_seconds, row.amount, found.currency, row.quarantined


def intervals(request: HttpRequest, scope: Scope) -> HttpResponse:
    """The last step: what was held, in whole seconds; cut to nothing, so that one sees where it began and ended."""
    now = clock.now()
    want = asked(request, scope, now)
    found = cost_intervals(month=want.month, filters=want.filters, **scope.given)
    page = Paginator(found, ROWS).get_page(request.GET.get("page"))
    context = {
        "place": scope.place,
        "month": money.month_shown(want.month, now=now),
        "day": want.filters.day,
        "page": page,
        "rows": [(row, int(((row.ended_at or now) - row.started_at).total_seconds())) for row in page],
        "chips": _chips(scope, want, "cost_intervals"),
        "costs_url": scope.url("costs", _without(want.query, "day")),
        "csv_url": scope.url("cost_intervals_csv", want.query),
        "crumbs": (*_crumbs(scope, scope.url("costs", {"month": want.query["month"]})), Crumb("Intervals")),
    }
    return render(request, "billing/cost_intervals.html", context)


def cost_intervals_csv(request: HttpRequest, scope: Scope) -> StreamingHttpResponse:
    want = asked(request, scope, clock.now())
    found = cost_intervals(month=want.month, filters=want.filters, **scope.given)
    name = f"intervals-{scope.slug}-{want.filters.day or want.query['month']}"
    return csv_streamed(request, rows_csv(interval_rows(intervals=found)), name=name)


def _crumbs(scope: Scope, url: str = "") -> tuple[Crumb, ...]:
    return (Crumb("Organization" if scope.project is None else "Project"), Crumb("Costs", url))


project_costs, organization_costs = of_project(costs), of_organization(costs)
project_csv, organization_csv = of_project(costs_csv), of_organization(costs_csv)
project_intervals, organization_intervals = of_project(intervals), of_organization(intervals)
project_intervals_csv = of_project(cost_intervals_csv)
organization_intervals_csv = of_organization(cost_intervals_csv)
