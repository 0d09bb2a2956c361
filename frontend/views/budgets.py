"""Budgets of a project and of an organization: where they stand, set, changed, removed."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django.forms import HiddenInput
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.urls import reverse
from django.views.decorators.http import require_POST

from billing.models import Budget
from billing.selectors.accounts import currencies_of
from billing.selectors.budgets import BudgetState, budget_get_for, budget_states, budgets_for
from billing.services.budgets import (
    BudgetTerms,
    budget_changeable,
    budget_create,
    budget_end,
    budget_terms_wrong,
    budget_update,
)
from frontend.forms.budgets import FIELDS, FIRST, BudgetForm, initial_of, thresholds_shown
from frontend.frame import checked, done, draw_page, posted, refusals_on
from frontend.lists import Column, Listing, find, list_page, named
from frontend.nav import Crumb
from frontend.presenters.budgets import row_of, rows_of
from frontend.scope import Scope, of_organization, of_project
from gpuaas.clusters.models import Cluster
from gpuaas.clusters.selectors import clusters_for
from gpuaas.clusters.states import LIVE as CLUSTERS_LIVE
from gpuaas.core.errors import Conflict, Forbidden, Invalid, NotFound, StaleVersion
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.selectors import workspaces_for
from gpuaas.workspaces.states import LIVE
from tenants.roles import Permission

LIST = Listing(
    "budgets",
    columns=(
        Column("name", "Budget", "name", "state.budget.name"),
        Column("scope"),
        Column("organization", "Organization", "organization__slug", "state.budget.organization.slug"),
        Column("state", "State", value="word"),
        Column("period", "Period", "period"),
        Column("spent", "Spent and expected"),
        Column("forecast"),
        Column("amount", "Amount", numeric=True),
        Column(
            "thresholds",
            "Thresholds",
            value=lambda row: "; ".join(f"{one.percent}% {one.does}" for one in row.thresholds),
        ),
    ),
    filters=(find(),),
)


def index(request: HttpRequest, scope: Scope) -> HttpResponseBase:
    found = LIST.of(
        request,
        lambda query: named(budgets_for(**scope.given), query["q"], "name"),
        lambda rows: rows_of(
            budget_states(budgets=rows), {row.pk: scope.url("budget", row.pk) for row in rows}
        ),
        without={"organization"},
    )
    context = {
        "scope": scope,
        "new_url": scope.url("budget_new") if scope.may_manage else "",
        "crumbs": _crumbs(scope, Crumb("Budgets")),
    }
    return list_page(request, "billing/budgets.html", found, context)


@checked
def new(request: HttpRequest, scope: Scope) -> HttpResponse:
    if not scope.may_manage:
        raise Forbidden("your role does not allow setting budgets here")
    workspaces, clusters = _holders(scope)
    holders = [
        *((str(row.pk), f"workspace {row.name}") for row in workspaces),
        *((str(row.pk), f"cluster {row.name}") for row in clusters),
    ]
    first = {"period": "month", **thresholds_shown(FIRST)}
    form = BudgetForm(
        posted(request), wrong=_wrong(scope), initial=first, rows=_rows(request), holders=holders
    )
    if form.is_valid():
        named = form.cleaned_data["holder"]
        workspace = next((row for row in workspaces if str(row.pk) == named), None)
        cluster = next((row for row in clusters if str(row.pk) == named), None)
        with refusals_on(form, Invalid, Conflict, fields=FIELDS):
            made = budget_create(terms=form.terms(), workspace=workspace, cluster=cluster, **scope.given)
            return done(request, f"Budget {made.name} created.", scope.url("budgets"))
    return _form(request, scope, form)


@checked
def budget(request: HttpRequest, scope: Scope, budget: uuid.UUID) -> HttpResponse:
    row = _row(scope, budget)
    (state,) = budget_states(budgets=[row])
    count = len(row.thresholds.all())
    form = BudgetForm(
        posted(request),
        wrong=_wrong(scope, row),
        initial=initial_of(row, f"{state.amount:f}"),
        rows=max(count + 1, _rows(request)),
    )
    if form.is_valid():
        version = form.cleaned_data["version"]
        with refusals_on(form, Invalid, Conflict, StaleVersion, fields=FIELDS):
            budget_update(actor=scope.actor, budget=row, terms=form.terms(), expected_version=version)
            return done(request, f"Budget {row.name} saved.", scope.url("budgets"))
    return _form(request, scope, form, state=state)


def remove(request: HttpRequest, scope: Scope, budget: uuid.UUID) -> HttpResponse:
    row = _row(scope, budget)
    budget_end(actor=scope.actor, budget=row)
    text = f"Budget {row.name} removed. Everything it blocked is unblocked."
    return done(request, text, scope.url("budgets"))


def _wrong(scope: Scope, row: Budget | None = None) -> Callable[[BudgetTerms], Mapping[str, Sequence[str]]]:
    """What the service would refuse of the terms of a new budget here, or of `row`."""
    project = scope.project if row is None else row.project
    return lambda terms: budget_terms_wrong(
        organization=scope.organization, project=project, terms=terms, budget=row
    )


def _form(
    request: HttpRequest, scope: Scope, form: BudgetForm, *, state: BudgetState | None = None
) -> HttpResponse:
    organization = scope.organization.pk
    currency = currencies_of(organizations={organization})[organization]
    form.fields["measure"].help_text = f"{currency}, or GPU hours held"
    if state is not None:
        form.fields["measure"].widget = HiddenInput()
    title = state.budget.name if state else "New budget"
    context = {
        "scope": scope,
        "form": form,
        "title": title,
        "row": row_of(state) if state else None,
        "may_change": state is None or budget_changeable(actor=scope.actor, budget=state.budget),
        "back_url": scope.url("budgets"),
        "remove_url": scope.url("budget_remove", state.budget.pk) if state else "",
        "crumbs": _crumbs(scope, Crumb("Budgets", scope.url("budgets")), Crumb(title)),
    }
    return draw_page(request, "billing/budget.html", context)


def _row(scope: Scope, budget: uuid.UUID) -> Budget:
    row = budget_get_for(actor=scope.actor, budget_id=budget)
    if row.organization_id != scope.organization.pk or (scope.project and row.project != scope.project):
        raise NotFound("this budget does not exist")
    return row


def _crumbs(scope: Scope, *rest: Crumb) -> tuple[Crumb, ...]:
    home = reverse("frontend:home" if scope.project else "frontend:projects", args=[scope.slug])
    return (Crumb(scope.name, home), *rest)


def _holders(scope: Scope) -> tuple[list[Workspace], list[Cluster]]:
    if scope.project is None:
        return [], []
    given: dict[str, Any] = {"actor": scope.actor, "project": scope.project}
    workspaces = workspaces_for(**given, states=LIVE).order_by("name")
    return list(workspaces), list(clusters_for(**given, states=CLUSTERS_LIVE).order_by("name"))


def _rows(request: HttpRequest) -> int:
    return sum(1 for name in request.POST if name.startswith("percent_"))


manage = of_project(Permission.BILLING_MANAGE)
project_index, organization_index = of_project()(index), of_organization()(index)
project_new, organization_new = manage(new), of_organization()(new)
project_budget, organization_budget = of_project()(budget), of_organization()(budget)
project_remove, organization_remove = require_POST(manage(remove)), require_POST(of_organization()(remove))
