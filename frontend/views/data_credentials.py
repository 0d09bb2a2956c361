"""Data credentials of a project: added and deleted here, and never shown again."""

import uuid

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters

from frontend.forms.data_credentials import DataCredentialForm
from frontend.frame import checked, done, posted, refusals_on
from frontend.lists import Column, Listing, find, list_page, named
from frontend.place import ProjectPlace, project_action, project_page
from frontend.views.usage import crumbs
from gpuaas.core.errors import Conflict, Invalid
from gpuaas.jobs.selectors import credential_get_for, credentials_for
from gpuaas.jobs.services import credential_create, credential_delete
from tenants.roles import Permission

LIST = Listing(
    "data credentials",
    columns=(
        Column("name", "Credential", "name"),
        Column("access_key_id", "Access key ID", "access_key_id"),
        Column("endpoint", "Endpoint", "endpoint"),
        Column("region"),
        Column("created_by", value="created_by.username"),
        Column("created_at", "Added", "created_at", "created_at"),
        Column("actions", "Actions", value=None, quiet=True),
    ),
    filters=(find(),),
)


@never_cache
@sensitive_post_parameters("secret")
@project_page(Permission.WORKSPACE_VIEW)
@checked
def index(request: HttpRequest, here: ProjectPlace) -> HttpResponseBase:
    form = DataCredentialForm(posted(request))
    may = here.can(Permission.WORKSPACE_ACCESS)
    if form.is_valid():
        with refusals_on(form, Invalid, Conflict):
            made = credential_create(**here.given, **form.cleaned_data)
            return done(
                request, f"{made.name} can be named by jobs.", "frontend:data_credentials", here.project.slug
            )
    found = LIST.of(
        request,
        lambda query: named(credentials_for(**here.given), query["q"], "name", "access_key_id", "endpoint"),
        list,
    )
    context = {"form": form, "may_add": may, "crumbs": crumbs(here, "Data credentials")}
    return list_page(request, "projects/data_credentials.html", found, context)


@project_action(Permission.WORKSPACE_ACCESS)
def delete(request: HttpRequest, here: ProjectPlace, credential: uuid.UUID) -> HttpResponse:
    row = credential_get_for(**here.given, credential_id=credential)
    credential_delete(actor=here.actor, credential=row)
    text = f"{row.name} is deleted. What is moved with it now continues."
    return done(request, text, "frontend:data_credentials", here.project.slug)
