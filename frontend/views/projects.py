"""A project's limits, members and audit log; the organization above it."""

import uuid
from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from frontend import toasts
from frontend.forms import refuse
from frontend.forms.projects import MemberForm
from frontend.place import ProjectPlace, project_page
from frontend.presenters import limits as limits_shown
from frontend.presenters.events import audit_words
from frontend.views.usage import crumbs
from gpuaas.core.errors import Invalid, NotFound
from tenants.models import User
from tenants.roles import Permission, ProjectRole
from tenants.selectors import audit_for, project_members, user_find
from tenants.services import project_member_remove, project_member_set

ROWS = 50


@project_page(Permission.PROJECT_VIEW)
def limits(request: HttpRequest, here: ProjectPlace) -> HttpResponse:
    gpus = limits_shown.gpus_in_use(actor=here.actor, project=here.project)
    in_use = {**gpus, **limits_shown.shared_in_use(project=here.project)}
    context = {
        "place": here,
        "rows": limits_shown.limit_rows(project=here.project, in_use=in_use),
        "crumbs": crumbs(here, "Limits"),
    }
    return render(request, "projects/limits.html", context)


@project_page(Permission.PROJECT_VIEW)
def members(request: HttpRequest, here: ProjectPlace) -> HttpResponse:
    if request.method != "POST":
        return draw_members(request, here, MemberForm())
    form = MemberForm(request.POST)
    if form.is_valid():
        try:
            user = user_find(actor=here.actor, text=form.cleaned_data["user"])
            role = form.cleaned_data["role"]
            project_member_set(actor=here.actor, project=here.project, user=user, role=role)
        except (Invalid, NotFound) as error:
            refuse(form, error, default="user")
        else:
            messages.success(
                request, f"{user.username} is now {ProjectRole(role).label.lower()} of {here.project.slug}."
            )
            return redirect(reverse("frontend:members", args=[here.project.slug]))
    return draw_members(request, here, form, status=422)


def draw_members(
    request: HttpRequest, here: ProjectPlace, form: MemberForm, *, status: int = 200
) -> HttpResponse:
    people = project_members(actor=here.actor, project=here.project)
    context = {
        "place": here,
        "form": form,
        "roles": ProjectRole.choices,
        "page": Paginator(people, ROWS).get_page(request.GET.get("page")),
        "may_manage": here.can(Permission.PROJECT_MANAGE),
        "crumbs": crumbs(here, "Members"),
    }
    return render(request, "projects/members.html", context, status=status)


def member_of(here: ProjectPlace, user: uuid.UUID) -> User:
    found = project_members(actor=here.actor, project=here.project).filter(pk=user).first()
    if found is None:
        raise NotFound("there is no such member")
    return found


@require_POST
@project_page(Permission.PROJECT_MANAGE)
def member_role(request: HttpRequest, here: ProjectPlace, user: uuid.UUID) -> HttpResponse:
    """Also the way back from a removal: the undo of its toast posts the role that was lost."""
    person = User.objects.filter(pk=user).first()
    if person is None:
        raise NotFound("there is no such member")
    role = request.POST.get("role") or request.GET.get("role", "")
    project_member_set(actor=here.actor, project=here.project, user=person, role=role)
    return changed(request, here, f"{person.username} is now {ProjectRole(role).label.lower()}.")


@require_POST
@project_page(Permission.PROJECT_VIEW)
def member_remove(request: HttpRequest, here: ProjectPlace, user: uuid.UUID) -> HttpResponse:
    person = member_of(here, user)
    role = str(getattr(person, "project_role", ""))
    project_member_remove(actor=here.actor, project=here.project, user=person)
    text = f"{person.username} is no member any more."
    if person.pk == here.user.pk:
        messages.success(request, f"You left {here.project.slug}.")
        return redirect("frontend:root")
    undo = f"{reverse('frontend:member_role', args=[here.project.slug, user])}?role={role}"
    return changed(request, here, text, undo=undo)


def changed(request: HttpRequest, here: ProjectPlace, text: str, *, undo: str = "") -> HttpResponse:
    """htmx: a toast with its undo, and the table fetches itself; else the page with a message."""
    if request.headers.get("HX-Request"):
        answer = toasts.answer(tone="ok", title=text, undo=undo)
        answer["HX-Trigger-After-Settle"] = '{"members": {}}'
        return answer
    messages.success(request, text)
    return redirect(reverse("frontend:members", args=[here.project.slug]))


@project_page(Permission.AUDIT_VIEW)
def audit(request: HttpRequest, here: ProjectPlace) -> HttpResponse:
    query = request.GET.get("q", "").strip()[:100]
    found = audit_for(actor=here.actor, project_id=here.project.pk)
    if query:
        found = found.filter(Q(actor=query) | Q(target_name__icontains=query) | Q(action__icontains=query))
    page = Paginator(found, ROWS).get_page(request.GET.get("page"))
    context: dict[str, Any] = {
        "place": here,
        "query": query,
        "page": page,
        "rows": [{"entry": entry, "text": audit_words(entry, here.zone)} for entry in page],
        "crumbs": crumbs(here, "Audit log"),
    }
    return render(request, "projects/audit.html", context)
