"""Taking over what was at a site before the portal: look, choose, plan, read the plan, confirm or discard."""

import uuid
from datetime import datetime

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect

from billing.quotes import QuoteItem
from frontend.forms.adoption import AdoptionForm
from frontend.frame import checked, done, draw_page, fits, posted, refusals_on, refusals_shown, version_read
from frontend.lists import Column, Listing, find, list_page, named, saying
from frontend.presenters.effect import taken
from frontend.presenters.operator.adoption import adoptable_rows, plan_shown
from frontend.presenters.operator.nodes import gpu_names_at
from frontend.presenters.words import words_of
from frontend.presenters.work import Work, work_of
from frontend.views.operator.common import (
    OperatorPlace,
    projects_proposed,
    row_doors,
    site_action,
    site_page,
)
from frontend.views.operator.site_parts import tab
from gpuaas.catalog.models import Flavor, Site
from gpuaas.catalog.selectors import flavors_for
from gpuaas.core.errors import Conflict, Invalid, NoCapacity, NotFound, QuotaRefused, StaleVersion
from gpuaas.workspaces import services
from gpuaas.workspaces.models import Adoption, AdoptionScan
from gpuaas.workspaces.selectors import (
    Adoptable,
    adoptables_of,
    adoption_get_for,
    adoption_scan_get_for,
    adoptions_for,
)
from tenants.selectors import project_get_for

REFUSALS = (Conflict, Invalid, NoCapacity, QuotaRefused, StaleVersion)


FOUND = Listing(
    "resources",
    columns=(
        Column("name", "Name", "name"),
        Column("consumers", "Consumers", "consumers", numeric=True),
        Column("holds", "Holds"),
        Column("quota", "Its own quota", value="allowed"),
        Column("proposed", "Proposed"),
        Column("storage_gib", "Storage", "storage_gib", numeric=True),
        Column("since", "Since", "created_at", "created_at"),
        Column("adopted", value="taken"),
        Column("plan", "Plan", value=None, quiet=True),
    ),
    filters=(find(),),
)
PLANS = Listing(
    "plans",
    columns=(
        Column("name", "Name", "external_name", "adoption.external_name"),
        Column("state", "State", "state", "word"),
        Column("becomes", "Becomes", "name", "adoption.name"),
        Column("project", value="adoption.project.slug"),
        Column("size", "Size", value="holds"),
        Column("steps", "Steps", value="summary"),
        Column("requested_at", "Requested", "requested_at", "adoption.requested_at"),
        Column("requested_by", value="adoption.requested_by.username"),
    ),
    filters=(find(),),
    size=25,
    mark="plan-",
)
STEPS = Listing(
    "steps",
    columns=(
        Column("object", "Object", "object"),
        Column("action", "Action", "word", "word"),
        Column("details", "Details", "detail", "detail"),
    ),
    filters=(find("Find an object or action", "Object or action"),),
)


@site_page
def adoption(request: HttpRequest, here: OperatorPlace, row: Site) -> HttpResponseBase:
    """What the last look found, and the plans so far."""
    scan = adoption_scan_get_for(actor=here.actor, site=row)
    found = adoptables_of(actor=here.actor, scan=scan) if scan else []
    rows = adoptable_rows(row, found, gpu_names_at(row))
    words = words_of(row)
    known = adoptions_for(actor=here.actor, site=row)
    space = words.space.capitalize()
    shown = FOUND.of(
        request,
        lambda query: saying(rows, query["q"], lambda each: each.name),
        labels={"name": space, "consumers": words.consumers.capitalize()},
    )
    plans = PLANS.of(
        request,
        lambda query: named(known, query["q"], "external_name", "name"),
        lambda some: [plan_shown(plan, now=here.now) for plan in some],
        labels={"name": space},
    )
    context = tab(
        row,
        "adoption",
        scan=scan,
        work=_scan_work(scan, here.now) if scan else None,
        looking=scan is not None and scan.due_at is not None and not scan.failure,
        plans=plans,
    )
    return list_page(request, "operator/site_adoption.html", shown, context, plans)


def _scan_work(scan: AdoptionScan, now: datetime) -> Work:
    asked, taken = f"Requested by {scan.requested_by}", f"{scan.site.slug} is asked for what is there"
    return work_of(
        scan, asked, taken, "What could be adopted is listed here", since=scan.requested_at, now=now
    )


