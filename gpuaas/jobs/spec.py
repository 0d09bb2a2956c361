"""Converts our rows to the spec for a driver; and the part of a site's driver that runs jobs."""

from dataclasses import replace

from gpuaas.jobs.guests import NOTICE
from gpuaas.jobs.models import Job
from gpuaas.jobs.mover import USER, mover_of, transfers_of
from gpuaas.jobs.states import STAGING, JobState, Priority
from gpuaas.lifecycle.inside import Part
from gpuaas.providers.base import JobCapability, Jobs, JobSpec
from gpuaas.staging.transfers import Way
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.spec import ref_of

FOR_SPEC = ("site", "workspace", "place", "pool")  # relations


def spec_of(row: Job) -> JobSpec:
    """Of its mover while its files are moved. Needs FOR_SPEC."""
    if row.state in STAGING:
        return mover_of(row, Way(row.staging))
    return _own_spec(row)


def _own_spec(row: Job) -> JobSpec:
    return JobSpec(
        id=row.pk,
        name=row.external_name,
        workspace=ref_of(row.runs_in),
        image=row.image,
        command=tuple(row.command),
        arguments=tuple(row.arguments),
        variables=row.variables,
        **row.sizes,
        resource_name=row.resource_name,
        volumes={row.volume: row.mount} if row.volume else {},
        files={},
        user=USER,
        retries=row.retries,
        deadline_seconds=row.deadline_seconds,
        tasks=row.tasks,
        at_once=row.at_once,
        together=row.together,
        launcher=row.launcher,
        runtime=row.runtime,
        attempt=max(row.attempt, 1) if row.together else 1,
        since=row.ready_at,
        made=row.observed.get("made", ""),
        priority=row.priority if row.place is None else Priority.LOW,
        notice_seconds=row.workspace.notice_seconds,
        grace_seconds=int(NOTICE.total_seconds()) if leaves_slowly(row) else 0,
    )


def leaves_slowly(row: Job) -> bool:
    """A guest, unless it is ended for good."""
    return row.place_id is not None and not row.outcome and row.state != JobState.DELETING


def _besides(row: Job) -> tuple[JobSpec, ...]:
    """Its movers, and itself while these are what is looked at, and where it was a guest before."""
    movers = [mover_of(row, way) for way in Way if transfers_of(row, way)]
    before = [each for each in row.lenders if each != str(row.place_id)]
    places = Workspace.objects.filter(pk__in=before) if before else ()
    left = [replace(_own_spec(row), workspace=ref_of(place)) for place in places]
    return (*movers, *([_own_spec(row)] if row.state in STAGING else []), *left)


JOBS: Part[Job, Jobs, JobSpec] = Part(JobCapability, "jobs", "runs no jobs", spec_of, FOR_SPEC, _besides)
