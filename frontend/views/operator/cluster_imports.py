"""Operators: what a template's site says that may be chosen, beside what the template says; published or dropped."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from frontend.forms import sentence_of
from frontend.nav import Crumb
from frontend.presenters.clusters import url_of
from frontend.views.operator.common import OperatorPlace, crumbs, operator_action, operator_page
from gpuaas.clusters import services
from gpuaas.clusters.imports import parameters_import_answer, parameters_import_find
from gpuaas.clusters.models import ClusterTemplate
from gpuaas.clusters.selectors import template_get
from gpuaas.core import clock
from gpuaas.core.errors import Conflict, Invalid, NotFound, StaleVersion

SHOWN = 50  # clusters whose choice no longer fits


@operator_page
def show(request: HttpRequest, here: OperatorPlace, slug: str) -> HttpResponse:
    """A POST asks the site, in the background."""
    template = template_get(actor=here.actor, slug=slug)
    if request.method == "POST":
        return _ask(request, here, template)
    row = parameters_import_find(actor=here.actor, template=template)
    answer = parameters_import_answer(row=row, now=clock.now()) if row else None
    misfits = answer.misfits if answer else ()
    above = ("Cluster templates", "operator_cluster_templates")
    context = {
        "place": here,
        "template": template,
        "importable": services.parameters_are_told(template),
        "asked": row,
        "asking": row is not None and row.due_at is not None,
        "answer": answer,
        "published": f"It is version {row.published.number} now." if row and row.published else "",
        "misfits": [(one, url_of(one.cluster) if one.cluster else "") for one in misfits[:SHOWN]],
        "more_misfits": max(len(misfits) - SHOWN, 0),
        "crumbs": (
            *crumbs("Supply", above),
            Crumb(template.name, reverse("frontend:operator_cluster_template", args=[slug])),
            Crumb("Import from the class"),
        ),
    }
    return render(request, "operator/cluster_template_import.html", context)


def _ask(request: HttpRequest, here: OperatorPlace, template: ClusterTemplate) -> HttpResponse:
    try:
        services.parameters_import_request(actor=here.actor, template=template)
    except Conflict as error:
        messages.error(request, sentence_of(error.message))
    return redirect("frontend:operator_cluster_template_import", template.slug)


@operator_action
def publish(request: HttpRequest, here: OperatorPlace, slug: str) -> HttpResponse:
    """`version` is of what was read."""
    template = template_get(actor=here.actor, slug=slug)
    try:
        made = services.parameters_import_publish(
            actor=here.actor, template=template, expected_version=_version(request)
        )
    except (Conflict, Invalid, NotFound, StaleVersion) as error:
        messages.error(request, sentence_of(error.message))
        return redirect("frontend:operator_cluster_template_import", slug)
    messages.success(request, f"Version {made.number} is what is ordered from now on.")
    return redirect("frontend:operator_cluster_template", slug)


@operator_action
def drop(request: HttpRequest, here: OperatorPlace, slug: str) -> HttpResponse:
    template = template_get(actor=here.actor, slug=slug)
    try:
        services.parameters_import_drop(
            actor=here.actor, template=template, expected_version=_version(request)
        )
    except NotFound:
        return redirect("frontend:operator_cluster_template", slug)
    except StaleVersion as error:
        messages.error(request, sentence_of(error.message))
        return redirect("frontend:operator_cluster_template_import", slug)
    messages.success(request, "Dropped. The template is what it was.")
    return redirect("frontend:operator_cluster_template", slug)


def _version(request: HttpRequest) -> int | None:
    given = request.POST.get("version", "")
    return int(given) if given.isascii() and given.isdigit() and len(given) < 19 else None
