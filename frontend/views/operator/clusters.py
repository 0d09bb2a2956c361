"""Operators: clusters of all tenants, what is left of them without a proof, and the templates that they are made of."""

import json
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect

from frontend.forms.clusters import TemplateForm, VersionForm
from frontend.frame import checked, done, draw_page, posted, refusals_on, sent, undo_by
from frontend.lists import Column, Filter, Listing, Query, find, list_page, named, narrowed, offered
from frontend.presenters import clusters as shown
from frontend.presenters import held
from frontend.views.clusters import COLUMNS, FILTERS, clusters_found
from frontend.views.operator.common import (
    OperatorPlace,
    crumbs,
    operator_page,
    template_action,
    template_page,
)
from gpuaas.catalog.selectors import site_get_for, sites_for
from gpuaas.clusters import services
from gpuaas.clusters.imports import parameters_import_find
from gpuaas.clusters.models import Cluster, ClusterTemplate, TemplateVersion
from gpuaas.clusters.selectors import (
    definition_of,
    ledger_orphans,
    template_version_get,
    templates_all,
)
from gpuaas.clusters.states import CLUSTER_KINDS, TEMPLATE_LOOKS, ClusterState, TemplateState
from gpuaas.clusters.waiting import warm_pools
from gpuaas.core.errors import Conflict, GpuaasError, Invalid
from gpuaas.providers.registry import cluster_kinds
from tenants.selectors import organization_get_for, organizations_for

LIST = Listing(
    "clusters",
    (
        *COLUMNS[:2],
        Column("project", "Project", "project__slug"),
        Column("organization"),
        *COLUMNS[2:],
    ),
    (*FILTERS, Filter("organization", "Organization", "every organization")),
)
ORPHANS = Listing(
    "objects",
    (
        Column("object", "Object", "name", "0.name"),
        Column("cluster", "Cluster", "cluster__name", "0.cluster.name"),
        Column("state", "State", "cluster__state", "2"),
        Column("project", "Project", "cluster__project__slug", "0.cluster.project.slug"),
        Column("site", "Site", "cluster__site__slug", lambda row: (row[0].site or row[0].cluster.site).slug),
        Column("recorded", "Recorded", "written_at", "0.written_at"),
    ),
)


@operator_page
def clusters(request: HttpRequest, here: OperatorPlace) -> HttpResponseBase:
    def found(query: Query) -> QuerySet[Cluster]:
        rows = clusters_found(query, actor=here.actor)
        return narrowed(rows, query, {"organization": "project__organization__slug"})

    shown_list = LIST.of(
        request,
        found,
        lambda rows: [shown.row_of(row, now=here.now) for row in rows],
        site=offered(sites_for(actor=here.actor).values_list("slug", flat=True)),
        template=offered(templates_all(actor=here.actor).values_list("slug", "name")),
        organization=offered(organizations_for(actor=here.actor).values_list("slug", "name")),
    )
    context = {
        "orphans": ledger_orphans(actor=here.actor).filter(cluster__state=ClusterState.DELETED).count(),
        "crumbs": crumbs("Tenants", ("Clusters", "")),
    }
    return list_page(request, "operator/clusters.html", shown_list, context)


@operator_page
def orphans(request: HttpRequest, here: OperatorPlace) -> HttpResponseBase:
    shown_list = ORPHANS.of(
        request,
        ledger_orphans(actor=here.actor),
        lambda rows: [(each, *held.look_of(each.cluster), held.url_of(each.cluster)) for each in rows],
    )
    trail = crumbs("Tenants", ("Clusters", "operator_clusters"), ("Without a proof", ""))
    return list_page(request, "operator/cluster_orphans.html", shown_list, {"crumbs": trail})


