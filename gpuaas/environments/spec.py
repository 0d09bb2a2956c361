"""Converts our rows to the spec for a driver; and the part of a site's driver that runs environments."""

from gpuaas.catalog.spec import plain_storage_class
from gpuaas.environments.definition import definition_read
from gpuaas.environments.models import Environment
from gpuaas.lifecycle.inside import Part
from gpuaas.providers.base import EnvironmentCapability, Environments, EnvironmentSpec
from gpuaas.workspaces.spec import ref_of

FOR_SPEC = ("site", "workspace", "made_of", "pool")  # relations


def spec_of(row: Environment) -> EnvironmentSpec:
    """Needs FOR_SPEC. One query: the home is plain storage."""
    definition = definition_read(row.made_of.document)
    return EnvironmentSpec(
        id=row.pk,
        name=row.external_name,
        workspace=ref_of(row.workspace),
        image=definition.image,
        port=definition.port,
        readiness=definition.readiness,
        home=definition.home,
        storage_class=plain_storage_class(row.site_id),
        user=definition.user,
        **row.sizes,
        resource_name=row.resource_name,
        command=definition.command,
        arguments=definition.arguments,
        variables=definition.environment_of(row.parameters),
        notice_seconds=row.workspace.notice_seconds,
    )


ENVIRONMENTS: Part[Environment, Environments, EnvironmentSpec] = Part(
    EnvironmentCapability, "environments", "offers no environments", spec_of, FOR_SPEC
)
