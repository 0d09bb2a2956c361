"""What a visit to a job reads and writes, whether the job runs or its files are moved."""

from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from gpuaas.jobs.models import Job
from gpuaas.jobs.services.rows import JOB
from gpuaas.jobs.spec import JOBS
from gpuaas.jobs.states import CHANGING, STAGING, JobState
from gpuaas.lifecycle import inside, visits
from gpuaas.lifecycle.inside import Record
from gpuaas.lifecycle.kind import ConditionChange
from gpuaas.lifecycle.operations import StepRow
from gpuaas.providers.base import Jobs, JobSpec

S = JobState
LOOK_MOST = timedelta(seconds=15)  # between two looks at one that runs
GONE = "it was removed at the site, not by the portal"
Visit = inside.Visit[Job, Jobs, JobSpec]


class JobRecord(Record[Job, Jobs, JobSpec]):
    def step_wait(
        self,
        job: visits.Job[Job],
        step: StepRow,
        detail: str,
        answers: ConditionChange,
        *,
        due_at: datetime,
        **changes: Any,
    ) -> None:
        """A job has no timeline: what its start waits for is what it waits for."""
        with transaction.atomic():
            super().step_wait(job, step, detail, answers, due_at=due_at, **changes)
            rows = Job.objects.filter(pk=job.row.pk, state__in=[S.STARTING, *STAGING])
            rows.update(waiting=detail[:300])


RECORD = JobRecord(JOB, JOBS, CHANGING | STAGING)
