"""Sites: attach, look, change, give new credentials. Nothing here calls a site; the worker does, after the commit."""

from datetime import datetime
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render

from billing.services.site_removal import site_leftovers, site_remove
from frontend.forms.operator import FactorForm, SiteNameForm
from frontend.forms.sites import CredentialsForm, OptionsForm, SiteForm
from frontend.frame import (
    Refusals,
    checked,
    done,
    draw_page,
    name_typed,
    posted,
    refusals_on,
    refusals_shown,
    sent,
    undo_by,
)
from frontend.lists import Column, Listing, find, list_page, saying
from frontend.presenters.operator.capacity import PoolShown, map_of, pools_shown, sums_of
from frontend.presenters.operator.sites import (
    conditions_shown,
    readiness_of,
    site_shown,
    sites_shown,
)
from frontend.presenters.work import waits_since
from frontend.views.operator.common import OperatorPlace, crumbs, operator_page, site_action, site_page
from frontend.views.operator.site_parts import tab
from gpuaas.catalog.models import Site
from gpuaas.catalog.selectors import sites_for
from gpuaas.catalog.services import site_create, site_probe_request, site_update
from gpuaas.catalog.states import RoundKind
from gpuaas.core.conditions import conditions_read
from gpuaas.core.errors import Conflict, Invalid, StaleVersion
from gpuaas.metering.health import meter_conditions
from gpuaas.providers.registry import kind_or_missing, site_kinds
from gpuaas.workspaces.selectors import workspaces_for
from gpuaas.workspaces.states import LIVE

PERCENT = "oversubscription_percent"


LIST = Listing(
    "sites",
    columns=(
        Column("slug", "Site", "site__slug", "site.slug"),
        Column("name", value="site.name"),
        Column("condition", "Condition", value="word"),
        Column("text", value="text"),
        Column("system", "System", "what", "what"),
        Column("gpus", "GPUs", "gpus", numeric=True),
        Column(
            "sold",
            "Sold up to",
            "site__oversubscription_percent",
            "site.oversubscription_percent",
            numeric=True,
        ),
        Column("answer_ms", "Response time", "site__answer_ms", "site.answer_ms", numeric=True),
    ),
    filters=(find(),),
)


@operator_page
def sites(request: HttpRequest, here: OperatorPlace) -> HttpResponseBase:
    rows = sites_shown(sites_for(actor=here.actor))

    shown = LIST.of(
        request, lambda query: saying(rows, query["q"], lambda row: f"{row.site.slug} {row.site.name}")
    )
    return list_page(request, "operator/sites.html", shown, {"crumbs": crumbs("Supply", ("Sites", ""))})


@operator_page
@checked
def site_new(request: HttpRequest, here: OperatorPlace) -> HttpResponse:
    """An auditor finds the page empty-handed: the list says it all, so they are sent there."""
    if not here.may_manage:
        return redirect("frontend:operator_sites")
    kinds = site_kinds()
    asked = (request.POST or request.GET).get("driver")
    kind = next((each for each in kinds if each.name == asked), kinds[0])
    form = SiteForm(posted(request), request.FILES or None, kind=kind)
    if form.is_valid():
        with Refusals(form.refuse, Invalid):
            site = site_create(actor=here.actor, **form.values())
            text = f"Site {site.slug} added. Its first check is running."
            return done(request, text, "frontend:operator_site", site.slug)
    context = {
        "form": form,
        "kind": kind,
        "kinds": kinds,
        "crumbs": crumbs("Supply", ("Sites", "operator_sites"), ("Add a site", "")),
    }
    return draw_page(request, "operator/site_new.html", context)


def _draw(request: HttpRequest, here: OperatorPlace, row: Site, **forms: Any) -> HttpResponse:
    pools, kind = pools_shown(actor=here.actor, site=row), kind_or_missing(row.driver)
    nodes = row.nodes.values("name").distinct().count()
    found = [*conditions_read(row.conditions), *meter_conditions(site_id=row.pk)]
    context = {
        **tab(row, "overview"),
        "readiness": readiness_of(row),
        "contacted_since": waits_since(row, here.now) if row.enabled else None,
        "checked_since": _checked_since(row, here.now),
        "shown": site_shown(row, nodes=nodes, gpus=sums_of(pools).capacity),
        "conditions": conditions_shown(found),
        "pools": pools,
        "rows": map_of(pools),
        "sums": sums_of(pools),
        "workspaces": workspaces_for(actor=here.actor, site=row, states=LIVE).count(),
        "factor_form": FactorForm(initial={PERCENT: row.oversubscription_percent}),
        "effect": factor_effect(pools, row.oversubscription_percent),
        "rotate_form": CredentialsForm(kind=kind),
        "name_form": SiteNameForm(initial={"name": row.name}),
        "options_form": OptionsForm(kind=kind, before=row.options),
        "leftovers": site_leftovers(site=row) if here.may_manage and not row.enabled else [],
        "remove_title": f"Remove {row.slug}?",
        "disable_title": f"Disable {row.slug}?",
        **forms,
    }
    return draw_page(request, "operator/site.html", context)


site = site_page(_draw)


