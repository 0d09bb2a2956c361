"""Where people land, and the home of a project."""

from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import NoReverseMatch, reverse

from billing.models import BudgetAction
from billing.selectors import burn_per_hour, prices_at, statement
from billing.selectors.budgets import budget_alerts_on
from billing.selectors.idle import idle_now
from frontend import formats
from frontend.components import Stat, Tone
from frontend.nav import Crumb
from frontend.place import ProjectPlace, place_of, project_page
from frontend.presenters import limits, money
from frontend.presenters.coming import coming_of
from frontend.presenters.events import transition_words
from frontend.presenters.sleep import after_lease
from frontend.presenters.workspaces import look_of, url_of
from frontend.views.workspaces import list_urls, rows_context
from gpuaas.clusters.selectors import clusters_holding
from gpuaas.core import clock
from gpuaas.workspaces.models import Workspace, WorkspaceTransition
from gpuaas.workspaces.selectors import workspaces_for
from gpuaas.workspaces.states import LIVE, WorkspaceState
from tenants.roles import Permission

SHOWN = 12
EVENTS = 8
NEEDS = 5
SOON = timedelta(days=3)
FOUND = 8


@login_required
def root(request: HttpRequest) -> HttpResponse:
    place = place_of(request)
    operator = Permission.PLATFORM_VIEW in place.actor.on_platform()
    if operator:
        for name in ("frontend:operator", "operator:overview"):
            try:
                return redirect(reverse(name))
            except NoReverseMatch:
                continue
    if place.project is None:
        return render(request, "home/empty.html", {"operator": operator})
    return redirect(reverse("frontend:home", args=[place.project.slug]))


@login_required
def new_workspace(request: HttpRequest) -> HttpResponse:
    """An address without a project, for links from outside: the project last looked at."""
    place = place_of(request)
    if place.project is None:
        return redirect("frontend:root")
    return redirect(reverse("frontend:workspace_new", args=[place.project.slug]))


@project_page(Permission.PROJECT_VIEW)
def project_home(request: HttpRequest, here: ProjectPlace) -> HttpResponse:
    now = clock.now()
    may_look = here.can(Permission.WORKSPACE_VIEW)
    found = list(workspaces_for(actor=here.actor, project=here.project, states=LIVE)) if may_look else []
    in_use = limits.gpus_in_use(actor=here.actor, project=here.project)
    everything = {**in_use, **limits.shared_in_use(project=here.project)}
    rows = limits.limit_rows(project=here.project, in_use=everything)
    context: dict[str, Any] = {
        "place": here,
        "more": len(found) > SHOWN,
        "limit_rows": [row for row in rows if row.line.limit != 0 or row.line.used],
        "needs": [*budget_needs(here), *needs_of(found, here, now)][:NEEDS],
        "events": recent(here) if may_look else [],
        "crumbs": (Crumb("Home"),),
        **list_urls(here),
        **rows_context(found[:SHOWN], here),
        **money_of(here, found, now),
    }
    context["stats"] = stats_of(rows, in_use, context)
    return render(request, "home/project.html", context)


def money_of(here: ProjectPlace, found: list[Workspace], now: datetime) -> dict[str, Any]:
    """The running month: so far, per hour, expected, and its days. Empty where there are no prices or no right."""
    if not here.can(Permission.BILLING_VIEW):
        return {}
    with money.Unpriced():
        sheet = statement(actor=here.actor, project=here.project, now=now)
        month = money.month_shown(sheet.month, now=now)
        sign = formats.SIGNS.get(sheet.currency, f"{sheet.currency} ")
        values = money.days_by_workspace(project=here.project, month=sheet.month, now=now)
        clusters = clusters_holding(actor=here.actor, project=here.project)
        coming = coming_of(found, clusters, prices_at(at=now, organization=here.project.organization))
        coming |= money.coming_idle(idle_now(actor=here.actor, project=here.project, now=now))
        chart = money.day_chart(month=month, values=values, coming=coming, now=now, sign=sign)
        return {
            "statement": sheet,
            "burn": burn_per_hour(actor=here.actor, project=here.project, now=now),
            "expected": sheet.total + money.expected_rest(coming.values(), month=month, now=now),
            "month": month,
            "chart": chart if values or coming else None,
        }
    return {}


