"""Operators: clusters of a template that are kept ready, looked at before they are asked for, changed and ended."""

import uuid
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse

from billing.clusters import draft_quote, warm_pool_cost
from billing.selectors.costs import currency_of
from billing.selectors.running import warm_pool_rate
from frontend.components import Notice
from frontend.forms import sentence_of
from frontend.forms.warm_pools import WarmPoolChangeForm, WarmPoolForm
from frontend.frame import Refusals, checked, done, draw_page, is_check, name_typed, posted, refusals_shown
from frontend.lists import Column, Listing, find, list_page, named
from frontend.nav import Crumb
from frontend.presenters.effect import Effect, kept_ready
from frontend.views.operator.common import OperatorPlace, crumbs, projects_proposed, row_doors, template_page
from gpuaas.clusters import services
from gpuaas.clusters.models import ClusterTemplate, WarmPool
from gpuaas.clusters.selectors import definition_of, template_get
from gpuaas.clusters.waiting import warm_pool_get, warm_pools
from gpuaas.core.errors import Conflict, GpuaasError, Invalid, StaleVersion
from gpuaas.core.looks import Tone
from gpuaas.core.schema import document_check
from tenants.models import Project

LIST = Listing(
    "warm pools",
    columns=(
        Column("name", "Pool", "name"),
        Column("state", "State", value="trouble"),
        Column("ready", "Ready", "ready", numeric=True),
        Column("wanted"),
        Column("making", "Being built", "making", numeric=True),
        Column("claimed", "Claimed", "claimed", numeric=True),
        Column("claimed_last"),
        Column("project", "Project", "project__slug", "project.slug"),
    ),
    filters=(find("Find a pool or project", "Pool or project"),),
)


@template_page
@checked
def pools(request: HttpRequest, here: OperatorPlace, template: ClusterTemplate) -> HttpResponseBase:
    """A POST without `confirmed` shows what they would cost, and one with `back` the form again. While it is typed, it is tried as
    if it were confirmed."""
    form = WarmPoolForm(
        posted(request),
        initial={"wanted": 1, "making_most": 1, "document": _defaults(template)},
    )
    look: dict[str, Any] = {}
    if form.is_valid() and "back" not in request.POST:
        asked = dict(form.cleaned_data)
        confirmed, _ = asked.pop("confirmed"), asked.pop("version")
        with Refusals(form.take, Invalid, Conflict):
            if confirmed or is_check(request):
                made = services.warm_pool_create(actor=here.actor, template=template, **asked)
                return done(
                    request, f"Warm pool {made.name} created. Its clusters are being built.", _url_of(made)
                )
            look = _look(here, template, asked)
    known = warm_pools(actor=here.actor, template=template)
    shown = LIST.of(request, lambda query: named(known, query["q"], "name", "project__slug"))
    context = {
        "template": template,
        "form": form,
        "look": look,
        "projects": projects_proposed(here),
        "orderable": template.versions.exists(),
        "crumbs": _crumbs(template, "Warm pools"),
    }
    return list_page(request, "operator/warm_pools.html", shown, context)


def _pool(here: OperatorPlace, slug: str, warm: uuid.UUID) -> WarmPool:
    template = template_get(actor=here.actor, slug=slug)
    return warm_pool_get(actor=here.actor, template=template, pool_id=warm)


pool_page, pool_action = row_doors(_pool, "slug", "warm")


def _initial(row: WarmPool) -> dict[str, Any]:
    return {name: getattr(row, name) for name in ("wanted", "making_most", "document", "version")}


@pool_page
@checked
def pool(request: HttpRequest, here: OperatorPlace, row: WarmPool) -> HttpResponse:
    form = WarmPoolChangeForm(posted(request), initial=_initial(row))
    if form.is_valid():
        asked = dict(form.cleaned_data)
        expected = asked.pop("version")
        with Refusals(form.take, Invalid, Conflict, StaleVersion):
            services.warm_pool_update(actor=here.actor, pool=row, expected_version=expected, **asked)
            text = f"Warm pool {row.name} saved. Clusters with another configuration are deleted once others are ready."
            return done(request, text, _url_of(row))
    return _draw(request, here, row, form)


