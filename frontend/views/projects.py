"""A project's limits, members and audit log; the organization above it."""

import uuid

from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.urls import reverse

from frontend import toasts
from frontend.forms.projects import MemberForm
from frontend.frame import checked, done, posted, refusals_on
from frontend.lists import Column, Listing, Query, find, list_page, saying
from frontend.place import ProjectPlace, project_action, project_page
from frontend.presenters import limits as limits_shown
from frontend.presenters.events import audit_words
from frontend.views.usage import crumbs
from gpuaas.core.errors import Invalid, NotFound
from gpuaas.core.rows import first_of
from tenants.models import AuditEntry, User
from tenants.roles import Permission, ProjectRole
from tenants.selectors import audit_for, project_members, project_person_get, user_find
from tenants.services import project_member_remove, project_member_set

PEOPLE = Listing(
    "people",
    columns=(
        Column("username", "Person", "username"),
        Column("email"),
        Column("project_role", "Role here", "project_role"),
        Column("organization_role", "Role in the organization", "organization_role"),
        Column("actions", "Actions", value=None, quiet=True),
    ),
    filters=(find(),),
)
AUDIT = Listing(
    "entries",
    columns=(
        Column("at", "When", "at", "entry.at"),
        Column("actor", "Who", "actor", "entry.actor"),
        Column("target", "Target", "target_name", "entry.target_name"),
        Column("action", "Action", "action", "text"),
        Column("ip", "From", "ip", "entry.ip"),
        Column("token", value="entry.token_prefix"),
    ),
    filters=(find("Person, target or action", "Person, target or action"),),
)


LIMITS = Listing(
    "limits",
    columns=(
        Column("resource", "Resource", "name", "name"),
        Column("project", "Project", value=None),
        Column("held_of_project", "Held of limit", "line__used", "meter.words", numeric=True),
        Column("organization", "Organization", value=None),
        Column("held_of_organization", "Held of limit", value="organization.words", numeric=True),
        Column("left", "Still available", numeric=True),
    ),
    filters=(find("Find a resource", "Resource"),),
)


@project_page(Permission.PROJECT_VIEW)
def limits(request: HttpRequest, here: ProjectPlace) -> HttpResponseBase:
    gpus, _ = limits_shown.gpus_allocated(**here.given)
    allocated = {**gpus, **limits_shown.shared_allocated(project=here.project)}
    rows = limits_shown.limit_rows(project=here.project, allocated=allocated)
    shown = LIMITS.of(
        request,
        lambda query: saying(rows, query["q"], lambda row: row.name),
        labels={"project": here.project.name, "organization": here.project.organization.name},
    )
    return list_page(request, "projects/limits.html", shown, {"crumbs": crumbs(here, "Limits")})


@project_page(Permission.PROJECT_VIEW)
@checked
def members(request: HttpRequest, here: ProjectPlace) -> HttpResponseBase:
    form = MemberForm(posted(request))
    if form.is_valid():
        with refusals_on(form, Invalid, NotFound, default="user"):
            user = user_find(actor=here.actor, text=form.cleaned_data["user"])
            role = form.cleaned_data["role"]
            project_member_set(**here.given, user=user, role=role)
            text = f"{user.username} is now {ProjectRole(role).label.lower()} of {here.project.slug}."
            return done(request, text, "frontend:members", here.project.slug)
    may_manage = here.can(Permission.PROJECT_MANAGE)
    shown = PEOPLE.of(
        request,
        lambda query: people_found(project_members(**here.given), query["q"], emails=may_manage),
        without=() if may_manage else {"email", "actions"},
    )
    context = {
        "form": form,
        "roles": ProjectRole.choices,
        "may_manage": may_manage,
        "crumbs": crumbs(here, "Members"),
    }
    return list_page(request, "projects/members.html", shown, context)


def people_found(rows: QuerySet[User], text: str, *, emails: bool) -> QuerySet[User]:
    """By name, and by e-mail address where the reader may see them."""
    address = Q(email__icontains=text) if emails else Q()
    return rows.filter(Q(username__icontains=text) | address) if text else rows


@project_action(Permission.PROJECT_MANAGE)
def member_role(request: HttpRequest, here: ProjectPlace, user: uuid.UUID) -> HttpResponse:
    """Also the way back from a removal: the undo of its toast posts the role that was lost."""
    person = project_person_get(**here.given, user_id=user)
    role = request.POST.get("role") or request.GET.get("role", "")
    project_member_set(**here.given, user=person, role=role)
    return changed(request, here, f"{person.username} is now {ProjectRole(role).label.lower()}.")


@project_action(Permission.PROJECT_VIEW)
def member_remove(request: HttpRequest, here: ProjectPlace, user: uuid.UUID) -> HttpResponse:
    members = project_members(**here.given)
    person = first_of(members.filter(pk=user), "member")
    role = str(getattr(person, "project_role", ""))
    project_member_remove(**here.given, user=person)
    text = f"{person.username} is no longer a member."
    if here.actor.owns(person.pk):
        return done(request, f"You left {here.project.slug}.", "frontend:root")
    undo = f"{reverse('frontend:member_role', args=[here.project.slug, user])}?role={role}"
    return changed(request, here, text, undo=undo)


def changed(request: HttpRequest, here: ProjectPlace, text: str, *, undo: str = "") -> HttpResponse:
    """htmx: a toast with its undo, and the table fetches itself; else the page with a message."""
    if request.headers.get("HX-Request"):
        return toasts.answer(tone="ok", title=text, undo=undo, also="members")
    return done(request, text, "frontend:members", here.project.slug)


@project_page(Permission.AUDIT_VIEW)
def audit(request: HttpRequest, here: ProjectPlace) -> HttpResponseBase:
    def found(query: Query) -> QuerySet[AuditEntry]:
        rows, text = audit_for(actor=here.actor, project_id=here.project.pk), query["q"]
        named = Q(actor=text) | Q(target_name__icontains=text) | Q(action__icontains=text)
        return rows.filter(named) if text else rows

    shown = AUDIT.of(
        request,
        found,
        lambda rows: [{"entry": entry, "text": audit_words(entry, here.zone)} for entry in rows],
    )
    return list_page(request, "projects/audit.html", shown, {"crumbs": crumbs(here, "Audit log")})
