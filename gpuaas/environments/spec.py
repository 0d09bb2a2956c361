"""Converts our rows to the spec for a driver; and the part of a site's driver that runs environments."""

from gpuaas.catalog.models import Site
from gpuaas.catalog.site import driver_of, kind_of
from gpuaas.catalog.spec import plain_storage_class
from gpuaas.environments.definition import definition_read
from gpuaas.environments.models import Environment
from gpuaas.providers.base import EnvironmentCapability, Environments, EnvironmentSpec
from gpuaas.workspaces.spec import ref_of

FOR_SPEC = ("site", "workspace", "made_of", "pool")  # relations


def environments_offered(site: Site) -> bool:
    """Asks the driver's class, not the site."""
    return issubclass(kind_of(site), EnvironmentCapability)


def environments_at(site: Site) -> Environments | None:
    """None where the site offers none."""
    driver = driver_of(site)
    return driver.environments if isinstance(driver, EnvironmentCapability) else None


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
        home_gib=row.home_gib,
        storage_class=plain_storage_class(row.site_id),
        vcpus=row.vcpus,
        memory_gib=row.memory_gib,
        user=definition.user,
        gpus=row.gpus,
        resource_name=row.pool.resource_name if row.pool is not None and row.gpus else "",
        command=definition.command,
        arguments=definition.arguments,
        variables=definition.environment_of(row.parameters),
    )
