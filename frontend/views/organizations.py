"""An organization: its projects, its members and its statement."""

import uuid
from typing import Any

from django.db.models import Count, Q
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse

from billing.months import month_of
from billing.selectors import statement
from frontend.forms.projects import OrganizationMemberForm, ProjectForm
from frontend.frame import checked, done, refusals_on, sent, undo_by
from frontend.lists import Column, Listing, find, list_page, named
from frontend.months import month_named
from frontend.nav import Crumb
from frontend.place import OrganizationPlace, organization_action, organization_page
from frontend.presenters import money
from frontend.views.usage import statement_context
from gpuaas.core.errors import Conflict, Invalid, NotFound
from gpuaas.core.rows import first_of
from gpuaas.workspaces.states import WorkspaceState
from tenants.roles import OrganizationRole, Permission
from tenants.selectors import organization_members, projects_for, user_find
from tenants.services import organization_member_remove, organization_member_set, project_create

PROJECTS = Listing(
    "projects",
    columns=(
        Column("slug", "Project", "slug", "project.slug"),
        Column("name", value="project.name"),
        Column("workspaces", "Workspaces", "running", "project.running", numeric=True),
        Column("month", "So far", numeric=True),
    ),
    filters=(find(),),
)
PEOPLE = Listing(
    "people",
    columns=(
        Column("username", "Person", "user__username", "user.username"),
        Column("role", "Role", "role"),
        Column("actions", "Actions", value=None, quiet=True),
    ),
    filters=(find(),),
    mark="people-",
)


def draw(request: HttpRequest, here: OrganizationPlace, **forms: Any) -> HttpResponseBase:
    gone = Q(workspaces__state=WorkspaceState.DELETED)
    projects = projects_for(actor=here.actor).filter(organization=here.organization).order_by("slug")
    rows = projects.annotate(running=Count("workspaces", filter=~gone))
    sums: dict[uuid.UUID, Any] = {}
    may_manage = Permission.ORGANIZATION_MANAGE in here.may
    readable = ("user__username", "user__email") if may_manage else ("user__username",)
    month = money.month_shown(month_of(here.now), now=here.now)
    people = PEOPLE.of(
        request,
        lambda query: named(organization_members(**here.given), query["q"], *readable),
        without=() if may_manage else {"actions"},
    )
    context: dict[str, Any] = {
        "organization": here.organization,
        "people": people,
        "may_manage": may_manage,
        "project_form": ProjectForm(),
        "member_form": OrganizationMemberForm(auto_id="member_%s"),
        "month": month,
        "crumbs": (Crumb(here.organization.name),),
        **forms,
    }
    if Permission.BILLING_VIEW in here.may:
        with money.Unpriced():
            sheet = statement(**here.given, now=here.now)
            for group in sheet.lines:
                sums[group.project_id] = sums.get(group.project_id, 0) + (group.amount or 0)
            context |= {"statement": sheet}
    shown = PROJECTS.of(
        request,
        lambda query: named(rows, query["q"], "slug", "name"),
        lambda found: [{"project": row, "month": sums.get(row.pk, 0)} for row in found],
        without=() if "statement" in context else {"month"},
        labels={"month": f"{month.name} so far"},
    )
    return list_page(request, "projects/organization.html", shown, context, people)


show = organization_page()(draw)


@organization_action()
@checked
def project_new(request: HttpRequest, here: OrganizationPlace) -> HttpResponseBase:
    form = ProjectForm(request.POST)
    if form.is_valid():
        with refusals_on(form, Invalid):
            row = project_create(**here.given, **form.cleaned_data)
            text = f"Project {row.slug} created. It can hold nothing until an operator sets its limits."
            return done(request, text, "frontend:home", row.slug)
    return draw(request, here, project_form=form, opened="new-project")


@organization_action()
@checked
def member_set(request: HttpRequest, here: OrganizationPlace) -> HttpResponseBase:
    form = OrganizationMemberForm(sent(request), auto_id="member_%s")
    if form.is_valid():
        with refusals_on(form, Invalid, NotFound, Conflict, default="user"):
            user = user_find(actor=here.actor, text=form.cleaned_data["user"])
            role = form.cleaned_data["role"]
            organization_member_set(**here.given, user=user, role=role)
            label = OrganizationRole(role).label.lower()
            text = f"{user.username} is now {label} of {here.organization.name}."
            return done(request, text, "frontend:projects", here.organization.slug)
    return draw(request, here, member_form=form, opened="add-member")


@organization_action()
def member_remove(request: HttpRequest, here: OrganizationPlace, user: uuid.UUID) -> HttpResponse:
    rows = organization_members(**here.given)
    member, slug = first_of(rows.filter(user=user), "member"), here.organization.slug
    person = member.user
    organization_member_remove(**here.given, user=person)
    if here.actor.owns(person.pk):  # who may have lost this page with it
        return done(request, f"You left {here.organization.name}.", "frontend:root")
    text = f"{person.username} no longer has a role in {here.organization.name}."
    back = undo_by("frontend:organization_member_set", slug, user=person.username, role=member.role)
    return done(request, text, "frontend:projects", slug, undo=back)


@organization_page(Permission.BILLING_VIEW)
def organization_statement(request: HttpRequest, here: OrganizationPlace, month: str) -> HttpResponse:
    sheet = statement(**here.given, month=month_named(month), now=here.now)
    slug = here.organization.slug
    home = reverse("frontend:projects", args=[slug])
    context = {
        "place": {"project": None},
        "organization": here.organization,
        "crumbs": (Crumb(here.organization.name, home), Crumb("Statements"), Crumb(f"{sheet.month:%B %Y}")),
        **statement_context(sheet, here.now, here, "frontend:organization_statement", slug),
    }
    return render(request, "billing/statement.html", context)


@organization_page(Permission.BILLING_VIEW)
def statements(request: HttpRequest, here: OrganizationPlace) -> HttpResponse:
    """The running month: where the menu leads."""
    month = f"{month_of(here.now):%Y-%m}"
    return redirect("frontend:organization_statement", here.organization.slug, month)