def stats_of(rows: Any, in_use: dict[str, int], context: dict[str, Any]) -> tuple[Stat, ...]:
    held = sum(row.line.used for row in rows if row.line.resource.startswith("gpu:"))
    used = sum(in_use.values())
    stats = [Stat("GPUs held", f"{held:,}", note=f"{used:,} in use now")]
    if "statement" not in context:
        return (*stats, Stat("Cost", formats.NONE, note="no prices yet"))
    sheet, month = context["statement"], context["month"]
    name = f"{month.first:%B}"
    missing = len(sheet.quarantined)
    return (
        *stats,
        Stat("Running now", formats.money(context["burn"], sheet.currency), "per hour"),
        Stat(
            f"{name} so far",
            formats.money(sheet.total, sheet.currency),
            note=f"{missing} lines have no price yet"
            if missing
            else f"since {month.period.split(' to ')[0]} {month.first:%b}",
            tone=Tone.WARN if missing else None,
            url=reverse("frontend:statement", args=[context["place"].project.slug, month.slug]),
        ),
        Stat(
            f"{name} expected", formats.money(context["expected"], sheet.currency), note="if nothing changes"
        ),
    )


def budget_needs(here: ProjectPlace) -> list[dict[str, str]]:
    """What budgets of the project and of its organization have to say."""
    if not here.can(Permission.BILLING_VIEW):
        return []
    url = reverse("frontend:budgets", args=[here.project.slug])
    return [
        {
            "tone": "warn" if alert.action == BudgetAction.NOTIFY else "bad",
            "title": f"Budget {alert.budget.name}",
            "text": alert.message,
            "url": url,
            "label": "Budgets",
        }
        for alert in budget_alerts_on(actor=here.actor, project=here.project)
    ]


def needs_of(found: list[Workspace], here: ProjectPlace, now: datetime) -> list[dict[str, str]]:
    """What waits for a person: failures first, then leases about to end."""
    needs = []
    for row in found:
        url = url_of(row)
        if row.state == WorkspaceState.FAILED:
            text = row.failure or "The site refused it."
            needs.append(
                {"tone": "bad", "title": f"{row.name} failed", "text": text, "url": url, "label": "Look"}
            )
        elif row.lease_ends_at - now < SOON:
            over = row.lease_ends_at <= now
            ends = f"{formats.when(row.lease_ends_at, here.zone)}. {after_lease()}"
            title = (
                f"The lease of {row.name} {'ended' if over else 'ends'} {formats.ago(row.lease_ends_at, now)}"
            )
            needs.append({"tone": "warn", "title": title, "text": ends, "url": url, "label": "Extend"})
    return sorted(needs, key=lambda need: need["tone"] != "bad")[:NEEDS]


def recent(here: ProjectPlace) -> list[dict[str, Any]]:
    rows = WorkspaceTransition.objects.filter(subject__project=here.project).order_by("-pk")
    return [
        {
            "at": row.at,
            "actor": row.actor,
            "name": row.subject.name,
            "url": url_of(row.subject),
            "text": transition_words(row),
        }
        for row in rows.select_related("subject__project")[:EVENTS]
    ]


@login_required
def search(request: HttpRequest) -> JsonResponse:
    """Workspaces and projects by name, for the palette."""
    place = place_of(request)
    text = request.GET.get("q", "").strip()[:80]
    if len(text) < 2:
        return JsonResponse([], safe=False)
    found = [
        {
            "label": row.name,
            "note": f"{row.project.slug}, {look_of(row)[1].lower()}",
            "group": "Workspaces",
            "icon": "stack-2",
            "url": url_of(row),
        }
        for row in workspaces_for(actor=place.actor, states=LIVE, search=text)[:FOUND]
    ]
    found += [
        {
            "label": project.slug,
            "note": project.name,
            "group": "Projects",
            "icon": "folder",
            "url": reverse("frontend:home", args=[project.slug]),
        }
        for project in place.projects
        if text.lower() in f"{project.slug} {project.name}".lower()
    ][:FOUND]
    return JsonResponse(found, safe=False)
