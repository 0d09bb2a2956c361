"""Operators: the kinds of environments that tenants can order."""

import json
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect

from frontend.forms.clusters import VersionForm
from frontend.forms.environments import KindForm
from frontend.frame import checked, done, draw_page, posted, refusals_on, sent, undo_by
from frontend.lists import Column, Filter, Listing, find, list_page, named, narrowed
from frontend.views.operator.common import OperatorPlace, crumbs, operator_page, row_doors
from gpuaas.core.errors import GpuaasError
from gpuaas.core.looks import Tone
from gpuaas.environments import services
from gpuaas.environments.definition import definition_read
from gpuaas.environments.models import EnvironmentKind, KindVersion
from gpuaas.environments.selectors import kind_get, kinds_all
from gpuaas.environments.states import KindState
from gpuaas.providers.base import workers_words

TONES = {KindState.ACTIVE: Tone.OK, KindState.RETIRED: Tone.OFF}
PAGE = "frontend:operator_environment_kind"
KINDS = Listing(
    "kinds",
    (
        Column("name", "Kind", "name"),
        Column("slug"),
        Column("state", "State", "state"),
        Column("newest", "Newest version", "newest", numeric=True),
        Column("description", "Description"),
    ),
    (find(), Filter("state", "State", "every state", KindState.choices)),
)
VERSIONS = Listing(
    "versions",
    (
        Column("version", "Version", "number", "0.number", numeric=True),
        Column("image", "Image", value="1.image"),
        Column("sizes", "Default size", value=lambda row: sizes_of(row[1])),
        Column("added_at", "Added", "created_at", "0.created_at"),
        Column("added_by", value="0.created_by"),
        Column("note", value="0.note"),
    ),
    size=20,
)


def sizes_of(definition: Any) -> str:
    sizes, workers = definition.sizes, definition.workers
    main = (
        f"{sizes['gpus']} GPU, {sizes['vcpus']} vCPU, {sizes['memory_gib']} GiB, home {sizes['home_gib']} GiB"
    )
    return f"{main}; {workers.count} of at most {workers_words(workers.most)}" if workers else main


@operator_page
def kinds(request: HttpRequest, here: OperatorPlace) -> HttpResponseBase:
    found = KINDS.of(
        request,
        lambda query: narrowed(
            named(kinds_all(actor=here.actor), query["q"], "name", "slug"), query, {"state": "state"}
        ),
    )
    context = {"tones": TONES, "crumbs": crumbs("Supply", ("Environments", ""))}
    return list_page(request, "operator/environment_kinds.html", found, context)


@operator_page
@checked
def kind_new(request: HttpRequest, here: OperatorPlace) -> HttpResponse:
    if not here.may_manage:
        return redirect("frontend:operator_environment_kinds")
    form = KindForm(posted(request), request.FILES or None)
    if form.is_valid():
        data = form.cleaned_data
        asked = {name: data[name] for name in ("slug", "name", "description", "note")}
        with refusals_on(form, GpuaasError):
            made = services.kind_create(actor=here.actor, document=data["parsed"], **asked)
            return done(request, f"{made.name} can be ordered now.", PAGE, made.slug)
    trail = crumbs("Supply", ("Environments", "operator_environment_kinds"), ("New", ""))
    return draw_page(request, "operator/environment_kind_new.html", {"form": form, "crumbs": trail})


def _kind(here: OperatorPlace, slug: str) -> EnvironmentKind:
    return kind_get(actor=here.actor, slug=slug)


kind_page, kind_action = row_doors(_kind, "slug")


def _draw(request: HttpRequest, here: OperatorPlace, row: EnvironmentKind, **more: Any) -> HttpResponseBase:
    versions: list[KindVersion] = list(row.versions.all())
    text = json.dumps(versions[0].document, indent=2, ensure_ascii=False)
    found = VERSIONS.of(
        request, versions, lambda some: [(each, definition_read(each.document)) for each in some]
    )
    context = {
        "kind": row,
        "tone": TONES[KindState(row.state)],
        "retired": row.state == KindState.RETIRED,
        "document": text,
        "version_form": VersionForm(initial={"document": text}),
        "crumbs": crumbs("Supply", ("Environments", "operator_environment_kinds"), (row.name, "")),
        **more,
    }
    return list_page(request, "operator/environment_kind.html", found, context)


kind = kind_page(_draw)


@kind_action
@checked
def version_add(request: HttpRequest, here: OperatorPlace, row: EnvironmentKind) -> HttpResponseBase:
    form = VersionForm(request.POST, request.FILES)
    if form.is_valid():
        data = form.cleaned_data
        with refusals_on(form, GpuaasError, default="document"):
            made = services.kind_version_add(
                actor=here.actor, kind=row, document=data["parsed"], note=data["note"]
            )
            return done(request, f"Version {made.number} is ordered from now on.", PAGE, row.slug)
    return _draw(request, here, row, version_form=form)


@kind_action
def retire(request: HttpRequest, here: OperatorPlace, row: EnvironmentKind) -> HttpResponse:
    was = row.state == KindState.RETIRED
    retired = sent(request).get("retired", "0" if was else "1") == "1"
    services.kind_retire(actor=here.actor, kind=row, retired=retired)
    outcome = "is retired: nobody can order it any more" if retired else "can be ordered again"
    back = undo_by("frontend:operator_environment_kind_retire", row.slug, retired=int(was))
    return done(request, f"{row.name} {outcome}.", PAGE, row.slug, undo=back)
