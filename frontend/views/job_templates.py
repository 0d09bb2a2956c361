"""Templates of jobs of a project: the list, one with what it holds, saving one from a form or a job, changing and deleting it."""

import uuid
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.urls import reverse

from frontend.forms.job_templates import OWN, JobTemplateForm
from frontend.forms.jobs import again, initial_of
from frontend.frame import checked, done, draw_page, posted, refusals_on
from frontend.lists import Column, Listing, find, list_page, named
from frontend.nav import Crumb
from frontend.place import ProjectPlace, project_page, row_doors
from frontend.presenters import job_templates as shown
from frontend.views.jobs import RUN, filled, job_page, template_chosen, trail
from gpuaas.core.errors import Conflict, Invalid, StaleVersion
from gpuaas.core.plain_yaml import plain_yaml
from gpuaas.jobs import services
from gpuaas.jobs.models import Job, JobTemplate
from gpuaas.jobs.selectors import template_get_for, templates_for
from gpuaas.workspaces.selectors import workspaces_for
from tenants.roles import Permission

LIST = Listing(
    "templates",
    columns=(
        Column("name", "Template", "name"),
        Column("description"),
        Column("image", "Image", "order__image"),
        Column("locked", "Locked fields"),
        Column("created_by"),
        Column("created_at", "Added", "created_at", "created_at"),
        Column("actions", "Actions", value=None, quiet=True),
    ),
    filters=(find(),),
)


@project_page(Permission.WORKSPACE_VIEW)
def index(request: HttpRequest, here: ProjectPlace) -> HttpResponseBase:
    found = LIST.of(
        request,
        lambda query: named(templates_for(**here.given), query["q"], "name", "description"),
        lambda rows: list(map(shown.row_of, rows)),
    )
    context = {
        "may": here.can(RUN),
        "new_url": _at(here, "job_template_new"),
        "crumbs": trail(here, Crumb("Templates")),
    }
    return list_page(request, "jobs/templates.html", found, context)


def template_at(here: ProjectPlace, job_template: uuid.UUID, permission: Permission) -> JobTemplate:
    return template_get_for(**here.given, template_id=job_template, permission=permission)


template_page, template_action = row_doors(template_at, "job_template")


@template_page(Permission.WORKSPACE_VIEW)
def show(request: HttpRequest, here: ProjectPlace, row: JobTemplate) -> HttpResponse:
    context = {
        "row": row,
        "facts": shown.facts_of(row),
        "values": plain_yaml(row.order) if row.order else "",
        "urls": shown.urls_of(row),
        "may": here.can(RUN),
        "crumbs": _trail(here, Crumb(row.name)),
    }
    return draw_page(request, "jobs/template.html", context)


@project_page(RUN)
@checked
def new(request: HttpRequest, here: ProjectPlace) -> HttpResponse:
    """From nothing, or with what was entered in the form of a job."""
    _, _, template = template_chosen(request, here)
    return _new(request, here, initial_of(template.order if template else {}), template)


@job_page(RUN)
@checked
def of_job(request: HttpRequest, here: ProjectPlace, row: Job) -> HttpResponse:
    """With what the job was given."""
    return _new(request, here, again(row))


def _new(
    request: HttpRequest, here: ProjectPlace, initial: dict[str, Any], template: JobTemplate | None = None
) -> HttpResponse:
    form = _form(request, here, initial, template)
    if form.is_valid():
        with refusals_on(form, Invalid, Conflict, fields=form.refused_at()):
            made = services.template_create(**here.given, **form.template_fields())
            return done(request, f"Jobs can be submitted by {made.name}.", shown.urls_of(made)["page"])
    return _draw_form(request, here, form, "New template", _at(here, "job_templates"), Crumb("New"))


@template_page(RUN)
@checked
def edit(request: HttpRequest, here: ProjectPlace, row: JobTemplate) -> HttpResponse:
    own = {name: getattr(row, of) for name, of in OWN.items()} | {"version": row.version}
    form, urls = _form(request, here, {**initial_of(row.order), **own}), shown.urls_of(row)
    if form.is_valid():
        version = form.cleaned_data["version"]
        with refusals_on(form, Invalid, Conflict, StaleVersion, fields=form.refused_at()):
            made = services.template_change(
                actor=here.actor, template=row, expected_version=version, **form.template_fields()
            )
            return done(request, f"The template {made.name} is saved.", urls["page"])
    way = (Crumb(row.name, urls["page"]), Crumb("Edit"))
    return _draw_form(request, here, form, f"Edit {row.name}", urls["page"], *way)


@template_action(RUN)
def delete(request: HttpRequest, here: ProjectPlace, row: JobTemplate) -> HttpResponse:
    services.template_delete(actor=here.actor, template=row)
    text = f"The template {row.name} is deleted. Jobs that were submitted by it stay."
    return done(request, text, _at(here, "job_templates"))


def _form(
    request: HttpRequest, here: ProjectPlace, initial: dict[str, Any], template: JobTemplate | None = None
) -> JobTemplateForm:
    given, more = filled(request, here, initial, template)
    if given is None and posted(request) is not None:
        more["initial"]["locked"] = request.POST.getlist("locked")
    rooms = {str(room.pk): room for room in workspaces_for(**here.given)}
    return JobTemplateForm(given, **more, rooms=rooms)


def _draw_form(
    request: HttpRequest, here: ProjectPlace, form: JobTemplateForm, title: str, back: str, *way: Crumb
) -> HttpResponse:
    crumbs = _trail(here, *way)
    return draw_page(
        request,
        "jobs/template_form.html",
        {"form": form, "title": title, "back": back, "crumbs": crumbs},
    )


def _trail(here: ProjectPlace, *way: Crumb) -> tuple[Crumb, ...]:
    return trail(here, Crumb("Templates", _at(here, "job_templates")), *way)


def _at(here: ProjectPlace, name: str, *args: Any) -> str:
    return reverse(f"frontend:{name}", args=[here.project.slug, *args])
