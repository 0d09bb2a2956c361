"""Budgets of a project and of an organization: where they stand, set, changed, removed."""

import uuid
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from billing.models import Budget
from billing.selectors.accounts import currencies_of
from billing.selectors.budgets import BudgetState, budget_get_for, budget_states, budgets_for
from billing.services.budgets import budget_changeable, budget_create, budget_end, budget_update
from frontend.forms import refuse
from frontend.forms.budgets import FIRST, BudgetForm, initial_of, thresholds_shown
from frontend.nav import Crumb
from frontend.place import OrganizationPlace, ProjectPlace, organization_place, project_page
from frontend.presenters.budgets import row_of, rows_of
from gpuaas.core.errors import Conflict, Forbidden, Invalid, NotFound, StaleVersion
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.selectors import workspaces_for
from gpuaas.workspaces.states import LIVE
from tenants.actors import Actor
from tenants.models import Organization, Project
from tenants.roles import Permission

ROWS = 50


@dataclass(frozen=True)
class Scope:
    """Whose budgets the address names. `may_manage` is for showing buttons; services decide for themselves."""

    place: ProjectPlace | OrganizationPlace
    organization: Organization
    project: Project | None

    @property
    def actor(self) -> Actor:
        return self.place.actor

    @property
    def may_manage(self) -> bool:
        return Permission.BILLING_MANAGE in self.place.may

    @property
    def name(self) -> str:
        return self.project.slug if self.project else self.organization.name

    @property
    def given(self) -> dict[str, Any]:
        return {"project": self.project} if self.project else {"organization": self.organization}

    def url(self, name: str, *args: object) -> str:
        if self.project:
            return reverse(f"frontend:{name}", args=[self.project.slug, *args])
        return reverse(f"frontend:organization_{name}", args=[self.organization.slug, *args])

    def crumbs(self, *rest: Crumb) -> tuple[Crumb, ...]:
        home = reverse("frontend:projects", args=[self.organization.slug])
        if self.project:
            home = reverse("frontend:home", args=[self.project.slug])
        return (Crumb(self.name, home), *rest)

    def budget(self, key: uuid.UUID) -> Budget:
        row = budget_get_for(actor=self.actor, budget_id=key)
        if row.organization_id != self.organization.pk or (self.project and row.project != self.project):
            raise NotFound("there is no such budget")
        return row


def of_project(here: ProjectPlace) -> Scope:
    return Scope(here, here.project.organization, here.project)


def of_organization(request: HttpRequest, slug: str) -> Scope:
    here = organization_place(request, slug, Permission.BILLING_VIEW)
    return Scope(here, here.organization, None)


@project_page(Permission.BILLING_VIEW)
def project_index(request: HttpRequest, here: ProjectPlace) -> HttpResponse:
    return _index(request, of_project(here))


@project_page(Permission.BILLING_MANAGE)
def project_new(request: HttpRequest, here: ProjectPlace) -> HttpResponse:
    return _new(request, of_project(here))


@project_page(Permission.BILLING_VIEW)
def project_budget(request: HttpRequest, here: ProjectPlace, budget: uuid.UUID) -> HttpResponse:
    return _budget(request, of_project(here), budget)


@require_POST
@project_page(Permission.BILLING_MANAGE)
def project_remove(request: HttpRequest, here: ProjectPlace, budget: uuid.UUID) -> HttpResponse:
    return _remove(request, of_project(here), budget)


@login_required
def organization_index(request: HttpRequest, organization: str) -> HttpResponse:
    return _index(request, of_organization(request, organization))


@login_required
def organization_new(request: HttpRequest, organization: str) -> HttpResponse:
    return _new(request, of_organization(request, organization))


@login_required
def organization_budget(request: HttpRequest, organization: str, budget: uuid.UUID) -> HttpResponse:
    return _budget(request, of_organization(request, organization), budget)


@require_POST
@login_required
def organization_remove(request: HttpRequest, organization: str, budget: uuid.UUID) -> HttpResponse:
    return _remove(request, of_organization(request, organization), budget)


