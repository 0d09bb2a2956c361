"""Jobs on Slurm clusters: ordered here, and carried to Slurm by the head in the answer to its report, or by the driver."""

from collections.abc import Mapping
from typing import Any

from django.db import transaction

from gpuaas.clusters.job_order import Partition, job_order_read
from gpuaas.clusters.models import Cluster, ClusterJob, ClusterQueue, ScalingPolicy
from gpuaas.clusters.selectors import cluster_require
from gpuaas.clusters.services.access import login_ask, login_entered
from gpuaas.clusters.services.job_reports import driver_takes, job_end
from gpuaas.clusters.services.movers import (
    files_why_not,
    staging_begin,
)
from gpuaas.clusters.services.rows import CLUSTER, cluster_announce, cluster_lock
from gpuaas.clusters.spec import burst_site, pools_of
from gpuaas.clusters.states import JOB_OPEN, ClusterJobState
from gpuaas.core import clock
from gpuaas.core.errors import Conflict, Forbidden, Mistakes
from gpuaas.core.retention import EMPTIED
from gpuaas.lifecycle.allowed import Verb
from gpuaas.providers.base import (
    ClusterKind,
    usable_mib,
)
from gpuaas.staging.credentials import credential_names
from gpuaas.staging.transfers import FILES, Way
from tenants.actors import Actor
from tenants.roles import Permission

MOST = 300  # jobs of a cluster that have not ended: all of them are in each report
S = ClusterJobState
# Slurm's words; those that are in none of them are of jobs that run, in one way or another
SILENT = (
    "the head of this cluster has not reported yet; try again in a minute. One that never does was made before the portal could hand jobs "
    "to it: submit there with sbatch"
)
OLD = "the head of this cluster was made before the portal could hand jobs to it: submit there with sbatch, or order a new cluster"


def jobs_why_not(cluster: Cluster) -> str:
    """Why it takes no jobs from the portal; "" = it does, as long as it may be entered."""
    if cluster.template_version.template.kind != ClusterKind.SLURM:
        return "jobs are submitted here to Slurm clusters only"
    if driver_takes(cluster.template_version.template.driver):
        return ""
    if cluster.logins is not None:
        return "" if cluster.takes_jobs else OLD
    reports = not cluster.takes_jobs and ClusterQueue.objects.filter(cluster=cluster).exists()
    return OLD if reports else SILENT


def partitions_of(cluster: Cluster) -> dict[str, Partition]:
    """The default first, which is never at another site. An empty one that a policy fills may get as many workers as that allows."""
    filled = ScalingPolicy.objects.filter(pool__cluster=cluster, enabled=True)
    most = dict(filled.values_list("pool", "maximum"))
    pools = sorted(pools_of(cluster), key=lambda row: burst_site(cluster, row.flavor) is not None)
    return {
        row.name: Partition(
            name=row.name,
            gpus=row.flavor.gpus,
            vcpus=row.flavor.vcpus,
            memory_gib=usable_mib(row.flavor.memory_gib) // 1024,
            workers=row.count or most.get(row.pk, 0),
        )
        for row in pools
    }


def cluster_job_wrong(*, cluster: Cluster, **given: Any) -> dict[str, list[str]]:
    """All that would be refused of an order, by field."""
    return _judged(cluster, given)[1].fields


def _judged(cluster: Cluster, given: Mapping[str, Any]) -> tuple[dict[str, Any], Mistakes]:
    wrong, names, unmoved = Mistakes(), frozenset[str](), ""
    if given.get("inputs") or given.get("outputs"):
        takes = driver_takes(cluster.template_version.template.driver)
        names, unmoved = credential_names(cluster.project_id), files_why_not(cluster, driver_takes=takes)
    read = job_order_read(given, partitions_of(cluster), wrong, credentials=names, unmoved=unmoved)
    return read, wrong


