"""Background tasks of jobs. Arguments are ids; everything else is read again."""

import uuid

from celery import shared_task

from gpuaas.catalog.lanes import SiteTask
from gpuaas.core import claims
from gpuaas.jobs import reconcile
from gpuaas.jobs.mails import mails_send
from gpuaas.jobs.models import Job
from gpuaas.jobs.selectors import waiting
from gpuaas.jobs.services.guests import AWAY, STAY
from gpuaas.jobs.services.inside import left_delete
from gpuaas.jobs.services.queue import TASK, queue_poke, queue_start
from gpuaas.jobs.services.retention import jobs_empty
from gpuaas.jobs.services.rows import JOB


@shared_task(name=JOB.task, base=SiteTask, site_by="jobs")
def job_visit(job_id: str) -> None:
    reconcile.run(uuid.UUID(job_id))


@shared_task(name=TASK)
def queue(workspace_id: str) -> int:
    """One round of the queue of a workspace, which asks no site."""
    return queue_start(workspace_id=uuid.UUID(workspace_id))


@shared_task(name="jobs.mails")
def mails() -> int:
    return mails_send()


@shared_task(name="jobs.sweep")
def sweep() -> int:
    """Starts what is due: steps, looks and retries; and a round of each queue, for what became free elsewhere, and of each workspace
    with guests, which may have to leave, or whose own wait elsewhere. Then deletes what is left of workspaces and empties jobs that
    ended long ago, which hold up none of it."""
    queues = waiting().order_by().values_list("workspace", flat=True).distinct()
    lenders = Job.objects.filter(STAY).order_by().values_list("place", flat=True).distinct()
    homes = Job.objects.filter(AWAY).order_by().values_list("workspace", flat=True).distinct()
    for workspace_id in dict.fromkeys([*queues, *lenders, *homes]):
        queue_poke(workspace_id)
    started = claims.due_poke(Job, JOB.task, by="site")
    left_delete()
    jobs_empty()
    return started
