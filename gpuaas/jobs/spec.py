"""Converts our rows to the spec for a driver; and the part of a site's driver that runs jobs."""

from gpuaas.catalog.models import Site
from gpuaas.catalog.site import driver_of, kind_of
from gpuaas.jobs.models import Job
from gpuaas.providers.base import JobCapability, Jobs, JobSpec
from gpuaas.workspaces.spec import ref_of

FOR_SPEC = ("site", "workspace", "pool")  # relations
USER = 1000  # the numeric account as which jobs run, which owns the homes of environments too


def spec_of(row: Job) -> JobSpec:
    """Needs FOR_SPEC."""
    return JobSpec(
        id=row.pk,
        name=row.external_name,
        workspace=ref_of(row.workspace),
        image=row.image,
        command=tuple(row.command),
        arguments=tuple(row.arguments),
        variables=row.variables,
        **row.sizes,
        resource_name=row.pool.resource_name if row.pool is not None and row.gpus else "",
        volume=row.volume,
        mount=row.mount,
        user=USER,
        retries=row.retries,
        deadline_seconds=row.deadline_seconds,
    )


def jobs_at(site: Site) -> Jobs | None:
    """None where the site runs none."""
    driver = driver_of(site)
    return driver.jobs if isinstance(driver, JobCapability) else None


def jobs_offered(site: Site) -> bool:
    """Asks the driver's class, not the site."""
    return issubclass(kind_of(site), JobCapability)
