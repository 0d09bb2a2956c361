"""Operators: what a template's site says that may be chosen, beside what the template says; published or dropped."""

from datetime import datetime

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from frontend.frame import done, refusals_shown, version_read
from frontend.nav import Crumb
from frontend.presenters.held import url_of
from frontend.presenters.work import Work, work_of
from frontend.views.operator.common import OperatorPlace, crumbs, template_action, template_page
from gpuaas.clusters import services
from gpuaas.clusters.imports import parameters_import_answer, parameters_import_find
from gpuaas.clusters.models import ClusterTemplate, ParametersImport
from gpuaas.core.errors import Conflict, Invalid, NotFound, StaleVersion

SHOWN = 50  # clusters whose choice no longer fits


@template_page
def show(request: HttpRequest, here: OperatorPlace, template: ClusterTemplate) -> HttpResponse:
    """A POST asks the site, in the background."""
    if request.method == "POST":
        return _ask(request, here, template)
    row = parameters_import_find(actor=here.actor, template=template)
    answer = parameters_import_answer(row=row, now=here.now) if row else None
    misfits = answer.misfits if answer else ()
    above = ("Cluster templates", "operator_cluster_templates")
    context = {
        "template": template,
        "importable": services.parameters_are_told(template),
        "asked": row,
        "asking": row is not None and row.due_at is not None,
        "work": _work_of(row, here.now) if row else None,
        "answer": answer,
        "published": f"It is version {row.published.number} now." if row and row.published else "",
        "misfits": [(one, url_of(one.cluster) if one.cluster else "") for one in misfits[:SHOWN]],
        "more_misfits": max(len(misfits) - SHOWN, 0),
        "crumbs": (
            *crumbs("Supply", above),
            Crumb(template.name, reverse("frontend:operator_cluster_template", args=[template.slug])),
            Crumb("Import from the class"),
        ),
    }
    return render(request, "operator/cluster_template_import.html", context)


def _work_of(row: ParametersImport, now: datetime) -> Work:
    return work_of(
        row,
        f"Requested by {row.requested_by}",
        f"The class is read at {row.template.site.slug}",
        f"Its parameters are compared with version {row.base.number}",
        since=row.requested_at,
        now=now,
    )


def _ask(request: HttpRequest, here: OperatorPlace, template: ClusterTemplate) -> HttpResponse:
    with refusals_shown(request, Conflict):
        services.parameters_import_request(actor=here.actor, template=template)
    return redirect("frontend:operator_cluster_template_import", template.slug)


@template_action
def publish(request: HttpRequest, here: OperatorPlace, template: ClusterTemplate) -> HttpResponse:
    """`version` is of what was read."""
    with refusals_shown(request, Conflict, Invalid, NotFound, StaleVersion):
        version = version_read(request)
        made = services.parameters_import_publish(
            actor=here.actor, template=template, expected_version=version
        )
        text = f"Version {made.number} is used for new orders from now on."
        return done(request, text, "frontend:operator_cluster_template", template.slug)
    return redirect("frontend:operator_cluster_template_import", template.slug)


@template_action
def drop(request: HttpRequest, here: OperatorPlace, template: ClusterTemplate) -> HttpResponse:
    page = "frontend:operator_cluster_template"
    with refusals_shown(request, StaleVersion):
        version = version_read(request)
        try:
            services.parameters_import_drop(actor=here.actor, template=template, expected_version=version)
        except NotFound:
            return redirect(page, template.slug)
        return done(request, "Import discarded. The template is unchanged.", page, template.slug)
    return redirect("frontend:operator_cluster_template_import", template.slug)
