"""Converts our rows to the spec for a driver; and the part of a site's driver that runs jobs."""

from gpuaas.jobs.models import Job
from gpuaas.lifecycle.inside import Part
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
        resource_name=row.resource_name,
        volume=row.volume,
        mount=row.mount,
        user=USER,
        retries=row.retries,
        deadline_seconds=row.deadline_seconds,
        tasks=row.tasks,
        at_once=row.at_once,
        together=row.together,
        attempt=max(row.attempt, 1) if row.together else 1,
        since=row.ready_at,
    )


JOBS: Part[Job, Jobs, JobSpec] = Part(JobCapability, "jobs", "runs no jobs", spec_of, FOR_SPEC)
