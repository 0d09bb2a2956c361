"""Parameters imported from a site, compared with the template: the changes, and which present choices no longer fit."""

import json
from dataclasses import dataclass
from datetime import datetime

from gpuaas.clusters.difference import ParameterChange, parameters_difference
from gpuaas.clusters.models import Cluster, ClusterTemplate, ParametersImport, WarmPool
from gpuaas.clusters.selectors import definition_of
from gpuaas.clusters.services.imports import VALID_FOR
from gpuaas.clusters.states import LIVE
from gpuaas.core.errors import Invalid, NotFound
from gpuaas.core.schema import Document, Schema, document_check, schema_compile
from tenants.actors import Actor
from tenants.selectors import platform_require

LOOKED_AT = 1000  # clusters of one template; the first that were made


@dataclass(frozen=True)
class Misfit:
    """A cluster, or a warm pool (`cluster` is None), whose choice the site no longer accepts."""

    name: str
    project: str
    reason: str
    cluster: Cluster | None = None


@dataclass(frozen=True)
class Answer:
    """`outdated`: the template has another version since, with which the changes are compared anyway; `old`: read too
    long ago."""

    changes: tuple[ParameterChange, ...]
    misfits: tuple[Misfit, ...]
    outdated: bool
    old: bool

    @property
    def publishable(self) -> bool:
        return not self.outdated and not self.old


def parameters_import_find(*, actor: Actor, template: ClusterTemplate) -> ParametersImport | None:
    """None if nobody has requested it, or if it was dropped."""
    platform_require(actor=actor)
    rows = ParametersImport.objects.select_related("template__site", "base__template", "published")
    return rows.filter(template=template).first()


def parameters_import_get(*, actor: Actor, template: ClusterTemplate) -> ParametersImport:
    found = parameters_import_find(actor=actor, template=template)
    if found is None:
        raise NotFound("no parameters were requested from the site, or they were dropped: request them first")
    return found


def parameters_import_answer(*, row: ParametersImport, now: datetime) -> Answer | None:
    """None while there is no answer. 3 queries."""
    if row.parameters is None or row.read_at is None:
        return None
    newest = row.template.versions.order_by("-number").first() if row.published is None else row.published
    schema = schema_compile(row.parameters, path="parameters")
    return Answer(
        changes=parameters_difference(definition_of(row.base).parameters, schema),
        misfits=tuple(_misfits(row.template, schema)),
        outdated=newest is not None and newest.pk != row.base_id and row.published is None,
        old=row.read_at + VALID_FOR <= now,
    )


def _misfits(template: ClusterTemplate, schema: Schema) -> list[Misfit]:
    known: dict[str, str] = {}

    def wrong(chosen: Document) -> str:
        key = json.dumps(chosen, sort_keys=True)
        if key not in known:
            known[key] = _wrong(schema, chosen)
        return known[key]

    rows = Cluster.objects.filter(template_version__template=template, state__in=LIVE)
    clusters = rows.select_related("project").order_by("pk")[:LOOKED_AT]
    pools = WarmPool.objects.filter(template=template, ended_at=None).select_related("project")
    misfits = [
        Misfit(row.name, row.project.slug, reason, row)
        for row in clusters
        if (reason := wrong(row.parameters))
    ]
    return misfits + [
        Misfit(pool.name, pool.project.slug, reason)
        for pool in pools
        if (reason := wrong(pool.document.get("parameters", {})))
    ]


def _wrong(schema: Schema, chosen: Document) -> str:
    try:
        document_check(schema, chosen)
    except Invalid as error:
        return error.message
    return ""
