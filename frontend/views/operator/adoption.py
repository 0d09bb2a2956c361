"""Taking over what was at a site before the portal: look, choose, plan, read the plan, confirm or discard."""

import uuid

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from frontend.forms import refuse, sentence_of
from frontend.forms.adoption import AdoptionForm
from frontend.nav import Crumb
from frontend.presenters.operator.adoption import adoptable_rows, plan_shown
from frontend.presenters.operator.nodes import gpu_names_at
from frontend.views.operator.common import OperatorPlace, operator_action, operator_page, paged
from frontend.views.operator.site_parts import site_crumbs, tab
from gpuaas.catalog.models import Site
from gpuaas.catalog.selectors import flavors_for, site_get_for
from gpuaas.core import clock
from gpuaas.core.errors import Conflict, Invalid, NoCapacity, NotFound, QuotaRefused, StaleVersion
from gpuaas.workspaces import services
from gpuaas.workspaces.models import Adoption
from gpuaas.workspaces.selectors import (
    Adoptable,
    adoptables_of,
    adoption_get_for,
    adoption_scan_get_for,
    adoptions_for,
)
from tenants.selectors import project_get_for, projects_for

PLANS, PROJECTS = 25, 200
REFUSALS = (Conflict, Invalid, NoCapacity, QuotaRefused, StaleVersion)


@operator_page
def adoption(request: HttpRequest, here: OperatorPlace, slug: str) -> HttpResponse:
    """What the last look found, and the plans so far."""
    row = site_get_for(actor=here.actor, slug=slug)
    scan = adoption_scan_get_for(actor=here.actor, site=row)
    found = adoptables_of(actor=here.actor, scan=scan) if scan else []
    page = paged(request, adoptions_for(actor=here.actor, site=row), PLANS)
    now = clock.now()
    context = tab(
        row,
        here,
        "adoption",
        scan=scan,
        looking=scan is not None and scan.due_at is not None and not scan.failure,
        found=adoptable_rows(row, found, gpu_names_at(row)),
        page=page,
        plans=[plan_shown(plan, now=now) for plan in page],
    )
    return render(request, "operator/site_adoption.html", context)


@operator_action
def adoption_scan(request: HttpRequest, here: OperatorPlace, slug: str) -> HttpResponse:
    row = site_get_for(actor=here.actor, slug=slug)
    try:
        services.adoption_scan_request(actor=here.actor, site=row)
    except Conflict as error:
        messages.error(request, sentence_of(error.message))
    return redirect("frontend:operator_site_adoption", slug)


@operator_page
def adoption_new(request: HttpRequest, here: OperatorPlace, slug: str, name: str) -> HttpResponse:
    if not here.may_manage:
        return redirect("frontend:operator_site_adoption", slug)
    row = site_get_for(actor=here.actor, slug=slug)
    item = _adoptable(here, row, name)
    flavors = list(flavors_for(actor=here.actor, site=slug))
    initial = {"name": name[:40], "storage_gib": item.proposal.storage_gib}
    form = AdoptionForm(request.POST or None, flavors=flavors, proposed=item.proposal.items, initial=initial)
    status = 200
    if request.method == "POST":
        status = 422
        if form.is_valid() and (made := _planned(here, row, name, form)):
            return redirect("frontend:operator_adoption", slug, made.pk)
    context = tab(
        row,
        here,
        "adoption",
        item=item,
        form=form,
        projects=projects_for(actor=here.actor)[:PROJECTS],
    )
    context["crumbs"] = (*context["crumbs"][:-1], *_above(row), Crumb(name))
    return render(request, "operator/adoption_new.html", context, status=status)


def _adoptable(here: OperatorPlace, row: Site, name: str) -> Adoptable:
    scan = adoption_scan_get_for(actor=here.actor, site=row)
    found = adoptables_of(actor=here.actor, scan=scan) if scan else []
    item = next((one for one in found if one.found.external_name == name and not one.taken), None)
    if item is None:
        raise NotFound("the last look at the site did not find this one")
    return item


def _above(row: Site) -> tuple[Crumb, Crumb]:
    return site_crumbs(row, "Adoption", "operator_site_adoption")


def _planned(here: OperatorPlace, row: Site, name: str, form: AdoptionForm) -> Adoption | None:
    data = form.cleaned_data
    try:
        project = project_get_for(actor=here.actor, slug=data["project"])
    except NotFound:
        form.add_error("project", "There is no project with this short name.")
        return None
    try:
        return services.adoption_plan_request(
            actor=here.actor,
            site=row,
            external_name=name,
            project=project,
            items=form.wanted(),
            name=data["name"],
            storage_gib=data["storage_gib"] or 0,
            members=form.member_roles(),
        )
    except (Invalid, Conflict) as error:
        refuse(form, error)
        return None


def _plan_at(here: OperatorPlace, slug: str, adoption: uuid.UUID) -> Adoption:
    row = adoption_get_for(actor=here.actor, adoption_id=adoption)
    if row.site.slug != slug:
        raise NotFound("there is no such plan")
    return row


@operator_page
def plan(request: HttpRequest, here: OperatorPlace, slug: str, adoption: uuid.UUID) -> HttpResponse:
    row = _plan_at(here, slug, adoption)
    context = tab(row.site, here, "adoption", plan=plan_shown(row, now=clock.now()))
    context["crumbs"] = (*context["crumbs"][:-1], *_above(row.site), Crumb(row.external_name))
    return render(request, "operator/adoption.html", context)


@operator_action
def plan_confirm(request: HttpRequest, here: OperatorPlace, slug: str, adoption: uuid.UUID) -> HttpResponse:
    """Only the version that was read; another plan has to be read first."""
    row = _plan_at(here, slug, adoption)
    try:
        services.adoption_confirm(actor=here.actor, adoption=row, expected_version=_version(request))
    except REFUSALS as error:
        messages.error(request, sentence_of(error.message))
    return redirect("frontend:operator_adoption", slug, row.pk)


@operator_action
def plan_discard(request: HttpRequest, here: OperatorPlace, slug: str, adoption: uuid.UUID) -> HttpResponse:
    row = _plan_at(here, slug, adoption)
    try:
        services.adoption_discard(actor=here.actor, adoption=row, expected_version=_version(request))
    except REFUSALS as error:
        messages.error(request, sentence_of(error.message))
        return redirect("frontend:operator_adoption", slug, row.pk)
    messages.success(request, f"The plan for {row.external_name} is discarded; nothing was done to the site.")
    return redirect("frontend:operator_site_adoption", slug)


def _version(request: HttpRequest) -> int | None:
    text = request.POST.get("version", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 12 else None
