"""Organizations, their projects and owners, and the people of the whole portal."""

import secrets
import uuid

from django.contrib import messages
from django.db.models import Count, Prefetch, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from frontend.forms import refuse
from frontend.forms.operator import OrganizationForm, OwnerForm, PersonForm, ProjectForm
from frontend.views.operator.common import OperatorPlace, crumbs, operator_action, operator_page, paged
from gpuaas.core.errors import Conflict, GpuaasError, Invalid, NotFound
from gpuaas.workspaces.states import WorkspaceState
from tenants.models import Organization, OrganizationMembership, Project, User
from tenants.roles import PlatformRole
from tenants.selectors import (
    organization_get_for,
    organization_members,
    organizations_for,
    projects_for,
    user_find,
    users_for,
)
from tenants.services import (
    organization_create,
    organization_member_remove,
    organization_member_set,
    project_create,
    user_activate,
    user_create,
    user_deactivate,
    user_platform_role_set,
)


@operator_page
def organizations(request: HttpRequest, here: OperatorPlace) -> HttpResponse:
    form = OrganizationForm(request.POST or None, auto_id="new_%s")
    status = 200
    if request.method == "POST":
        status = 422
        if form.is_valid() and (made := _organization_made(here, form)):
            messages.success(
                request, f"{made.name} is made. Give it limits before its projects can hold anything."
            )
            return redirect("frontend:operator_organization", made.slug)
    owners = OrganizationMembership.objects.filter(role="owner").select_related("user")
    found = organizations_for(actor=here.actor).prefetch_related(
        Prefetch("projects", queryset=Project.objects.order_by("slug")),
        Prefetch("memberships", queryset=owners, to_attr="owners"),
    )
    context = {
        "place": here,
        "page": paged(request, found),
        "form": form,
        "crumbs": crumbs("Tenants", ("Organizations", "")),
    }
    return render(request, "operator/organizations.html", context, status=status)


def _organization_made(here: OperatorPlace, form: OrganizationForm) -> Organization | None:
    found = form.cleaned_data
    try:
        owner = user_find(actor=here.actor, text=found["owner"]) if found["owner"] else None
        return organization_create(actor=here.actor, slug=found["slug"], name=found["name"], owner=owner)
    except (Invalid, NotFound) as error:
        refuse(form, error, default="owner")
        return None


@operator_page
def organization(request: HttpRequest, here: OperatorPlace, slug: str) -> HttpResponse:
    row = organization_get_for(actor=here.actor, slug=slug)
    return _organization(request, here, row)


def _organization(
    request: HttpRequest,
    here: OperatorPlace,
    row: Organization,
    *,
    project_form: ProjectForm | None = None,
    member_form: OwnerForm | None = None,
    status: int = 200,
) -> HttpResponse:
    live = ~Q(workspaces__state=WorkspaceState.DELETED)
    projects = projects_for(actor=here.actor).filter(organization=row)
    context = {
        "place": here,
        "organization": row,
        "projects": projects.annotate(
            running=Count("workspaces", filter=live, distinct=True),
            people=Count("memberships", distinct=True),
        ),
        "members": organization_members(actor=here.actor, organization=row),
        "project_form": project_form or ProjectForm(auto_id="project_%s"),
        "member_form": member_form or OwnerForm(auto_id="member_%s"),
        "crumbs": crumbs("Tenants", ("Organizations", "operator_organizations"), (row.name, "")),
    }
    return render(request, "operator/organization.html", context, status=status)


@operator_action
def project_new(request: HttpRequest, here: OperatorPlace, slug: str) -> HttpResponse:
    row = organization_get_for(actor=here.actor, slug=slug)
    form = ProjectForm(request.POST, auto_id="project_%s")
    if form.is_valid():
        try:
            made = project_create(actor=here.actor, organization=row, **form.cleaned_data)
        except Invalid as error:
            refuse(form, error)
        else:
            messages.success(request, f"{made.slug} is made. It may hold nothing until it has limits.")
            return redirect("frontend:operator_organization", slug)
    return _organization(request, here, row, project_form=form, status=422)


