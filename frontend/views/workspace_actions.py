"""What people do to a workspace: every one a POST that ends on its page."""

import uuid

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from frontend import formats, toasts
from frontend.forms import refuse
from frontend.forms.workspaces import ExtendForm, MemberForm, ReasonForm
from frontend.place import ProjectPlace, project_page
from frontend.presenters.workspaces import url_of
from frontend.views.workspaces import draw, workspace_at
from gpuaas.core.errors import Conflict, Invalid
from gpuaas.workspaces import services
from gpuaas.workspaces.models import Workspace
from tenants.roles import Permission


def done(request: HttpRequest, row: Workspace, text: str) -> HttpResponse:
    messages.success(request, text)
    return redirect(url_of(row))


@require_POST
@project_page(Permission.WORKSPACE_CREATE)
def delete(request: HttpRequest, here: ProjectPlace, workspace: uuid.UUID) -> HttpResponse:
    row = workspace_at(here, workspace, Permission.WORKSPACE_CREATE)
    if request.POST.get("confirm_name") != row.name:
        raise Conflict(f"Nothing was deleted: type {row.name} exactly to delete it.")
    services.workspace_delete(actor=here.actor, workspace=row)
    return done(request, row, f"Deleting {row.name}. Access ends first, then everything in it.")


@require_POST
@project_page(Permission.WORKSPACE_CREATE)
def extend(request: HttpRequest, here: ProjectPlace, workspace: uuid.UUID) -> HttpResponse:
    row = workspace_at(here, workspace, Permission.WORKSPACE_CREATE)
    form = ExtendForm(request.POST)
    if form.is_valid():
        try:
            until = form.cleaned_data["until"]
            services.workspace_extend(actor=here.actor, workspace=row, lease_ends_at=until)
        except Invalid as error:
            refuse(form, error, fields={"lease_ends_at": "until"})
        else:
            return done(request, row, f"Lease extended to {formats.when(until, here.zone)}.")
    return draw(request, here, row, status=422, extend_form=form, opened="extend")


@require_POST
@project_page(Permission.WORKSPACE_CREATE)
def retry(request: HttpRequest, here: ProjectPlace, workspace: uuid.UUID) -> HttpResponse:
    row = workspace_at(here, workspace, Permission.WORKSPACE_CREATE)
    services.workspace_retry(actor=here.actor, workspace=row)
    if request.headers.get("HX-Request"):
        return HttpResponse(status=204, headers={"HX-Refresh": "true"})
    return done(request, row, "Trying again.")


@require_POST
@project_page(Permission.WORKSPACE_CREATE)
def member_add(request: HttpRequest, here: ProjectPlace, workspace: uuid.UUID) -> HttpResponse:
    row = workspace_at(here, workspace, Permission.WORKSPACE_CREATE)
    form = MemberForm(request.POST, auto_id="member_%s")
    if form.is_valid():
        name, role = form.cleaned_data["user"], form.cleaned_data["role"]
        try:
            services.member_set(actor=here.actor, workspace=row, username=name, role=role)
        except Invalid as error:
            refuse(form, error, fields={"members": "user"})
        else:
            return done(request, row, f"{name} may now {WORDS[role]} in {row.name}.")
    return draw(request, here, row, status=422, member_form=form, opened="add-member")


WORDS = {"admin": "do everything", "edit": "run things", "view": "look"}


@require_POST
@project_page(Permission.WORKSPACE_CREATE)
def member_remove(
    request: HttpRequest, here: ProjectPlace, workspace: uuid.UUID, user: uuid.UUID
) -> HttpResponse:
    """Undo is the same as adding again, so nothing is asked before."""
    row = workspace_at(here, workspace, Permission.WORKSPACE_CREATE)
    member = next((found for found in row.members.all() if found.user_id == user), None)
    if member is None:
        raise Conflict("This person has no access any more.")
    services.member_remove(actor=here.actor, workspace=row, username=member.user.username)
    return done_or_reload(request, row, f"{member.user.username} has no access to {row.name} any more.")


def done_or_reload(request: HttpRequest, row: Workspace, text: str) -> HttpResponse:
    """The live page fetches itself on the event; the toast says what was done."""
    if request.headers.get("HX-Request"):
        return toasts.answer(tone="ok", title=text)
    return done(request, row, text)


@require_POST
@project_page(Permission.WORKSPACE_CREATE)
def suspend(request: HttpRequest, here: ProjectPlace, workspace: uuid.UUID) -> HttpResponse:
    row = workspace_at(here, workspace, Permission.WORKSPACE_CREATE)
    form = ReasonForm(request.POST)
    if not form.is_valid():
        return draw(request, here, row, status=422, reason_form=form, opened="suspend")
    services.workspace_suspend(actor=here.actor, workspace=row, reason=form.cleaned_data["reason"])
    return done(request, row, f"Suspending {row.name}. What runs ends, its data stays.")


@require_POST
@project_page(Permission.WORKSPACE_CREATE)
def resume(request: HttpRequest, here: ProjectPlace, workspace: uuid.UUID) -> HttpResponse:
    """Refused with the limit or the capacity that has no room; it then stays as it is."""
    row = workspace_at(here, workspace, Permission.WORKSPACE_CREATE)
    services.workspace_resume(actor=here.actor, workspace=row)
    return done(request, row, f"Resuming {row.name}. Its GPUs are yours again.")


@require_POST
@project_page(Permission.WORKSPACE_CREATE)
def drift_check(request: HttpRequest, here: ProjectPlace, workspace: uuid.UUID) -> HttpResponse:
    row = workspace_at(here, workspace, Permission.WORKSPACE_CREATE)
    services.drift_check_request(actor=here.actor, workspace=row)
    return done_or_reload(request, row, "The site is being compared; what differs shows here by itself.")
