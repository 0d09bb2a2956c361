"""What people do to a workspace and to no cluster: every one a POST that ends on its page."""

import uuid

from django.http import HttpRequest, HttpResponse

from frontend.forms.workspaces import MemberForm
from frontend.frame import checked, done, done_here, refusals_on, sent, undo_by
from frontend.place import ProjectPlace
from frontend.presenters.held import url_of
from frontend.views.workspaces import draw, workspace_action
from gpuaas.core.errors import Conflict, Invalid
from gpuaas.workspaces import services
from gpuaas.workspaces.models import Workspace
from tenants.roles import Permission

WORDS = {"admin": "manage", "edit": "run workloads in", "view": "view"}


@workspace_action(Permission.WORKSPACE_CREATE)
@checked
def member_add(request: HttpRequest, here: ProjectPlace, row: Workspace) -> HttpResponse:
    form = MemberForm(sent(request), auto_id="member_%s")
    if form.is_valid():
        name, role = form.cleaned_data["user"], form.cleaned_data["role"]
        with refusals_on(form, Invalid, fields={"members": "user"}):
            services.member_set(actor=here.actor, workspace=row, username=name, role=role)
            return done(request, f"{name} can now {WORDS[role]} {row.name}.", url_of(row))
    return draw(request, here, row, member_form=form, opened="add-member")


@workspace_action(Permission.WORKSPACE_CREATE)
def member_remove(request: HttpRequest, here: ProjectPlace, row: Workspace, user: uuid.UUID) -> HttpResponse:
    """Undo is the same as adding again, so nothing is asked before."""
    member = next((found for found in row.members.all() if found.user_id == user), None)
    if member is None:
        raise Conflict("This person no longer has access.")
    name = member.user.username
    services.member_remove(actor=here.actor, workspace=row, username=name)
    back = undo_by("frontend:workspace_members", here.project.slug, row.pk, user=name, role=member.role)
    return done_here(request, f"{name} no longer has access to {row.name}.", url_of(row), undo=back)


@workspace_action(Permission.WORKSPACE_CREATE)
def lend(request: HttpRequest, here: ProjectPlace, row: Workspace) -> HttpResponse:
    """Undo is the other button, so nothing is asked before."""
    is_open = request.POST.get("open") == "yes"
    services.workspace_lend(actor=here.actor, workspace=row, open_to_project=is_open)
    text = (
        f"{row.name} is open to the project."
        if is_open
        else f"{row.name} is closed. Jobs of others leave it."
    )
    return done(request, text, url_of(row))


@workspace_action(Permission.WORKSPACE_CREATE)
def drift_check(request: HttpRequest, here: ProjectPlace, row: Workspace) -> HttpResponse:
    services.drift_check_request(actor=here.actor, workspace=row)
    text = "Comparing with the site. Differences will appear here."
    return done_here(request, text, url_of(row))
