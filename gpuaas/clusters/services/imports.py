"""The schema of a template's parameters, taken from the site where the site has one (a ClusterClass)."""

from collections.abc import Mapping
from typing import Any

from gpuaas.clusters.models import ClusterTemplate
from gpuaas.clusters.schema import Schema, schema_compile
from gpuaas.clusters.site import cluster_driver_of, outside_transaction
from gpuaas.core.errors import Conflict
from gpuaas.providers.base import ClusterKind, ClusterSchemaCapability
from tenants.actors import Actor
from tenants.roles import Permission
from tenants.selectors import platform_require


def template_parameters_import(
    *, actor: Actor, template: ClusterTemplate, settings: Mapping[str, Any]
) -> Schema:
    """`parameters` for the next version of the template; writes nothing, and asks the site. Raises Unfit with the path of what a form
    cannot hold, Invalid beside `settings`, Conflict where the driver's sites say nothing of the kind."""
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    driver = cluster_driver_of(template, template.site)
    if not isinstance(driver, ClusterSchemaCapability):
        raise Conflict(f"sites of the driver {template.driver} do not say what may be chosen")
    driver.settings_check(ClusterKind(template.kind), settings)
    outside_transaction()
    found = dict(driver.parameters_schema(settings))
    schema_compile(found, path="parameters")
    return found
