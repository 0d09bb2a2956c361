"""Jobs on Slurm clusters: ordered here, and carried to Slurm by the head in the answer to its report, or by the driver."""

import uuid
from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.db import transaction

from gpuaas.clusters.job_order import FILES, Partition, job_order_read
from gpuaas.clusters.models import Cluster, ClusterJob
from gpuaas.clusters.selectors import cluster_require, logins_admitted
from gpuaas.clusters.services.access import login_entered
from gpuaas.clusters.services.movers import (
    files_why_not,
    moved_end,
    moved_failure,
    moved_keep,
    mover_order,
    staging_begin,
)
from gpuaas.clusters.services.rows import CLUSTER, cluster_announce, driver_of
from gpuaas.clusters.site import outside_transaction
from gpuaas.clusters.spec import burst_site, pools_of, spec_of
from gpuaas.clusters.states import JOB_OPEN, ClusterJobState, ClusterState
from gpuaas.core import clock
from gpuaas.core.errors import Conflict, Forbidden, GpuaasError, Mistakes
from gpuaas.core.terminal import plain
from gpuaas.lifecycle.allowed import Verb
from gpuaas.providers.base import GONE, REFUSED, ClusterJobsCapability, ClusterKind, SlurmOrder, SlurmSeen
from gpuaas.providers.registry import cluster_driver_class, cluster_driver_names
from gpuaas.staging.credentials import credential_names
from gpuaas.staging.transfers import Way
from tenants.actors import Actor
from tenants.roles import Permission