@site_action
def adoption_scan(request: HttpRequest, here: OperatorPlace, row: Site) -> HttpResponse:
    with refusals_shown(request, Conflict):
        services.adoption_scan_request(actor=here.actor, site=row)
    return redirect("frontend:operator_site_adoption", row.slug)


@site_page
@checked
def adoption_new(request: HttpRequest, here: OperatorPlace, row: Site, name: str) -> HttpResponse:
    if not here.may_manage:
        return redirect("frontend:operator_site_adoption", row.slug)
    item = _adoptable(here, row, name)
    flavors = list(flavors_for(actor=here.actor, site=row.slug))
    initial = {"name": name[:40], "storage_gib": item.proposal.storage_gib}
    form = AdoptionForm(posted(request), flavors=flavors, proposed=item.proposal.items, initial=initial)
    if form.is_valid() and (made := _planned(request, here, row, name, form)):
        return redirect("frontend:operator_adoption", row.slug, made.pk)
    context = tab(row, "adoption", name, item=item, form=form, projects=projects_proposed(here))
    return draw_page(request, "operator/adoption_new.html", context)


def _adoptable(here: OperatorPlace, row: Site, name: str) -> Adoptable:
    scan = adoption_scan_get_for(actor=here.actor, site=row)
    found = adoptables_of(actor=here.actor, scan=scan) if scan else []
    item = next((one for one in found if one.found.external_name == name and not one.taken), None)
    if item is None:
        raise NotFound("the last scan of the site did not find this")
    return item


def _planned(
    request: HttpRequest, here: OperatorPlace, row: Site, name: str, form: AdoptionForm
) -> Adoption | None:
    data = form.cleaned_data
    try:
        project = project_get_for(actor=here.actor, slug=data["project"])
    except NotFound:
        form.add_error("project", "There is no project with this short name.")
        return None
    with refusals_on(form, Invalid, Conflict):
        made = services.adoption_plan_request(
            actor=here.actor,
            site=row,
            external_name=name,
            project=project,
            items=form.wanted(),
            name=data["name"],
            storage_gib=data["storage_gib"] or 0,
            members=form.member_roles(),
        )
        fits(request)
        return made
    return None


def _plan_at(here: OperatorPlace, slug: str, adoption: uuid.UUID) -> Adoption:
    row = adoption_get_for(actor=here.actor, adoption_id=adoption)
    if row.site.slug != slug:
        raise NotFound("there is no such plan")
    return row


plan_page, plan_action = row_doors(_plan_at, "slug", "adoption")


def _items(row: Adoption) -> list[QuoteItem]:
    flavors = Flavor.objects.filter(slug__in=row.items, pool__site=row.site).select_related(
        "pool__gpu_type", "pool__site"
    )
    return [QuoteItem(flavor, row.items[flavor.slug]) for flavor in flavors]


@plan_page
def plan(request: HttpRequest, here: OperatorPlace, row: Adoption) -> HttpResponseBase:
    shown = plan_shown(row, now=here.now)
    steps = STEPS.of(
        request, lambda query: saying(shown.steps, query["q"], lambda step: f"{step.object} {step.word}")
    )
    context = tab(row.site, "adoption", row.external_name, plan=shown)
    if shown.may_confirm and here.may_manage:
        context["effect"] = taken(row.project, row.site, _items(row), row.storage_gib)
    return list_page(request, "operator/adoption.html", steps, context)


@plan_action
def plan_confirm(request: HttpRequest, here: OperatorPlace, row: Adoption) -> HttpResponse:
    """Only the version that was read; another plan has to be read first."""
    with refusals_shown(request, *REFUSALS):
        services.adoption_confirm(actor=here.actor, adoption=row, expected_version=version_read(request))
    return redirect("frontend:operator_adoption", row.site.slug, row.pk)


@plan_action
def plan_discard(request: HttpRequest, here: OperatorPlace, row: Adoption) -> HttpResponse:
    with refusals_shown(request, *REFUSALS):
        services.adoption_discard(actor=here.actor, adoption=row, expected_version=version_read(request))
        text = f"Plan for {row.external_name} discarded. Nothing was changed at the site."
        return done(request, text, "frontend:operator_site_adoption", row.site.slug)
    return redirect("frontend:operator_adoption", row.site.slug, row.pk)