TEMPLATES = Listing(
    "templates",
    (
        Column("name", "Template", "name", "0.name"),
        Column("slug", value="0.slug"),
        Column("state", "State", "state", "1.label"),
        Column("kind", "Kind", "kind", "0.kind"),
        Column("site", "Site", "site__slug", "0.site.slug"),
        Column("driver", "Driver", "driver", "0.driver"),
        Column("versions", "Versions", value=lambda row: len(row[0].versions.all()), numeric=True),
        Column("offered_to", "Offered to", value="2"),
    ),
    (
        find(),
        Filter("state", "State", "every state", TemplateState.choices),
        Filter("site", "Site", "every site"),
    ),
)
VERSIONS = Listing(
    "versions",
    (
        Column("version", "Version", "number", "0.number", numeric=True),
        Column("state", "State", value="2"),
        Column("releases", "Releases", value=lambda row: ", ".join(row[1].releases)),
        Column("pools", "Worker pools", value=lambda row: ", ".join(pool.name for pool in row[1].pools)),
        Column("added_at", "Added", "created_at", "0.created_at"),
        Column("added_by", value="0.created_by"),
        Column("note", value="0.note"),
        Column("deprecate", "Deprecate", value=None, quiet=True),
    ),
    size=20,
)


@operator_page
def templates(request: HttpRequest, here: OperatorPlace) -> HttpResponseBase:
    known = templates_all(actor=here.actor)

    def found(query: Query) -> QuerySet[ClusterTemplate]:
        return narrowed(
            named(known, query["q"], "name", "slug"), query, {"state": "state", "site": "site__slug"}
        )

    shown_list = TEMPLATES.of(
        request,
        found,
        lambda rows: [(row, TEMPLATE_LOOKS[TemplateState(row.state)], _seen_by(row)) for row in rows],
        site=offered(sites_for(actor=here.actor).values_list("slug", flat=True)),
    )
    context = {"crumbs": crumbs("Supply", ("Cluster templates", ""))}
    return list_page(request, "operator/cluster_templates.html", shown_list, context)


def _seen_by(row: ClusterTemplate) -> str:
    names = sorted(grant.organization.name for grant in row.grants.all())
    return "every organization" if row.public else ", ".join(names) or "nobody yet"


@operator_page
@checked
def template_new(request: HttpRequest, here: OperatorPlace) -> HttpResponse:
    if not here.may_manage:
        return redirect("frontend:operator_cluster_templates")
    drivers = cluster_kinds()
    choices = {
        "kind": CLUSTER_KINDS,
        "site": [(slug, slug) for slug in sites_for(actor=here.actor).values_list("slug", flat=True)],
        "driver": [(kind.name, kind.choice) for kind in drivers],
    }
    form = TemplateForm(posted(request), choices=choices)
    if form.is_valid():
        asked = dict(form.cleaned_data)
        site = site_get_for(actor=here.actor, slug=asked.pop("site"))
        with refusals_on(form, Invalid, Conflict):
            made = services.template_create(actor=here.actor, site=site, **asked)
            return _done(
                request, made, f"Draft {made.name} created. Add its first version, then activate it."
            )
    context = {
        "form": form,
        "experimental": [kind for kind in drivers if kind.experimental],
        "crumbs": crumbs("Supply", ("Cluster templates", "operator_cluster_templates"), ("New", "")),
    }
    return draw_page(request, "operator/cluster_template_new.html", context)


