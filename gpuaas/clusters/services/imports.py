"""The parameters of a template, taken from its site where the site has them (a ClusterClass): asked for, published or dropped.

The site is asked by a task (reconcile/imports.py); nothing here but `template_parameters_import`, for commands, calls it.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.db import transaction

from gpuaas.clusters.models import ClusterTemplate, ParametersImport, TemplateVersion
from gpuaas.clusters.schema import Schema, schema_compile
from gpuaas.clusters.services.templates import template_locked, template_version_add
from gpuaas.clusters.site import cluster_driver_of, outside_transaction
from gpuaas.core import clock, events
from gpuaas.core.errors import Conflict, NotFound, StaleVersion
from gpuaas.core.queue import poke
from gpuaas.providers.base import ClusterKind, ClusterSchemaCapability
from gpuaas.providers.registry import cluster_driver_class
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.roles import Permission
from tenants.selectors import platform_require

TASK = "clusters.parameters_import"
VALID_FOR = timedelta(hours=24)  # of what was read: who publishes it later asks again


def parameters_are_told(template: ClusterTemplate) -> bool:
    """Whether sites of its driver say what may be chosen."""
    return issubclass(cluster_driver_class(template.driver), ClusterSchemaCapability)


def template_parameters_import(
    *, actor: Actor, template: ClusterTemplate, settings: Mapping[str, Any]
) -> Schema:
    """`parameters` for the next version of the template; writes nothing, and asks the site. Raises Unfit with the path of what a form
    cannot hold, Invalid beside `settings`, Conflict where the driver's sites say nothing of the kind."""
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    return parameters_read(template=template, settings=settings)


def parameters_read(*, template: ClusterTemplate, settings: Mapping[str, Any]) -> Schema:
    """As `template_parameters_import`, for whoever was allowed already."""
    driver = cluster_driver_of(template, template.site)
    if not isinstance(driver, ClusterSchemaCapability):
        raise Conflict(_says_nothing(template))
    driver.settings_check(ClusterKind(template.kind), settings)
    outside_transaction()
    found = dict(driver.parameters_schema(settings))
    schema_compile(found, path="parameters")
    return found


@transaction.atomic
def parameters_import_request(*, actor: Actor, template: ClusterTemplate) -> ParametersImport:
    """Ask the template's site, with the settings of its newest version. What is being asked already is not asked twice; an answer
    that was there is forgotten."""
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    row = template_locked(template)
    if not parameters_are_told(row):
        raise Conflict(_says_nothing(row))
    if not row.site.enabled:
        raise Conflict(f"the site {row.site.slug} is disabled: enable it first")
    base = row.versions.first()
    if base is None:
        raise Conflict("add a first version: its settings name what the site is asked for")
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
    """What was read becomes the parameters of a new version; the rest of its document is that of the version before.

    Raises Conflict where the template has another version since, where there is nothing to publish, or it is published."""
    found = _locked(actor, template, expected_version)
    if found.published is not None:
        raise Conflict(
            f"this is version {found.published.number} already", detail={"version": found.published.number}
        )
    if found.parameters is None or found.read_at is None:
        raise Conflict("the site has not answered yet: there is nothing to publish")
    newest = found.template.versions.first()
    if newest is None or newest.pk != found.base_id:
        raise Conflict("the template has a newer version since the site was asked: ask again")
    if found.read_at + VALID_FOR <= clock.now():
        raise Conflict("this was read more than a day ago, and may be another by now: ask again")
    made = template_version_add(
        actor=actor,
        template=found.template,
        document={**found.base.document, "parameters": found.parameters},
        note=f"parameters as {found.template.site.slug} told them at {found.read_at:%Y-%m-%d %H:%M} UTC",
    )
    found.published, found.version = made, found.version + 1
    found.save(update_fields=["published", "version"])
    parameters_import_announce(found)
    return made


@transaction.atomic
def parameters_import_drop(
    *, actor: Actor, template: ClusterTemplate, expected_version: int | None = None
) -> None:
    """Forget what was read, or stop asking; the template is what it was."""
    found = _locked(actor, template, expected_version)
    audit_record(actor=actor, action="cluster_template.import_drop", target=found.template)
    parameters_import_announce(found)
    found.delete()


def parameters_import_announce(row: ParametersImport) -> None:
    events.publish(kind="cluster_template_import", id=row.template_id, groups=(events.OPERATORS_GROUP,))


def _locked(actor: Actor, template: ClusterTemplate, expected_version: int | None) -> ParametersImport:
    """The template's lock is taken first, as by a request and by a new version."""
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    held = template_locked(template)
    rows = ParametersImport.objects.select_for_update(of=("self",), no_key=True)
    found = rows.select_related("base", "published").filter(template=held).first()
    if found is None:
        raise NotFound("nobody has asked the site for parameters, or they were dropped: ask first")
    if expected_version is not None and expected_version != found.version:
        raise StaleVersion(
            "it was asked for anew meanwhile; look at it again", detail={"version": found.version}
        )
    found.template = held
    return found


def _says_nothing(template: ClusterTemplate) -> str:
    return f"sites of the driver {template.driver} do not say what may be chosen"
