"""Organizations, their projects and owners, and the people of the whole portal."""

import secrets
import uuid
from collections.abc import Iterator
from typing import Any

from django.contrib import messages
from django.db.models import Count, Prefetch, Q
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render

from frontend.forms.operator import OrganizationForm, OwnerForm, PersonForm, ProjectForm
from frontend.frame import checked, done, fits, is_check, posted, refusals_on, refusals_shown, sent, undo_by
from frontend.lists import Column, Listing, find, list_page, named
from frontend.views.operator.common import (
    OperatorPlace,
    crumbs,
    operator_page,
    organization_action,
    organization_page,
    row_doors,
)
from gpuaas.core.errors import Conflict, GpuaasError, Invalid, NotFound
from gpuaas.core.rows import first_of
from gpuaas.workspaces.states import WorkspaceState
from tenants import selectors, services
from tenants.models import Organization, OrganizationMembership, Project, Tries, User
from tenants.roles import PlatformRole

LIST = Listing(
    "organizations",
    columns=(
        Column("name", "Organization", "name"),
        Column("slug"),
        Column("projects", "Projects", value=lambda row: " ".join(each.slug for each in row.projects.all())),
        Column("owners", "Owners", value=lambda row: " ".join(each.user.username for each in row.owners)),
        Column("created_at", "Since", "created_at"),
    ),
    filters=(find(),),
)
PROJECTS = Listing(
    "projects",
    columns=(
        Column("slug", "Project", "slug"),
        Column("name"),
        Column("workspaces", "Workspaces", "running", "running", numeric=True),
        Column("members", "Members", "people", "people", numeric=True),
    ),
    filters=(find(),),
)
MEMBERS = Listing(
    "people",
    columns=(
        Column("username", "Person", "user__username", "user.username"),
        Column("email", value="user.email"),
        Column("role", "Role", "role"),
        Column("change", "Change", value=None, quiet=True),
    ),
    filters=(find(),),
    mark="people-",
)
PEOPLE = Listing(
    "people",
    columns=(
        Column("username", "Person", "username"),
        Column("email", value="email"),
        Column("belongs_to", "Belongs to", value=lambda row: "; ".join(_belongs(row))),
        Column("platform_role", "Platform role", "platform_role"),
        Column("active", "Account", "is_active", "is_active"),
    ),
    filters=(find("Find a name or address", "Name or e-mail address"),),
)


def _belongs(row: User) -> Iterator[str]:
    for one in row.organization_memberships.all():
        yield f"{one.organization.slug} {one.role}"
    for each in row.project_memberships.all():
        yield f"{each.project.slug} {each.role}"


@operator_page
@checked
def organizations(request: HttpRequest, here: OperatorPlace) -> HttpResponseBase:
    form = OrganizationForm(posted(request), auto_id="new_%s")
    if form.is_valid():
        asked = form.cleaned_data
        with refusals_on(form, Invalid, NotFound, default="owner"):
            owner = selectors.user_find(actor=here.actor, text=asked["owner"]) if asked["owner"] else None
            made = services.organization_create(
                actor=here.actor, slug=asked["slug"], name=asked["name"], owner=owner
            )
            text = f"{made.name} created. Set its limits before its projects can hold anything."
            return done(request, text, "frontend:operator_organization", made.slug)
    owners = OrganizationMembership.objects.filter(role="owner").select_related("user")
    found = selectors.organizations_for(actor=here.actor).prefetch_related(
        Prefetch("projects", queryset=Project.objects.order_by("slug")),
        Prefetch("memberships", queryset=owners, to_attr="owners"),
    )
    shown = LIST.of(request, lambda query: named(found, query["q"], "name", "slug"))
    context = {"form": form, "crumbs": crumbs("Tenants", ("Organizations", ""))}
    return list_page(request, "operator/organizations.html", shown, context)


def _organization(
    request: HttpRequest, here: OperatorPlace, row: Organization, **forms: Any
) -> HttpResponseBase:
    live = ~Q(workspaces__state=WorkspaceState.DELETED)
    projects = selectors.projects_for(actor=here.actor).filter(organization=row).order_by("slug")
    counted = projects.annotate(
        running=Count("workspaces", filter=live, distinct=True), people=Count("memberships", distinct=True)
    )
    members = selectors.organization_members(actor=here.actor, organization=row)
    shown = PROJECTS.of(request, lambda query: named(counted, query["q"], "name", "slug"))
    people = MEMBERS.of(
        request,
        lambda query: named(members, query["q"], "user__username", "user__email"),
        without=() if here.may_manage else {"change"},
    )
    context = {
        "organization": row,
        "people": people,
        "project_form": ProjectForm(auto_id="project_%s"),
        "member_form": OwnerForm(auto_id="member_%s"),
        "crumbs": crumbs("Tenants", ("Organizations", "operator_organizations"), (row.name, "")),
        **forms,
    }
    return list_page(request, "operator/organization.html", shown, context, people)


organization = organization_page(_organization)


@organization_action
@checked
def project_new(request: HttpRequest, here: OperatorPlace, row: Organization) -> HttpResponseBase:
    form = ProjectForm(request.POST, auto_id="project_%s")
    if form.is_valid():
        with refusals_on(form, Invalid):
            made = services.project_create(actor=here.actor, organization=row, **form.cleaned_data)
            text = f"Project {made.slug} created. It can hold nothing until it has limits."
            return done(request, text, "frontend:operator_organization", row.slug)
    return _organization(request, here, row, project_form=form)