log = structlog.get_logger(__name__)
MOST = 300  # jobs of a cluster that have not ended: all of them are in each report
OFFERED_MOST = 20  # scripts in one answer
LOG_MOST = 16_384
FORGOTTEN = timedelta(minutes=10)  # Slurm's accounting may be behind its controller
S = ClusterJobState
# Slurm's words; those that are in none of them are of jobs that run, in one way or another
WAITS = frozenset(
    {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"}
)
FAILS = {
    "FAILED": "",
    "TIMEOUT": "it reached its time limit",
    "OUT_OF_MEMORY": "it used more memory than it had asked for",
    "NODE_FAIL": "one of its nodes failed",
    "BOOT_FAIL": "its nodes did not start",
    "DEADLINE": "it could not end by its deadline",
    "PREEMPTED": "it was preempted",
    REFUSED: "",
}
CANCELS = frozenset({"CANCELLED", "REVOKED"})
OLD = "the head of this cluster was made before the portal could hand jobs to it: submit there with sbatch, or order a new cluster"


def jobs_why_not(cluster: Cluster) -> str:
    """Why it takes no jobs from the portal; "" = it does, as long as it may be entered."""
    if cluster.template_version.template.kind != ClusterKind.SLURM:
        return "jobs are submitted here to Slurm clusters only"
    if cluster.takes_jobs or _driver_takes(cluster.template_version.template.driver):
        return ""
    if cluster.logins is None:
        return "the head of this cluster has not reported yet; try again in a minute"
    return OLD


def partitions_of(cluster: Cluster) -> dict[str, Partition]:
    """The default first, which is never at another site."""
    pools = sorted(pools_of(cluster), key=lambda row: burst_site(cluster, row.flavor) is not None)
    return {
        row.name: Partition(row.name, row.flavor.gpus, row.flavor.vcpus, row.flavor.memory_gib)
        for row in pools
    }


def cluster_job_wrong(*, cluster: Cluster, **given: Any) -> dict[str, list[str]]:
    """All that would be refused of an order, by field."""
    return _judged(cluster, given)[1].fields


def _judged(cluster: Cluster, given: Mapping[str, Any]) -> tuple[dict[str, Any], Mistakes]:
    wrong, names, unmoved = Mistakes(), frozenset[str](), ""
    if given.get("inputs") or given.get("outputs"):
        takes = _driver_takes(cluster.template_version.template.driver)
        names, unmoved = credential_names(cluster.project_id), files_why_not(cluster, driver_takes=takes)
    read = job_order_read(given, partitions_of(cluster), wrong, credentials=names, unmoved=unmoved)
    return read, wrong


@transaction.atomic
def cluster_job_submit(*, actor: Actor, cluster: Cluster, given: Mapping[str, Any]) -> ClusterJob:
    """As the actor's own account. Raises Invalid with all mistakes at their fields; Conflict where the cluster takes none now, or
    does not let the person in yet."""
    cluster_require(actor=actor, cluster=cluster, permission=Permission.WORKSPACE_ACCESS)
    if actor.user_id is None:
        raise Forbidden("only a person can submit a job: it runs as their account")
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
    row.cancel_asked_at = clock.now()
    if row.offered_at is None:
        _end(row, S.CANCELLED, row.cancel_asked_at, code=row.exit_code)
    row.save()
    CLUSTER.audit(row.cluster, actor, "job_cancel", after={"job": str(row.pk), "name": row.name})
    cluster_announce(row.cluster)
    return row


@transaction.atomic
def cluster_job_retry(*, actor: Actor, job: ClusterJob) -> ClusterJob:
    """Of one whose files could not be moved: that is tried again, and what was moved stays. Raises Conflict for any other."""
    cluster_require(actor=actor, cluster=job.cluster, permission=Permission.WORKSPACE_ACCESS)
    row = _locked(job)
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
    if ClusterJob.objects.filter(cluster=cluster, state__in=JOB_OPEN).count() >= MOST:
        raise Conflict(
            f"the cluster has {MOST} jobs of the portal that have not ended: submit it when some have"
        )


@transaction.atomic
def jobs_exchange(cluster: Cluster, seen: Iterable[SlurmSeen]) -> list[SlurmOrder]:
    """Keeps what Slurm says, and answers with what is to be done: every job that has not ended, until Slurm has ended it."""
    rows = _open_locked(cluster)
    known = {row.key: row for row in rows}
    moment, before, lost = clock.now(), {row.pk: _kept(row) for row in rows}, set[uuid.UUID]()
    for one in seen:
        if (row := known.get(one.id)) is not None and row.is_open and row.key == one.id:
            _keep(row, one, moment)
            lost |= {one.id} if one.state == GONE else set()
    _rights_follow(cluster, rows, moment)
    orders = _orders(rows, lost, moment)
    changed = [row for row in rows if before[row.pk] != _kept(row)]
    for row in changed:
        row.save()
    ClusterJob.objects.filter(pk__in=[row.pk for row in rows if row.seen_at == moment]).update(seen_at=moment)
    if changed:
        cluster_announce(cluster)
    return orders


def _orders(rows: Sequence[ClusterJob], lost: Container[uuid.UUID], moment: datetime) -> list[SlurmOrder]:
    """lost: what Slurm does not have, by what it says now."""
    orders, offers = list[SlurmOrder](), 0
    for row in filter(lambda row: row.is_open, rows):
        submit = row.seen_at is None and row.cancel_asked_at is None and offers < OFFERED_MOST
        if not submit and row.offered_at is None:
            continue
        try:
            orders.append(_order_of(row, submit=submit))
        except Conflict as error:
            if row.offered_at is None or row.key in lost:
                _end(row, S.FAILED, moment, code=row.exit_code, reason=error.message)
            else:  # it may be in Slurm
                orders.append(_order_of(row, submit=False))
            continue
        offers += submit
        row.offered_at = row.offered_at or moment
    return orders


def jobs_carry_out() -> int:
    """Where the driver reaches Slurm itself; returns how many clusters it asked. Also ends what is open of clusters that end."""
    outside_transaction()
    _ended_with_cluster()
    able = [name for name in cluster_driver_names() if _driver_takes(name)]
    rows = Cluster.objects.filter(jobs__state__in=JOB_OPEN, template_version__template__driver__in=able)
    loaded = rows.select_related("project", "site", "template_version__template").distinct()
    asked = 0
    for cluster in loaded:
        driver = driver_of(cluster)
        if isinstance(driver, ClusterJobsCapability):
            try:
                jobs_exchange(cluster, driver.slurm_exchange(spec_of(cluster), jobs_exchange(cluster, ())))
                asked += 1
            except GpuaasError as error:
                log.warning("cluster_jobs_wait", cluster=str(cluster.pk), message=error.message)
    return asked


def _driver_takes(driver: str) -> bool:
    return issubclass(cluster_driver_class(driver), ClusterJobsCapability)


def _open_locked(cluster: Cluster) -> list[ClusterJob]:
    rows = ClusterJob.objects.filter(cluster=cluster, state__in=JOB_OPEN).select_related("login", "cluster")
    return list(rows.select_for_update(of=("self",)).order_by("pk"))


def _kept(row: ClusterJob) -> tuple[object, ...]:
    """All that a report may change, but when it was made."""
    files = row.mover, row.mover_slurm_id, row.moved
    return (
        row.state,
        row.slurm_id,
        row.reason,
        row.log,
        row.started_at,
        row.cancel_asked_at,
        row.offered_at,
        files,
    )


def _keep(row: ClusterJob, seen: SlurmSeen, moment: datetime) -> None:
    if row.mover is not None:
        moved_keep(row, seen)
    elif seen.log is not None:
        row.log, row.log_taken_at = plain(seen.log)[-LOG_MOST:], moment
    if seen.state == GONE:
        _forgotten(row, moment)
        return
    row.seen_at = moment
    if row.mover is not None:
        row.mover_slurm_id = seen.slurm_id or row.mover_slurm_id
    else:
        row.slurm_id = seen.slurm_id or row.slurm_id
        row.started_at = None if seen.state in WAITS else seen.started_at or row.started_at
    code = row.exit_code if row.mover is not None else seen.exit_code
    if seen.state == "COMPLETED":
        _succeeded(row, seen.ended_at or moment, code)
    elif seen.state in CANCELS:
        _end(row, S.CANCELLED, seen.ended_at or moment, code=code)
    elif seen.state in FAILS:
        words = FAILS[seen.state] or seen.reason or f"its script ended with exit code {seen.exit_code}"
        words = words if row.mover is None else moved_failure(row, seen, words)
        _end(row, S.FAILED, seen.ended_at or moment, code=code, reason=words)
    else:
        if row.mover is None:
            row.state = S.PENDING if seen.state in WAITS else S.RUNNING
        row.reason = plain(seen.reason)[:300] if seen.state in WAITS else ""


def _succeeded(row: ClusterJob, moment: datetime, code: int | None) -> None:
    """What is next of it: its inputs are there, or it has run, or its outputs are there."""
    way = row.staging
    if row.mover is not None:
        moved_end(row)
    if way == Way.OUT or not (way or row.outputs):
        _end(row, S.SUCCEEDED, moment, code=code)
    elif row.cancel_asked_at is not None:
        _end(row, S.CANCELLED, moment, code=code, reason="" if way else "its outputs were not moved")
    elif way == Way.IN:
        row.state = S.QUEUED
    else:
        row.exit_code = code
        staging_begin(row, Way.OUT)


def _forgotten(row: ClusterJob, moment: datetime) -> None:
    """One that Slurm had is ended by nothing else; one that it never had is offered again, or cancelled."""
    if row.seen_at is None and row.cancel_asked_at is not None:
        _end(row, S.CANCELLED, moment, code=row.exit_code)
    elif row.seen_at is not None and moment - row.seen_at > FORGOTTEN:
        number = row.slurm_id if row.mover is None else row.mover_slurm_id
        _end(row, S.FAILED, moment, code=row.exit_code, reason=f"Slurm no longer knows its job {number}")


def _end(
    row: ClusterJob, state: ClusterJobState, moment: datetime, *, code: int | None = None, reason: str = ""
) -> None:
    row.state, row.finished_at, row.exit_code, row.reason = state, moment, code, plain(reason)[:300]


def _rights_follow(cluster: Cluster, rows: Sequence[ClusterJob], moment: datetime) -> None:
    """Of people who may not enter any more what waits is cancelled; whether what runs ends is the template's choice, and the head's
    deed (`jobs_of_removed`)."""
    admitted = logins_admitted(project_id=cluster.project_id)
    for row in rows:
        if row.login_id is None or row.login_id in admitted or row.state == S.RUNNING:
            continue
        row.cancel_asked_at = row.cancel_asked_at or moment
        if row.offered_at is None:
            words = f"{row.login} may no longer enter the cluster"
            _end(row, S.CANCELLED, moment, code=row.exit_code, reason=words)


def _order_of(row: ClusterJob, *, submit: bool) -> SlurmOrder:
    order = SlurmOrder(
        id=row.pk,
        slurm_id=row.slurm_id,
        login=row.login.name if row.login else "",
        since=row.created_at,
        submit=submit,
        cancel=row.cancel_asked_at is not None,
        name=row.name,
        script=row.script if submit else "",
        partition=row.partition,
        nodes=row.nodes,
        tasks=row.tasks,
        gpus_per_node=row.gpus_per_node,
        cpus_per_task=row.cpus_per_task,
        memory_gib=row.memory_gib,
        minutes=row.minutes,
    )
    return order if row.mover is None else mover_order(row, order)


def _ended_with_cluster() -> None:
    going = ClusterJob.objects.filter(
        state__in=JOB_OPEN, cluster__state__in=[ClusterState.DELETING, ClusterState.DELETED]
    )
    going.update(state=S.CANCELLED, finished_at=clock.now(), reason="the cluster was deleted")