def _draw(request: HttpRequest, here: OperatorPlace, row: WarmPool, form: WarmPoolChangeForm) -> HttpResponse:
    context = {
        "pool": row,
        "template": row.template,
        "form": form,
        "cost": warm_pool_cost(actor=here.actor, pool=row),
        "per_hour": warm_pool_rate(actor=here.actor, pool=row).per_hour,
        "currency": currency_of(row.project.organization_id),
        "crumbs": _crumbs(row.template, row.name, within=True),
    }
    return draw_page(request, "operator/warm_pool.html", context)


@pool_action
def pool_effect(request: HttpRequest, here: OperatorPlace, row: WarmPool) -> HttpResponse:
    """What is typed, as limits and price have it; nothing is changed."""
    form = WarmPoolChangeForm(request.POST)
    effect = Effect(Notice(Tone.WARN, "Check your input", "Its price shows when every field can be read."))
    if form.is_valid():
        asked = {name: form.cleaned_data[name] for name in ("wanted", "making_most", "document")}
        try:
            given: dict[str, Any] = {"template": row.template, "project": row.project, **asked}
            draft = services.warm_pool_draft(actor=here.actor, **given)
        except (Invalid, Conflict) as error:
            effect = Effect(Notice(Tone.WARN, "Check your input", sentence_of(error.message)))
        else:
            rate = warm_pool_rate(actor=here.actor, pool=row)
            effect = kept_ready(row, draft, asked["wanted"], rate.per_hour)
    return render(request, "components/effect.html", {"effect": effect})


@pool_action
def pool_end(request: HttpRequest, here: OperatorPlace, row: WarmPool) -> HttpResponse:
    if not name_typed(request, row.name, done="ended", do="end"):
        return _draw(request, here, row, WarmPoolChangeForm(initial=_initial(row)))
    with refusals_shown(request, GpuaasError):
        services.warm_pool_end(actor=here.actor, pool=row)
        messages.success(
            request, f"Warm pool {row.name} ended. Waiting clusters are deleted; claimed ones stay."
        )
    return redirect("frontend:operator_cluster_template_pools", row.template.slug)


def _look(here: OperatorPlace, template: ClusterTemplate, asked: dict[str, Any]) -> dict[str, Any]:
    """What is confirmed. Raises Invalid, Conflict where it is refused."""
    project: Project = asked["project"]
    draft = services.warm_pool_draft(
        actor=here.actor,
        template=template,
        project=project,
        document=asked["document"],
        wanted=asked["wanted"],
        making_most=asked["making_most"],
    )
    one = draft_quote(draft=draft)
    return {
        "project": project,
        "wanted": asked["wanted"],
        "one": one,
        "all": one.per_hour * asked["wanted"],
        "pools": [row for row in draft.pools if row.count],
        "release": draft.cluster.release,
    }


def _defaults(template: ClusterTemplate) -> Any:
    """The newest version's own, to begin with."""
    newest = template.versions.first()
    return document_check(definition_of(newest).schema, {}) if newest else {}


def _url_of(row: WarmPool) -> str:
    return reverse("frontend:operator_cluster_template_pool", args=[row.template.slug, row.pk])


def _crumbs(template: ClusterTemplate, name: str, *, within: bool = False) -> Any:
    above = [Crumb(template.name, reverse("frontend:operator_cluster_template", args=[template.slug]))]
    if within:
        above.append(
            Crumb("Warm pools", reverse("frontend:operator_cluster_template_pools", args=[template.slug]))
        )
    return (*crumbs("Supply", ("Cluster templates", "operator_cluster_templates")), *above, Crumb(name))