def _checked_since(row: Site, now: datetime) -> datetime | None:
    """Since when its checks wait for a worker, or are taken by one."""
    round_ = row.rounds.filter(kind=RoundKind.PREFLIGHT).first() if row.enabled else None
    return waits_since(round_, now) if round_ else None


def factor_effect(pools: list[PoolShown], percent: int) -> list[dict[str, Any]]:
    """What would be sellable per pool; rounded down, as admission does."""
    rows = []
    for pool in pools:
        sellable = (pool.sums.healthy - pool.sums.others) * percent // 100
        held = pool.sums.held
        rows.append({"pool": pool, "sellable": sellable, "held": held, "short": max(held - sellable, 0)})
    return rows


@site_page
def site_effect(request: HttpRequest, here: OperatorPlace, row: Site) -> HttpResponse:
    """While typing the factor: what could then be sold, per pool."""
    form = FactorForm(request.GET)
    percent = form.cleaned_data[PERCENT] if form.is_valid() else None
    known = percent is not None and 1 <= percent <= 1000
    pools = pools_shown(actor=here.actor, site=row) if known else []
    context = {"effect": factor_effect(pools, percent or 0), "unreadable": not known}
    return render(request, "operator/site_effect.html", context)


@site_action
@checked
def site_factor(request: HttpRequest, here: OperatorPlace, row: Site) -> HttpResponse:
    form = FactorForm(sent(request))
    if form.is_valid():
        back = undo_by(
            "frontend:operator_site_factor", row.slug, oversubscription_percent=row.oversubscription_percent
        )
        with refusals_on(form, Invalid):
            site_update(actor=here.actor, site=row, **form.cleaned_data)
            text = f"{row.slug} now sells {form.cleaned_data[PERCENT]}% of its healthy GPUs."
            return done(request, text, "frontend:operator_site", row.slug, undo=back)
    return _draw(request, here, row, factor_form=form)


@site_action
@checked
def site_credentials(request: HttpRequest, here: OperatorPlace, row: Site) -> HttpResponse:
    """The page never holds what was typed: a refused form comes back with an empty box."""
    form = CredentialsForm(request.POST, request.FILES, kind=kind_or_missing(row.driver))
    if form.is_valid():
        with Refusals(lambda error: form.part.refuse(error.fields), Invalid):
            site_update(actor=here.actor, site=row, credentials=form.given)
            text = f"Credentials of {row.slug} replaced. The site is being checked with them."
            return done(request, text, "frontend:operator_site", row.slug)
    return _draw(request, here, row, rotate_form=form, opened="rotate")


@site_action
@checked
def site_options(request: HttpRequest, here: OperatorPlace, row: Site) -> HttpResponse:
    form = OptionsForm(request.POST, kind=kind_or_missing(row.driver), before=row.options)
    if form.is_valid():
        read = form.cleaned_data["fingerprint"]
        with (
            Refusals(lambda error: form.part.refuse(error.fields), Invalid),
            refusals_on(form, StaleVersion),
        ):
            site_update(actor=here.actor, site=row, options=form.options(), fingerprint=read)
            text = f"Options of {row.slug} saved. The site is being checked with them."
            return done(request, text, "frontend:operator_site", row.slug)
    return _draw(request, here, row, options_form=form, opened="options")


@site_action
@checked
def site_rename(request: HttpRequest, here: OperatorPlace, row: Site) -> HttpResponse:
    form = SiteNameForm(sent(request))
    if form.is_valid():
        back = undo_by("frontend:operator_site_rename", row.slug, name=row.name)
        with refusals_on(form, Invalid):
            site_update(actor=here.actor, site=row, **form.cleaned_data)
            text = f"{row.slug} is called {form.cleaned_data['name']} now."
            return done(request, text, "frontend:operator_site", row.slug, undo=back)
    return _draw(request, here, row, name_form=form, opened="rename")


@site_action
def site_switch(request: HttpRequest, here: OperatorPlace, row: Site) -> HttpResponse:
    enabled = sent(request).get("enabled") == "1"
    back = undo_by("frontend:operator_site_switch", row.slug, enabled=int(row.enabled))
    site_update(actor=here.actor, site=row, enabled=enabled)
    outcome = (
        "accepts new workspaces again" if enabled else "accepts no new workspaces; existing ones keep running"
    )
    return done(request, f"{row.slug} {outcome}.", "frontend:operator_site", row.slug, undo=back)


@site_action
def site_removed(request: HttpRequest, here: OperatorPlace, row: Site) -> HttpResponse:
    if not name_typed(request, row.slug, done="removed", do="remove"):
        return _draw(request, here, row)
    with refusals_shown(request, Conflict, Invalid):
        site_remove(actor=here.actor, site=row, name=row.slug)
        text = f"Site {row.slug} removed. Past usage and invoices keep its name."
        return done(request, text, "frontend:operator_sites")
    return redirect("frontend:operator_site", row.slug)


@site_action
def site_probe_now(request: HttpRequest, here: OperatorPlace, row: Site) -> HttpResponse:
    with refusals_shown(request, Conflict):
        site_probe_request(actor=here.actor, site=row)
        messages.info(request, f"Checking {row.slug}. Results will appear here.")
    return redirect("frontend:operator_site", row.slug)
