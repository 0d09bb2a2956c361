"""Sites: attach, look, change, give new credentials. Nothing here calls a site; the worker does, after the commit."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse

from frontend.forms import refuse
from frontend.forms.operator import FactorForm
from frontend.forms.site_options import CLOUD, CloudOptionsForm, OptionsForm
from frontend.forms.sites import CloudRotateForm, CloudSiteForm, RotateForm, SiteForm
from frontend.presenters.operator.capacity import PoolShown, pools_shown, sums_of
from frontend.presenters.operator.sites import conditions_shown, readiness_of, site_shown, sites_shown
from frontend.views.operator.common import OperatorPlace, crumbs, operator_action, operator_page
from frontend.views.operator.site_parts import tab
from gpuaas.catalog.models import Site
from gpuaas.catalog.selectors import site_get_for, sites_for
from gpuaas.catalog.services import site_create, site_update
from gpuaas.core.conditions import conditions_read
from gpuaas.core.errors import Invalid
from gpuaas.core.queue import poke
from gpuaas.metering.health import meter_conditions
from gpuaas.workspaces.selectors import workspaces_for
from gpuaas.workspaces.states import LIVE

PERCENT = "oversubscription_percent"


@operator_page
def sites(request: HttpRequest, here: OperatorPlace) -> HttpResponse:
    pools = pools_shown(actor=here.actor)
    context = {
        "place": here,
        "crumbs": crumbs("Supply", ("Sites", "")),
        "rows": sites_shown(sites_for(actor=here.actor), pools),
    }
    return render(request, "operator/sites.html", context)


@operator_page
def site_new(request: HttpRequest, here: OperatorPlace) -> HttpResponse:
    """An auditor finds the page empty-handed: the list says it all, so they are sent there."""
    if not here.may_manage:
        return redirect("frontend:operator_sites")
    asked = (request.POST or request.GET).get("driver", "kubernetes")
    kind = CloudSiteForm if asked == CLOUD else SiteForm
    form = kind(request.POST or None, request.FILES or None, initial={"driver": asked})
    status = 200
    if request.method == "POST":
        status = 422
        if form.is_valid():
            try:
                site = site_create(actor=here.actor, **_site_values(form))
            except Invalid as error:
                refuse(form, error, fields={"credentials": form.document, "options": "aliases"})
            else:
                messages.success(request, f"{site.slug} is attached. It is being looked at now.")
                return redirect("frontend:operator_site", site.slug)
    context = {
        "place": here,
        "form": form,
        "is_cloud": kind is CloudSiteForm,
        "crumbs": crumbs("Supply", ("Sites", "operator_sites"), ("Add a site", "")),
    }
    return render(request, "operator/site_new.html", context, status=status)


def _site_values(form: SiteForm | CloudSiteForm) -> dict[str, Any]:
    names = ("slug", "name", "driver", "endpoint", PERCENT)
    given = {name: form.cleaned_data[name] for name in names if name in form.cleaned_data}
    return {**given, "credentials": form.credentials(), "options": form.options()}


def _rotate_form(row: Site, *given: Any) -> RotateForm | CloudRotateForm:
    return (CloudRotateForm if row.driver == CLOUD else RotateForm)(*given)


def _options_form(row: Site, given: QueryDict | None = None) -> CloudOptionsForm | OptionsForm:
    kind = CloudOptionsForm if row.driver == CLOUD else OptionsForm
    return kind(given, initial=kind.shown(row.options))


@operator_page
def site(request: HttpRequest, here: OperatorPlace, slug: str) -> HttpResponse:
    return _draw(request, here, site_get_for(actor=here.actor, slug=slug))


def _draw(
    request: HttpRequest, here: OperatorPlace, row: Site, *, status: int = 200, **forms: Any
) -> HttpResponse:
    pools = pools_shown(actor=here.actor, site=row)
    nodes = row.nodes.values("name").distinct().count()
    found = [*conditions_read(row.conditions), *meter_conditions(site_id=row.pk)]
    context = {
        **tab(row, here, "overview"),
        "readiness": readiness_of(row),
        "shown": site_shown(row, nodes=nodes, gpus=sums_of(pools).capacity),
        "conditions": conditions_shown(found),
        "pools": pools,
        "rows": tuple(pool.row for pool in pools),
        "sums": sums_of(pools),
        "workspaces": workspaces_for(actor=here.actor, site=row, states=LIVE).count(),
        "factor_form": FactorForm(initial={PERCENT: row.oversubscription_percent}),
        "effect": factor_effect(pools, row.oversubscription_percent),
        "rotate_form": _rotate_form(row),
        "options_form": _options_form(row),
        "is_cloud": row.driver == CLOUD,
        "disable_title": f"Disable {row.slug}?",
        **forms,
    }
    return render(request, "operator/site.html", context, status=status)


def factor_effect(pools: list[PoolShown], percent: int) -> list[dict[str, Any]]:
    """What would be sellable per pool; rounded down, as admission does."""
    rows = []
    for pool in pools:
        sellable = pool.sums.healthy * percent // 100
        held = pool.sums.allocated + pool.sums.held
        rows.append({"pool": pool, "sellable": sellable, "held": held, "short": max(held - sellable, 0)})
    return rows


@operator_page
def site_effect(request: HttpRequest, here: OperatorPlace, slug: str) -> HttpResponse:
    """While typing the factor: what could then be sold, per pool."""
    row = site_get_for(actor=here.actor, slug=slug)
    form = FactorForm(request.GET)
    percent = form.cleaned_data[PERCENT] if form.is_valid() else None
    known = percent is not None and 1 <= percent <= 1000
    pools = pools_shown(actor=here.actor, site=row) if known else []
    context = {"effect": factor_effect(pools, percent or 0), "unreadable": not known}
    return render(request, "operator/site_effect.html", context)


@operator_action
def site_factor(request: HttpRequest, here: OperatorPlace, slug: str) -> HttpResponse:
    row = site_get_for(actor=here.actor, slug=slug)
    form = FactorForm(request.POST)
    if form.is_valid():
        try:
            site_update(actor=here.actor, site=row, **form.cleaned_data)
        except Invalid as error:
            refuse(form, error)
        else:
            messages.success(request, f"{slug} now sells {form.cleaned_data[PERCENT]} % of what is healthy.")
            return redirect("frontend:operator_site", slug)
    return _draw(request, here, row, status=422, factor_form=form)


@operator_action
def site_credentials(request: HttpRequest, here: OperatorPlace, slug: str) -> HttpResponse:
    """The page never holds what was typed: a refused form comes back with an empty box."""
    row = site_get_for(actor=here.actor, slug=slug)
    form = _rotate_form(row, request.POST, request.FILES)
    if form.is_valid():
        try:
            site_update(actor=here.actor, site=row, credentials=form.credentials())
        except Invalid as error:
            refuse(form, error, fields={"credentials": form.document})
        else:
            messages.success(request, f"{slug} has new credentials. It is being looked at with them now.")
            return redirect("frontend:operator_site", slug)
    return _draw(request, here, row, status=422, rotate_form=form, opened="rotate")


@operator_action
def site_options(request: HttpRequest, here: OperatorPlace, slug: str) -> HttpResponse:
    row = site_get_for(actor=here.actor, slug=slug)
    form = _options_form(row, request.POST)
    if form.is_valid():
        try:
            site_update(actor=here.actor, site=row, options=form.options(row.options))
        except Invalid as error:
            refuse(form, error, fields={"options": form.field_of(error.fields["options"][0])})
        else:
            messages.success(request, f"{slug} has these options now. It is being checked with them.")
            return redirect("frontend:operator_site", slug)
    return _draw(request, here, row, status=422, options_form=form, opened="options")


@operator_action
def site_switch(request: HttpRequest, here: OperatorPlace, slug: str) -> HttpResponse:
    row = site_get_for(actor=here.actor, slug=slug)
    enabled = request.POST.get("enabled") == "1"
    site_update(actor=here.actor, site=row, enabled=enabled)
    said = "takes new workspaces again" if enabled else "takes no new workspaces; what runs there goes on"
    messages.success(request, f"{slug} {said}.")
    return redirect("frontend:operator_site", slug)


@operator_action
def site_probe_now(request: HttpRequest, here: OperatorPlace, slug: str) -> HttpResponse:
    """A poke to the worker; the page hears by its socket what was found."""
    row = site_get_for(actor=here.actor, slug=slug)
    poke("catalog.probe", str(row.pk))
    messages.info(request, f"{slug} is being looked at; what is found shows here by itself.")
    return redirect(reverse("frontend:operator_site", args=[slug]))