def cluster_job_submit(*, actor: Actor, cluster: Cluster, given: Mapping[str, Any]) -> ClusterJob:
    """As the actor's own account. Raises Invalid with all mistakes at their fields; Conflict where the cluster takes none now, or
    does not let the person in yet. Inside a transaction that ends with that, call `login_ask` before it."""
    login_ask(actor=actor, cluster=cluster)
    return _submit(actor, cluster, given)


@transaction.atomic
def _submit(actor: Actor, cluster: Cluster, given: Mapping[str, Any]) -> ClusterJob:
    cluster_require(actor=actor, cluster=cluster, permission=Permission.WORKSPACE_ACCESS)
    if actor.user_id is None:
        raise Forbidden("only a person can submit a job: it runs as their account")
    cluster = cluster_lock(cluster.pk)
    CLUSTER.require(cluster, Verb.ENTER)
    if why := jobs_why_not(cluster):
        raise Conflict(why)
    read, wrong = _judged(cluster, given)
    wrong.refuse()
    login = login_entered(cluster, actor.user_id)
    _few_require(cluster)
    row = ClusterJob(
        cluster=cluster, login=login, created_by_id=actor.user_id, created_at=clock.now(), **read
    )
    if row.inputs:
        staging_begin(row, Way.IN)
    row.save(force_insert=True)
    after = {name: read[name] for name in ("name", "partition", "nodes", "gpus_per_node")}
    after |= {name: [each["url"] for each in read[name]] for name in FILES if read[name]}
    CLUSTER.audit(cluster, actor, "job_submit", after={"job": str(row.pk), **after})
    cluster_announce(cluster)
    return row


@transaction.atomic
def cluster_job_cancel(*, actor: Actor, job: ClusterJob) -> ClusterJob:
    """At once while no head has it; otherwise Slurm ends it. Repeating changes nothing. Raises Conflict for one that has ended."""
    cluster_require(actor=actor, cluster=job.cluster, permission=Permission.WORKSPACE_ACCESS)
    row = _locked(job)
    if row.state == S.CANCELLED or row.cancel_asked_at is not None:
        return row
    if not row.is_open:
        raise Conflict("the job has ended")
    row.cancel_asked_at, row.reason = clock.now(), ""
    if row.offered_at is None:
        job_end(row, S.CANCELLED, row.cancel_asked_at, code=row.exit_code)
    row.save()
    CLUSTER.audit(row.cluster, actor, "job_cancel", after={"job": str(row.pk), "name": row.name})
    cluster_announce(row.cluster)
    return row


@transaction.atomic
def cluster_job_retry(*, actor: Actor, job: ClusterJob) -> ClusterJob:
    """Of one whose files could not be moved: that is tried again, and what was moved stays. Raises Conflict for any other."""
    cluster_require(actor=actor, cluster=job.cluster, permission=Permission.WORKSPACE_ACCESS)
    cluster_lock(job.cluster_id)
    row = _locked(job)
    if row.emptied_at is not None:
        raise Conflict(EMPTIED)
    if not row.is_unmoved:
        raise Conflict("its files are not what failed: submit another job")
    CLUSTER.require(row.cluster, Verb.ENTER)
    _few_require(row.cluster)
    staging_begin(row, Way(row.staging))
    row.finished_at = row.cancel_asked_at = None
    row.save()
    CLUSTER.audit(row.cluster, actor, "job_retry", after={"job": str(row.pk), "name": row.name})
    cluster_announce(row.cluster)
    return row


def _locked(job: ClusterJob) -> ClusterJob:
    rows = ClusterJob.objects.select_for_update(of=("self",))
    return rows.select_related("cluster__project", "cluster__template_version__template").get(pk=job.pk)


def _few_require(cluster: Cluster) -> None:
    """Its row is locked, so that of two submissions of the last one only one is accepted."""
    if ClusterJob.objects.filter(cluster=cluster, state__in=JOB_OPEN).count() >= MOST:
        raise Conflict(
            f"the cluster has {MOST} jobs of the portal that have not ended: submit it when some have"
        )