@operator_action
def member_set(request: HttpRequest, here: OperatorPlace, slug: str) -> HttpResponse:
    row = organization_get_for(actor=here.actor, slug=slug)
    form = OwnerForm(request.POST, auto_id="member_%s")
    if form.is_valid():
        try:
            user = user_find(actor=here.actor, text=form.cleaned_data["user"])
            role = form.cleaned_data["role"]
            organization_member_set(actor=here.actor, organization=row, user=user, role=role)
        except GpuaasError as error:
            refuse(form, error, default="user")
        else:
            messages.success(request, f"{user.username} is {role} of {row.name}.")
            return redirect("frontend:operator_organization", slug)
    return _organization(request, here, row, member_form=form, status=422)


@operator_action
def member_remove(request: HttpRequest, here: OperatorPlace, slug: str, user: uuid.UUID) -> HttpResponse:
    row = organization_get_for(actor=here.actor, slug=slug)
    try:
        organization_member_remove(actor=here.actor, organization=row, user=_person(here, user))
    except Conflict as error:
        messages.error(request, f"{error.message[:1].upper()}{error.message[1:]}.")
    else:
        messages.success(request, "The role is taken away.")
    return redirect("frontend:operator_organization", slug)


@operator_page
def people(request: HttpRequest, here: OperatorPlace) -> HttpResponse:
    """A new account's password is shown on the next page, once: it is kept nowhere but in their hash."""
    form = PersonForm(request.POST or None, auto_id="person_%s")
    status = 200
    if request.method == "POST":
        status = 422
        if form.is_valid() and (made := _person_made(here, form)):
            context = {
                "place": here,
                "person": made[0],
                "password": made[1],
                "crumbs": crumbs("Tenants", ("People", "operator_people"), (made[0].username, "")),
            }
            response = render(request, "operator/person_made.html", context, status=201)
            response["Cache-Control"] = "no-store"
            return response
    query = request.GET.get("q", "").strip()[:80]
    rows = users_for(actor=here.actor).prefetch_related(
        "organization_memberships__organization", "project_memberships__project"
    )
    if query:
        rows = rows.filter(Q(username__icontains=query) | Q(email__icontains=query))
    context = {
        "place": here,
        "page": paged(request, rows),
        "query": query,
        "form": form,
        "roles": PlatformRole.choices,
        "crumbs": crumbs("Tenants", ("People", "")),
    }
    return render(request, "operator/people.html", context, status=status)


def _person_made(here: OperatorPlace, form: PersonForm) -> tuple[User, str] | None:
    password = secrets.token_urlsafe(15)
    try:
        return user_create(actor=here.actor, **form.cleaned_data, password=password), password
    except Invalid as error:
        refuse(form, error)
        return None


@operator_action
def person_role(request: HttpRequest, here: OperatorPlace, user: uuid.UUID) -> HttpResponse:
    row = _person(here, user)
    try:
        user_platform_role_set(
            actor=here.actor, user=row, platform_role=request.POST.get("platform_role", "?")
        )
    except (Conflict, Invalid) as error:
        messages.error(request, f"{error.message[:1].upper()}{error.message[1:]}.")
    else:
        messages.success(
            request, f"{row.username}: {row.get_platform_role_display().lower()} on the platform."
        )
    return redirect("frontend:operator_people")


@operator_action
def person_switch(request: HttpRequest, here: OperatorPlace, user: uuid.UUID) -> HttpResponse:
    row = _person(here, user)
    active = request.POST.get("active") == "1"
    try:
        (user_activate if active else user_deactivate)(actor=here.actor, user=row)
    except Conflict as error:
        messages.error(request, f"{error.message[:1].upper()}{error.message[1:]}.")
    else:
        messages.success(
            request, f"{row.username} {'may sign in again' if active else 'is signed out and stays out'}."
        )
    return redirect("frontend:operator_people")


def _person(here: OperatorPlace, user: uuid.UUID) -> User:
    row = users_for(actor=here.actor).filter(pk=user).first()
    if row is None:
        raise NotFound("there is no such account")
    return row
