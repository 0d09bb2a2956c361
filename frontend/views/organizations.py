"""An organization: its projects, its members and its statement."""

import uuid
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import Count, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from billing.months import month_of, month_parse
from billing.selectors import statement
from frontend.forms import refuse
from frontend.forms.projects import OrganizationMemberForm, ProjectForm
from frontend.nav import Crumb
from frontend.place import OrganizationPlace, organization_place
from frontend.presenters import money
from frontend.views.usage import statement_context
from gpuaas.core import clock
from gpuaas.core.errors import Invalid, NotFound
from gpuaas.workspaces.states import WorkspaceState
from tenants.models import User
from tenants.roles import OrganizationRole, Permission
from tenants.selectors import organization_members, projects_for, user_find
from tenants.services import organization_member_remove, organization_member_set, project_create


@login_required
def show(request: HttpRequest, organization: str) -> HttpResponse:
    here = organization_place(request, organization)
    return draw(request, here)


def draw(request: HttpRequest, here: OrganizationPlace, *, status: int = 200, **forms: Any) -> HttpResponse:
    now = clock.now()
    gone = Q(workspaces__state=WorkspaceState.DELETED)
    projects = projects_for(actor=here.actor).filter(organization=here.organization)
    rows = projects.annotate(running=Count("workspaces", filter=~gone))
    sums: dict[uuid.UUID, Any] = {}
    context: dict[str, Any] = {
        "place": here,
        "organization": here.organization,
        "projects": rows,
        "members": organization_members(actor=here.actor, organization=here.organization),
        "may_manage": Permission.ORGANIZATION_MANAGE in here.may,
        "project_form": ProjectForm(),
        "member_form": OrganizationMemberForm(auto_id="member_%s"),
        "month": money.month_shown(month_of(now), now=now),
        "crumbs": (Crumb(here.organization.name),),
        **forms,
    }
    if Permission.BILLING_VIEW in here.may:
        with money.Unpriced():
            sheet = statement(actor=here.actor, organization=here.organization, now=now)
            for group in sheet.lines:
                sums[group.project_id] = sums.get(group.project_id, 0) + (group.amount or 0)
            context |= {"statement": sheet}
    context["rows"] = [{"project": row, "month": sums.get(row.pk, 0)} for row in rows]
    return render(request, "projects/organization.html", context, status=status)


@require_POST
@login_required
def project_new(request: HttpRequest, organization: str) -> HttpResponse:
    here = organization_place(request, organization)
    form = ProjectForm(request.POST)
    if form.is_valid():
        try:
            row = project_create(actor=here.actor, organization=here.organization, **form.cleaned_data)
        except Invalid as error:
            refuse(form, error)
        else:
            messages.success(
                request, f"{row.slug} is made. It may hold nothing until an operator gives it limits."
            )
            return redirect(reverse("frontend:home", args=[row.slug]))
    return draw(request, here, status=422, project_form=form, opened="new-project")


@require_POST
@login_required
def member_set(request: HttpRequest, organization: str) -> HttpResponse:
    here = organization_place(request, organization)
    form = OrganizationMemberForm(request.POST, auto_id="member_%s")
    if form.is_valid():
        try:
            user = user_find(actor=here.actor, text=form.cleaned_data["user"])
            role = form.cleaned_data["role"]
            organization_member_set(actor=here.actor, organization=here.organization, user=user, role=role)
        except (Invalid, NotFound) as error:
            refuse(form, error, default="user")
        else:
            label = OrganizationRole(role).label.lower()
            messages.success(request, f"{user.username} is now {label} of {here.organization.name}.")
            return redirect(reverse("frontend:projects", args=[organization]))
    return draw(request, here, status=422, member_form=form, opened="add-member")


@require_POST
@login_required
def member_remove(request: HttpRequest, organization: str, user: uuid.UUID) -> HttpResponse:
    here = organization_place(request, organization)
    person = User.objects.filter(pk=user).first()
    if person is None:
        raise NotFound("there is no such member")
    organization_member_remove(actor=here.actor, organization=here.organization, user=person)
    messages.success(request, f"{person.username} has no role in {here.organization.name} any more.")
    return redirect(reverse("frontend:projects", args=[organization]))


@login_required
def organization_statement(request: HttpRequest, organization: str, month: str) -> HttpResponse:
    here = organization_place(request, organization, Permission.BILLING_VIEW)
    now = clock.now()
    sheet = statement(actor=here.actor, organization=here.organization, month=month_parse(month), now=now)
    home = reverse("frontend:projects", args=[organization])
    context = {
        "place": {"project": None},
        "organization": here.organization,
        "crumbs": (Crumb(here.organization.name, home), Crumb("Statements"), Crumb(f"{sheet.month:%B %Y}")),
        **statement_context(sheet, now, here, "frontend:organization_statement", organization),
    }
    return render(request, "billing/statement.html", context)


@login_required
def statements(request: HttpRequest, organization: str) -> HttpResponse:
    """The running month: where the menu leads."""
    organization_place(request, organization, Permission.BILLING_VIEW)
    month = f"{month_of(clock.now()):%Y-%m}"
    return redirect(reverse("frontend:organization_statement", args=[organization, month]))
