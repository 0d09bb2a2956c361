"""Jobs on Slurm clusters, as they are read."""

import uuid
from collections.abc import Iterable

from django.db.models import QuerySet

from gpuaas.clusters.models import Cluster, ClusterJob
from gpuaas.core.rows import first_of, searched


def cluster_jobs_of(
    *, cluster: Cluster, states: Iterable[str] | None = None, search: str = "", username: str = ""
) -> QuerySet[ClusterJob]:
    """The newest first, without scripts and logs; the caller has found the cluster for an actor."""
    rows = ClusterJob.objects.filter(cluster=cluster).select_related("created_by", "login").order_by("-pk")
    rows = rows.defer("script", "log")
    if states is not None:
        rows = rows.filter(state__in=list(states))
    if username:
        rows = rows.filter(created_by__username=username)
    return searched(rows, search) if search else rows


def cluster_job_people(*, cluster: Cluster) -> list[str]:
    """Names of those who have submitted one."""
    rows = ClusterJob.objects.filter(cluster=cluster).order_by("created_by__username")
    return list(rows.values_list("created_by__username", flat=True).distinct())


def cluster_job_get_of(*, cluster: Cluster, job_id: uuid.UUID) -> ClusterJob:
    row = first_of(cluster_jobs_of(cluster=cluster).defer(None).filter(pk=job_id), "job")
    row.cluster = cluster
    return row