def _draw(request: HttpRequest, here: OperatorPlace, row: ClusterTemplate, **more: Any) -> HttpResponseBase:
    newest = row.versions.first()
    text = json.dumps(newest.document, indent=2, ensure_ascii=False) if newest else ""

    def drawn(some: list[TemplateVersion]) -> list[tuple[TemplateVersion, Any, str]]:
        for version in some:
            version.template = row
        return [(version, definition_of(version), _standing(version, newest)) for version in some]

    shown_list = VERSIONS.of(
        request, list(row.versions.all()), drawn, without=() if here.may_manage else {"deprecate"}
    )
    given = {grant.organization_id for grant in row.grants.all()}
    context = {
        "template": row,
        "look": TEMPLATE_LOOKS[TemplateState(row.state)],
        "states": [
            (state.value, state.label)
            for state in TemplateState
            if state != TemplateState.DRAFT or row.state == TemplateState.DRAFT
        ],
        "versions": newest is not None,
        "document": text,
        "given": [grant.organization for grant in row.grants.all()],
        "others": [one for one in organizations_for(actor=here.actor) if one.pk not in given],
        "importable": services.parameters_are_told(row),
        "importing": parameters_import_find(actor=here.actor, template=row) is not None,
        "warm": warm_pools(actor=here.actor, template=row).count(),
        "version_form": VersionForm(initial={"document": text}),
        "crumbs": crumbs("Supply", ("Cluster templates", "operator_cluster_templates"), (row.name, "")),
        **more,
    }
    refused = "offer_error" in more
    return list_page(request, "operator/cluster_template.html", shown_list, context, refused=refused)


def _standing(version: TemplateVersion, newest: TemplateVersion | None) -> str:
    return "deprecated" if version.deprecated_at else "newest" if version == newest else "earlier"


template = template_page(_draw)


@template_action
def template_state(request: HttpRequest, here: OperatorPlace, row: ClusterTemplate) -> HttpResponseBase:
    asked = sent(request)
    state, public = asked.get("state", ""), "public" in asked
    before: dict[str, Any] = {"state": row.state, **({"public": "on"} if row.public else {})}
    back = undo_by("frontend:operator_cluster_template_state", row.slug, **before)
    if row.state == TemplateState.DRAFT:  # what was offered is no draft again
        back = ""
    try:
        services.template_update(actor=here.actor, template=row, state=state, public=public)
    except Invalid as error:
        return _draw(request, here, row, offer_error=error.message)
    return _done(request, row, f"{row.name} is {TemplateState(state).label.lower()} now.", back)


@template_action
@checked
def template_version(request: HttpRequest, here: OperatorPlace, row: ClusterTemplate) -> HttpResponseBase:
    form = VersionForm(request.POST, request.FILES)
    if form.is_valid():
        with refusals_on(form, GpuaasError, fields={"settings": "document"}, default="document"):
            made = services.template_version_add(
                actor=here.actor,
                template=row,
                document=form.cleaned_data["parsed"],
                note=form.cleaned_data["note"],
            )
            return _done(request, row, f"Version {made.number} is used for new orders from now on.")
    return _draw(request, here, row, version_form=form)


@template_action
def version_deprecate(
    request: HttpRequest, here: OperatorPlace, row: ClusterTemplate, version: int
) -> HttpResponse:
    found = template_version_get(template=row, number=version)
    was = found.deprecated_at is not None
    deprecated = sent(request).get("deprecated", "0" if was else "1") == "1"
    services.template_version_deprecate(actor=here.actor, version=found, deprecated=deprecated)
    outcome = "is deprecated; orders show a warning" if deprecated else "is no longer deprecated"
    back = undo_by("frontend:operator_cluster_template_deprecate", row.slug, version, deprecated=int(was))
    return _done(request, row, f"Version {version} {outcome}.", back)


@template_action
def template_give(request: HttpRequest, here: OperatorPlace, row: ClusterTemplate) -> HttpResponse:
    """To one organization, or back from it."""
    asked = sent(request)
    organization = organization_get_for(actor=here.actor, slug=asked.get("organization", "")[:40])
    granted = asked.get("granted") == "yes"
    services.template_grant(actor=here.actor, template=row, organization=organization, granted=granted)
    outcome = "can order it now" if granted else "can no longer order it; its existing clusters stay"
    before = {"organization": organization.slug, "granted": "no" if granted else "yes"}
    back = undo_by("frontend:operator_cluster_template_give", row.slug, **before)
    return _done(request, row, f"{organization.name} {outcome}.", back)


def _done(request: HttpRequest, row: ClusterTemplate, text: str, undo: str = "") -> HttpResponse:
    return done(request, text, "frontend:operator_cluster_template", row.slug, undo=undo)
