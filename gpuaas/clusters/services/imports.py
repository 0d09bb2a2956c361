"""The parameters of a template, imported from its site if the site has them (a ClusterClass): requested, published or
dropped.

A task asks the site (reconcile/imports.py); nothing here but `template_parameters_import`, for commands, calls it.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.db import transaction

from gpuaas.clusters.models import ClusterTemplate, ParametersImport, TemplateVersion
from gpuaas.clusters.services.templates import template_locked, template_version_add
from gpuaas.clusters.site import cluster_driver_of, outside_transaction
from gpuaas.core import clock, events
from gpuaas.core.errors import Conflict, NotFound, StaleVersion
from gpuaas.core.queue import poke
from gpuaas.core.schema import Schema, schema_compile
from gpuaas.providers.base import ClusterKind, ClusterSchemaCapability
from gpuaas.providers.registry import cluster_driver_class
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.roles import Permission
from tenants.selectors import platform_require

TASK = "clusters.parameters_import"
VALID_FOR = timedelta(hours=24)  # of what was read: who publishes it later asks again


def parameters_are_told(template: ClusterTemplate) -> bool:
    """Whether sites of its driver offer parameters."""
    return issubclass(cluster_driver_class(template.driver), ClusterSchemaCapability)


def template_parameters_import(
    *, actor: Actor, template: ClusterTemplate, settings: Mapping[str, Any]
) -> Schema:
    """`parameters` for the next version of the template; calls the site and writes nothing. Raises Unfit with the
    path of what a form cannot show, Invalid on `settings`, Conflict if sites of the driver offer no parameters."""
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    return parameters_read(template=template, settings=settings)


def parameters_read(*, template: ClusterTemplate, settings: Mapping[str, Any]) -> Schema:
    """Like `template_parameters_import`, for callers that are already authorized."""
    driver = cluster_driver_of(template, template.site)
    if not isinstance(driver, ClusterSchemaCapability):
        raise Conflict(_says_nothing(template))
    driver.settings_check(ClusterKind(template.kind), settings)
    outside_transaction()
    schema = dict(driver.parameters_schema(settings))
    schema_compile(schema, path="parameters")
    return schema


@transaction.atomic
def parameters_import_request(*, actor: Actor, template: ClusterTemplate) -> ParametersImport:
    """Asks the template's site, with the settings of its newest version. A running request is not started twice; a
    previous answer is dropped."""
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    row = template_locked(template)
    if not parameters_are_told(row):
        raise Conflict(_says_nothing(row))
    if not row.site.enabled:
        raise Conflict(f"the site {row.site.slug} is disabled: enable it first")
    base = row.versions.first()
    if base is None:
        raise Conflict("add a first version: its settings name what to ask the site for")
    known = ParametersImport.objects.filter(template=row).first()
    if known is not None and known.due_at is not None and not known.failure and known.base_id == base.pk:
        return known
    moment = clock.now()
    asked = {
        "base": base,
        "requested_by": actor.name,
        "requested_at": moment,
        "due_at": moment,
        "attempts": 0,
        # whoever asks now asks for something else, or too long: its answer is dropped
        "claim_token": None,
        "claim_until": None,
        "read_at": None,
        "parameters": None,
        "failure": "",
        "published": None,
        "version": known.version + 1 if known else 1,
    }
    made, _ = ParametersImport.objects.update_or_create(template=row, defaults=asked)
    audit_record(actor=actor, action="cluster_template.import", target=row, after={"base": base.number})
    parameters_import_announce(made)
    poke(TASK, str(row.pk))
    return made


@transaction.atomic
def parameters_import_publish(
    *, actor: Actor, template: ClusterTemplate, expected_version: int | None = None
) -> TemplateVersion:
    """Publishes the imported parameters as a new version; the rest of its document is that of the version before.

    Raises Conflict if the template has another version since, if there is nothing to publish, or if it is already
    published.
    """
    row = _locked(actor, template, expected_version)
    if row.published is not None:
        raise Conflict(
            f"this was already published as version {row.published.number}",
            detail={"version": row.published.number},
        )
    if row.parameters is None or row.read_at is None:
        raise Conflict("the site has not answered yet: there is nothing to publish")
    newest = row.template.versions.first()
    if newest is None or newest.pk != row.base_id:
        raise Conflict("the template has a version newer than this answer: ask again")
    if row.read_at + VALID_FOR <= clock.now():
        raise Conflict("this answer is more than a day old: ask again")
    made = template_version_add(
        actor=actor,
        template=row.template,
        document={**row.base.document, "parameters": row.parameters},
        note=f"parameters from {row.template.site.slug} at {row.read_at:%Y-%m-%d %H:%M} UTC",
    )
    row.published, row.version = made, row.version + 1
    row.save(update_fields=["published", "version"])
    parameters_import_announce(row)
    return made


@transaction.atomic
def parameters_import_drop(
    *, actor: Actor, template: ClusterTemplate, expected_version: int | None = None
) -> None:
    """Drops the answer, or cancels the request; the template does not change."""
    row = _locked(actor, template, expected_version)
    audit_record(actor=actor, action="cluster_template.import_drop", target=row.template)
    parameters_import_announce(row)
    row.delete()


def parameters_import_announce(row: ParametersImport) -> None:
    events.publish(kind="cluster_template_import", id=row.template_id, groups=(events.OPERATORS_GROUP,))


def _locked(actor: Actor, template: ClusterTemplate, expected_version: int | None) -> ParametersImport:
    """Takes the template's lock first, as a request and a new version do."""
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    held = template_locked(template)
    rows = ParametersImport.objects.select_for_update(of=("self",), no_key=True)
    found = rows.select_related("base", "published").filter(template=held).first()
    if found is None:
        raise NotFound("no parameters were requested from the site, or they were dropped: request them first")
    if expected_version is not None and expected_version != found.version:
        raise StaleVersion(
            "the parameters were requested again since you read them; read them again",
            detail={"version": found.version},
        )
    found.template = held
    return found


def _says_nothing(template: ClusterTemplate) -> str:
    return f"sites of the driver {template.driver} do not offer parameters"