def _index(request: HttpRequest, scope: Scope) -> HttpResponse:
    page = Paginator(budgets_for(actor=scope.actor, **scope.given), ROWS).get_page(request.GET.get("page"))
    states = budget_states(budgets=list(page))
    urls: dict[object, str] = {row.pk: scope.url("budget", row.pk) for row in page}
    context = {
        "place": scope.place,
        "scope": scope,
        "page": page,
        "rows": rows_of(states, urls),
        "new_url": scope.url("budget_new") if scope.may_manage else "",
        "crumbs": scope.crumbs(Crumb("Budgets")),
    }
    return render(request, "billing/budgets.html", context)


def _new(request: HttpRequest, scope: Scope) -> HttpResponse:
    if not scope.may_manage:
        raise Forbidden("your role does not allow setting budgets here")
    workspaces = _workspaces(scope)
    if request.method != "POST":
        first = {"period": "month", **thresholds_shown(FIRST)}
        return _form(request, scope, BudgetForm(initial=first, workspaces=workspaces))
    form = BudgetForm(request.POST, rows=_rows(request), workspaces=workspaces)
    if form.is_valid():
        named = form.cleaned_data["workspace"]
        workspace = next((row for row in workspaces if str(row.pk) == named), None)
        try:
            made = budget_create(actor=scope.actor, terms=form.terms(), workspace=workspace, **scope.given)
        except (Invalid, Conflict) as error:
            refuse(form, error, fields={"thresholds": "percent_1"})
        else:
            messages.success(request, f"The budget {made.name} is set.")
            return redirect(scope.url("budgets"))
    return _form(request, scope, form, status=422)


def _budget(request: HttpRequest, scope: Scope, key: uuid.UUID) -> HttpResponse:
    row = scope.budget(key)
    (state,) = budget_states(budgets=[row])
    count = len(row.thresholds.all())
    if request.method != "POST":
        form = BudgetForm(initial=initial_of(row, f"{state.amount:f}"), rows=count + 1)
        return _form(request, scope, form, state=state)
    form = BudgetForm(request.POST, rows=max(count, _rows(request)))
    if form.is_valid():
        version = form.cleaned_data["version"]
        try:
            budget_update(actor=scope.actor, budget=row, terms=form.terms(), expected_version=version)
        except (Invalid, Conflict, StaleVersion) as error:
            refuse(form, error, fields={"thresholds": "percent_1"})
        else:
            messages.success(request, f"The budget {row.name} is changed.")
            return redirect(scope.url("budgets"))
    return _form(request, scope, form, state=state, status=422)


def _remove(request: HttpRequest, scope: Scope, key: uuid.UUID) -> HttpResponse:
    row = scope.budget(key)
    budget_end(actor=scope.actor, budget=row)
    messages.success(request, f"The budget {row.name} is removed; what it blocked is free again.")
    return redirect(scope.url("budgets"))


def _form(
    request: HttpRequest,
    scope: Scope,
    form: BudgetForm,
    *,
    state: BudgetState | None = None,
    status: int = 200,
) -> HttpResponse:
    organization = scope.organization.pk
    title = state.budget.name if state else "New budget"
    context = {
        "place": scope.place,
        "scope": scope,
        "form": form,
        "title": title,
        "row": row_of(state) if state else None,
        "may_change": state is None or budget_changeable(actor=scope.actor, budget=state.budget),
        "currency": currencies_of(organizations={organization})[organization],
        "back_url": scope.url("budgets"),
        "remove_url": scope.url("budget_remove", state.budget.pk) if state else "",
        "crumbs": scope.crumbs(Crumb("Budgets", scope.url("budgets")), Crumb(title)),
    }
    return render(request, "billing/budget.html", context, status=status)


def _workspaces(scope: Scope) -> list[Workspace]:
    if scope.project is None:
        return []
    return list(workspaces_for(actor=scope.actor, project=scope.project, states=LIVE).order_by("name"))


def _rows(request: HttpRequest) -> int:
    return sum(1 for name in request.POST if name.startswith("percent_"))
