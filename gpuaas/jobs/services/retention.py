"""What a job ran is kept for a while after its end; when it ran, on which GPUs and for how much is kept for good."""

from django.db import transaction
from django.db.models.functions import Coalesce

from gpuaas.core import clock
from gpuaas.core.retention import BATCH, kept_since
from gpuaas.jobs.models import OVER, Job, JobLog, TaskLog


@transaction.atomic
def jobs_empty() -> int:
    """Returns how many. One that somebody holds is emptied by a later round, unless it is moved on meanwhile."""
    since = kept_since()
    if since is None:
        return 0
    old = Job.objects.alias(over_at=Coalesce("finished_at", "deleted_at"))
    old = old.filter(state__in=OVER, emptied_at=None, over_at__lt=since).order_by("over_at")
    found = list(old.select_for_update(skip_locked=True).values_list("pk", flat=True)[:BATCH])
    for logs in (JobLog, TaskLog):
        logs.objects.filter(job__in=found).delete()
    rows = Job.objects.filter(pk__in=found)
    return rows.update(command=[], arguments=[], variables={}, emptied_at=clock.now())
