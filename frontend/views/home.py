"""Where people land, and the home of a project."""

from datetime import datetime
from decimal import Decimal
from typing import Any

from django.contrib.auth.decorators import login_required
from django.db.models import BooleanField, ExpressionWrapper, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import NoReverseMatch, reverse

from billing.models import BudgetAction
from billing.selectors import month_costs, statement
from billing.selectors.budgets import budget_alerts_on
from billing.selectors.costs import HolderCost
from billing.selectors.days import NAMED
from billing.selectors.running import Running, running_and_rest
from frontend import formats
from frontend.components import Stat
from frontend.context import Console
from frontend.lists import some_of
from frontend.nav import Crumb
from frontend.place import ProjectPlace, place_of, project_page
from frontend.presenters import limits, money
from frontend.presenters.events import transition_words
from frontend.presenters.held import SOON, url_of
from frontend.presenters.sleep import after_lease
from frontend.views.workspaces import list_urls, rows_context
from gpuaas.core.looks import Tone
from gpuaas.workspaces.models import Workspace, WorkspaceTransition
from gpuaas.workspaces.selectors import workspaces_for
from gpuaas.workspaces.states import LIVE, WorkspaceState
from quotas.gpus import cards_held
from tenants.roles import Permission

SHOWN = 12
EVENTS = 8
NEEDS = 5


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
        scope = getattr(request, "console", Console()).scope
        if "organization" in scope:
            return redirect("frontend:projects", scope["organization"])
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
    may_look = here.can(Permission.WORKSPACE_VIEW)
    live = workspaces_for(**here.given, states=LIVE)
    found, count = some_of(live, SHOWN) if may_look else ([], 0)
    needy = needing(live, here.now) if may_look else []
    allocated, in_use = limits.gpus_allocated(**here.given)
    everything = {**allocated, **limits.shared_allocated(project=here.project)}
    rows = limits.limit_rows(project=here.project, allocated=everything)
    more = count > SHOWN
    # of many workspaces, what each of them costs is rated for the second answer, which the page asks for by itself
    later = more and not request.headers.get("HX-Request") and "costs" not in request.GET
    shown = rows_context(found, here, dearest=None if later else NAMED)
    context: dict[str, Any] = {
        "may_look": may_look,
        "more": more,
        "count": count,
        "later": later and shown["money"],
        "limit_rows": [row for row in rows if row.line.limit != 0 or row.line.used],
        "needs": [*budget_needs(here), *needs_of(needy, here, here.now)][:NEEDS],
        "events": recent(here) if may_look else [],
        "crumbs": (Crumb("Home"),),
        **list_urls(here),
        **shown,
        **money_of(here, here.now, shown["spent"]),
    }
    context["stats"] = stats_of(here, in_use, context)
    return render(request, "home/project.html", context)


def money_of(here: ProjectPlace, now: datetime, spent: list[HolderCost] | None) -> dict[str, Any]:
    """The running month: so far, per hour, expected, and its days where `spent` is known. Empty where there are no prices or no right."""
    if not here.can(Permission.BILLING_VIEW):
        return {}
    with money.Unpriced():
        given: dict[str, Any] = {**here.given, "now": now}
        costs = None if spent is None else month_costs(**given)
        sheet = costs.statement if costs else statement(**given)
        month = money.month_shown(sheet.month, now=now)
        sign = formats.SIGNS.get(sheet.currency, f"{sheet.currency} ")
        burn, rest = running_and_rest(**given)
        context = {"statement": sheet, "burn": burn, "expected": sheet.total + rest, "month": month}
        if costs is None:
            return context
        values = money.days_by_holder(month=sheet.month, days=costs.days, dearest=spent, **given)
        coming = money.days_to_come(month=sheet.month, **given)
        chart = money.day_chart(month=month, values=values, coming=coming, now=now, sign=sign)
        return context | {"chart": chart if values or coming else None}
    return {}


def stats_of(here: ProjectPlace, in_use: Decimal, context: dict[str, Any]) -> tuple[Stat, ...]:
    held = formats.gpus(cards_held(project=here.project))
    stats = [Stat("GPUs held", held, note=f"{formats.gpus(in_use)} allocated now")]
    if "statement" not in context:
        return (*stats, Stat("Cost", formats.NONE, note="no prices yet"))
    sheet, month = context["statement"], context["month"]
    name = f"{month.first:%B}"
    missing = len(sheet.quarantined)
    return (
        *stats,
        running_stat(context["burn"], sheet.currency),
        Stat(
            f"{name} so far",
            formats.money(sheet.total, sheet.currency),
            note=f"{missing} line{' has' if missing == 1 else 's have'} no price yet"
            if missing
            else f"since {month.period.split(' to ')[0]} {month.first:%b}",
            tone=Tone.WARN if missing else None,
            url=reverse("frontend:statement", args=[here.project.slug, month.slug]),
        ),
        Stat(
            f"{name} expected", formats.money(context["expected"], sheet.currency), note="if nothing changes"
        ),
    )


def running_stat(found: Running, currency: str) -> Stat:
    """What all that runs now costs; and of what, where it is more than workspaces."""
    parts = {"workspaces": found.workspaces, "clusters": found.clusters, "idle in reserved pools": found.idle}
    some = [f"{name} {formats.price(amount, currency)}" for name, amount in parts.items() if amount]
    note = ", ".join(some) if found.total != found.workspaces else ""
    return Stat("Running now", formats.price(found.total, currency), "per hour", note=note)


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
        for alert in budget_alerts_on(**here.given)
    ]


def needing(live: QuerySet[Workspace], now: datetime) -> list[Workspace]:
    """As many as are shown at most, what failed first; 1 query."""
    failed = Q(state=WorkspaceState.FAILED)
    rows = live.filter(failed | Q(lease_ends_at__lt=now + SOON)).prefetch_related(None)
    first = ExpressionWrapper(failed, output_field=BooleanField())
    return list(rows.order_by(first.desc(), "-pk")[:NEEDS])


def needs_of(found: list[Workspace], here: ProjectPlace, now: datetime) -> list[dict[str, str]]:
    """What waits for a person: failures first, then leases about to end."""
    needs = []
    for row in found:
        url = url_of(row)
        if row.state == WorkspaceState.FAILED:
            text = row.failure or "The site rejected the request."
            needs.append(
                {"tone": "bad", "title": f"{row.name} failed", "text": text, "url": url, "label": "View"}
            )
        elif row.lease_ends_at - now < SOON:
            over = row.lease_ends_at <= now
            ends = f"{formats.when(row.lease_ends_at, here.zone)}. {after_lease(row, here.zone)}"
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
