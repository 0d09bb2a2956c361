"""What a job on a Slurm cluster ran is kept for a while after its end."""

from django.db import transaction

from gpuaas.clusters.models import ClusterJob
from gpuaas.clusters.states import JOB_OVER
from gpuaas.core import clock
from gpuaas.core.retention import BATCH, kept_since


@transaction.atomic
def cluster_jobs_empty() -> int:
    """Returns how many. One that somebody holds is emptied by a later round, unless it is moved on meanwhile."""
    since = kept_since()
    if since is None:
        return 0
    old = ClusterJob.objects.filter(state__in=JOB_OVER, emptied_at=None, finished_at__lt=since)
    rows = old.order_by("finished_at").select_for_update(skip_locked=True)
    found = list(rows.values_list("pk", flat=True)[:BATCH])
    return ClusterJob.objects.filter(pk__in=found).update(script="", log="", emptied_at=clock.now())