@organization_action
@checked
def member_set(request: HttpRequest, here: OperatorPlace, row: Organization) -> HttpResponseBase:
    form = OwnerForm(sent(request), auto_id="member_%s")
    if form.is_valid():
        with refusals_on(form, GpuaasError, default="user"):
            user = selectors.user_find(actor=here.actor, text=form.cleaned_data["user"])
            role = form.cleaned_data["role"]
            services.organization_member_set(actor=here.actor, organization=row, user=user, role=role)
            text = f"{user.username} is {role} of {row.name}."
            return done(request, text, "frontend:operator_organization", row.slug)
    return _organization(request, here, row, member_form=form)


@organization_action
def member_remove(
    request: HttpRequest, here: OperatorPlace, row: Organization, user: uuid.UUID
) -> HttpResponse:
    given: dict[str, Any] = {"actor": here.actor, "organization": row}
    member = first_of(selectors.organization_members(**given).filter(user=user), "member")
    name, role = member.user.username, member.role
    with refusals_shown(request, Conflict):
        services.organization_member_remove(**given, user=member.user)
        back = undo_by("frontend:operator_member_set", row.slug, user=name, role=role)
        text = f"{name} no longer has a role in {row.name}."
        return done(request, text, "frontend:operator_organization", row.slug, undo=back)
    return redirect("frontend:operator_organization", row.slug)


WAITING = Listing(
    "waits",
    columns=(
        Column("who", "Who", "user__username", lambda row: row.user.username if row.user else ""),
        Column("network", "From", "network"),
        Column("failures", "Wrong", "failures", numeric=True),
        Column("until", "Next try", "until"),
        Column("lift", "End the wait", value=None, quiet=True),
    ),
    mark="wait-",
)


@operator_page
@checked
def people(request: HttpRequest, here: OperatorPlace) -> HttpResponseBase:
    """A new account's password is shown on the next page, once: it is kept nowhere but in their hash."""
    form = PersonForm(posted(request), auto_id="person_%s")
    if form.is_valid():
        asked = dict(form.cleaned_data)
        # the hash of a password takes a while, and a check would make one at every pause of typing
        without = asked.pop("without_password") or is_check(request)
        password = None if without else secrets.token_urlsafe(15)
        with refusals_on(form, Invalid):
            made = services.user_create(actor=here.actor, **asked, password=password)
            fits(request)
            return _person_made(request, made, password)
    rows = selectors.users_for(actor=here.actor).prefetch_related(
        "organization_memberships__organization", "project_memberships__project"
    )
    shown = PEOPLE.of(request, lambda query: named(rows, query["q"], "username", "email"))
    waiting = WAITING.of(
        request,
        selectors.tries_for(actor=here.actor).filter(until__gt=here.now),
        without=() if here.may_manage else {"lift"},
    )
    context = {
        "form": form,
        "roles": PlatformRole.choices,
        "waiting": waiting,
        "crumbs": crumbs("Tenants", ("People", "")),
    }
    return list_page(request, "operator/people.html", shown, context, waiting)


def _person_made(request: HttpRequest, person: User, password: str | None) -> HttpResponse:
    trail = crumbs("Tenants", ("People", "operator_people"), (person.username, ""))
    context = {"person": person, "password": password, "crumbs": trail}
    response = render(request, "operator/person_made.html", context, status=201)
    response["Cache-Control"] = "no-store"
    return response


def _person(here: OperatorPlace, user: uuid.UUID) -> User:
    return first_of(selectors.users_for(actor=here.actor).filter(pk=user), "account")


person_page, person_action = row_doors(_person, "user")


@person_action
def person_role(request: HttpRequest, here: OperatorPlace, row: User) -> HttpResponse:
    with refusals_shown(request, Conflict, Invalid):
        services.user_platform_role_set(
            actor=here.actor, user=row, platform_role=request.POST.get("platform_role", "?")
        )
        messages.success(
            request, f"{row.username}: {row.get_platform_role_display().lower()} on the platform."
        )
    return redirect("frontend:operator_people")


@person_action
def person_switch(request: HttpRequest, here: OperatorPlace, row: User) -> HttpResponse:
    active = sent(request).get("active") == "1"
    back = undo_by("frontend:operator_person_switch", row.pk, active=int(row.is_active))
    with refusals_shown(request, Conflict):
        (services.user_activate if active else services.user_deactivate)(actor=here.actor, user=row)
        outcome = "can sign in again" if active else "is signed out and can no longer sign in"
        return done(request, f"{row.username} {outcome}.", "frontend:operator_people", undo=back)
    return redirect("frontend:operator_people")


def _tries(here: OperatorPlace, tries: uuid.UUID) -> Tries:
    return first_of(selectors.tries_for(actor=here.actor).filter(pk=tries), "wait")


tries_action = row_doors(_tries, "tries")[1]


@tries_action
def tries_end(request: HttpRequest, here: OperatorPlace, row: Tries) -> HttpResponse:
    services.tries_lift(actor=here.actor, tries=row)
    return done(request, f"{row.user or row.network} can try again.", "frontend:operator_people")
