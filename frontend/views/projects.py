"""A project's limits, members and audit log; the organization above it."""

import uuid
from typing import Any

from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from frontend import toasts
from frontend.forms.projects import MemberForm
from frontend.frame import done, draw_page, posted, refusals_on
from frontend.lists import paged, query_of
from frontend.place import ProjectPlace, project_action, project_page
from frontend.presenters import limits as limits_shown
from frontend.presenters.events import audit_words
from frontend.views.usage import crumbs
from gpuaas.core.errors import Invalid, NotFound
from gpuaas.core.rows import first_of
from tenants.roles import Permission, ProjectRole
from tenants.selectors import audit_for, project_members, project_person_get, user_find
from tenants.services import project_member_remove, project_member_set


@project_page(Permission.PROJECT_VIEW)
def limits(request: HttpRequest, here: ProjectPlace) -> HttpResponse:
    gpus, _ = limits_shown.gpus_allocated(**here.given)
    allocated = {**gpus, **limits_shown.shared_allocated(project=here.project)}
    context = {
        "rows": limits_shown.limit_rows(project=here.project, allocated=allocated),
        "crumbs": crumbs(here, "Limits"),
    }
    return render(request, "projects/limits.html", context)


@project_page(Permission.PROJECT_VIEW)
def members(request: HttpRequest, here: ProjectPlace) -> HttpResponse:
    form = MemberForm(posted(request))
    if form.is_valid():
        with refusals_on(form, Invalid, NotFound, default="user"):
            user = user_find(actor=here.actor, text=form.cleaned_data["user"])
            role = form.cleaned_data["role"]
            project_member_set(**here.given, user=user, role=role)
            text = f"{user.username} is now {ProjectRole(role).label.lower()} of {here.project.slug}."
            return done(request, text, "frontend:members", here.project.slug)
    people = project_members(**here.given)
    context = {
        "form": form,
        "roles": ProjectRole.choices,
        "page": paged(request, people),
        "may_manage": here.can(Permission.PROJECT_MANAGE),
        "crumbs": crumbs(here, "Members"),
    }
    return draw_page(request, "projects/members.html", context)


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
        answer = toasts.answer(tone="ok", title=text, undo=undo)
        answer["HX-Trigger-After-Settle"] = '{"members": {}}'
        return answer
    return done(request, text, "frontend:members", here.project.slug)


@project_page(Permission.AUDIT_VIEW)
def audit(request: HttpRequest, here: ProjectPlace) -> HttpResponse:
    query = query_of(request, "q")["q"]
    found = audit_for(actor=here.actor, project_id=here.project.pk)
    if query:
        found = found.filter(Q(actor=query) | Q(target_name__icontains=query) | Q(action__icontains=query))
    page = paged(request, found)
    context: dict[str, Any] = {
        "query": query,
        "page": page,
        "rows": [{"entry": entry, "text": audit_words(entry, here.zone)} for entry in page],
        "crumbs": crumbs(here, "Audit log"),
    }
    return render(request, "projects/audit.html", context)
