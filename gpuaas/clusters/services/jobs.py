"""Jobs on Slurm clusters: ordered here, and carried to Slurm by the head in the answer to its report, or by the driver."""

import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.db import transaction

from gpuaas.clusters.job_order import Partition, job_order_read
from gpuaas.clusters.models import Cluster, ClusterJob, ClusterQueue, ScalingPolicy
from gpuaas.clusters.selectors import cluster_jobs_lost, cluster_require
from gpuaas.clusters.services.access import login_ask, login_entered
from gpuaas.clusters.services.rows import CLUSTER, cluster_announce, driver_of
from gpuaas.clusters.site import outside_transaction
from gpuaas.clusters.spec import burst_site, pools_of, spec_of
from gpuaas.clusters.states import JOB_OPEN, ClusterJobState, ClusterState
from gpuaas.core import clock
from gpuaas.core.errors import Conflict, Forbidden, GpuaasError, Mistakes
from gpuaas.core.terminal import plain
from gpuaas.lifecycle.allowed import Verb
from gpuaas.providers.base import (
    ERROR,
    GONE,
    REFUSED,
    ClusterJobsCapability,
    ClusterKind,
    SlurmOrder,
    SlurmSeen,
    usable_mib,
)
from gpuaas.providers.registry import cluster_driver_class, cluster_driver_names
from tenants.actors import SYSTEM, Actor
from tenants.roles import Permission

log = structlog.get_logger(__name__)
MOST = 300  # jobs of a cluster that have not ended: all of them are in each report
OFFERED_MOST = 20  # scripts in one answer
GIVEN_UP = timedelta(minutes=30)  # after which one that Slurm never had is not offered any more
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
UNOPENED = 181  # signal 53, by which Slurm says that it could not open the log
SILENT = (
    "the head of this cluster has not reported yet; try again in a minute. One that never does was made before the portal could hand jobs "
    "to it: submit there with sbatch"
)
OLD = "the head of this cluster was made before the portal could hand jobs to it: submit there with sbatch, or order a new cluster"


def jobs_why_not(cluster: Cluster) -> str:
    """Why it takes no jobs from the portal; "" = it does, as long as it may be entered."""
    if cluster.template_version.template.kind != ClusterKind.SLURM:
        return "jobs are submitted here to Slurm clusters only"
    if _driver_takes(cluster.template_version.template.driver):
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
    wrong = Mistakes()
    job_order_read(given, partitions_of(cluster), wrong)
    return wrong.fields


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
    CLUSTER.require(cluster, Verb.ENTER)
    if why := jobs_why_not(cluster):
        raise Conflict(why)
    wrong = Mistakes()
    read = job_order_read(given, partitions_of(cluster), wrong)
    wrong.refuse()
    login = login_entered(cluster, actor.user_id)
    if ClusterJob.objects.filter(cluster=cluster, state__in=JOB_OPEN).count() >= MOST:
        raise Conflict(
            f"the cluster has {MOST} jobs of the portal that have not ended: submit it when some have"
        )
    row = ClusterJob.objects.create(
        cluster=cluster, login=login, created_by_id=actor.user_id, created_at=clock.now(), **read
    )
    after = {name: read[name] for name in ("name", "partition", "nodes", "gpus_per_node")}
    CLUSTER.audit(cluster, actor, "job_submit", after={"job": str(row.pk), **after})
    cluster_announce(cluster)
    return row


@transaction.atomic
def cluster_job_cancel(*, actor: Actor, job: ClusterJob) -> ClusterJob:
    """At once while no head has it; otherwise Slurm ends it. Repeating changes nothing. Raises Conflict for one that has ended."""
    cluster_require(actor=actor, cluster=job.cluster, permission=Permission.WORKSPACE_ACCESS)
    row = ClusterJob.objects.select_for_update(of=("self",)).select_related("cluster__project").get(pk=job.pk)
    if row.state == S.CANCELLED or row.cancel_asked_at is not None:
        return row
    if not row.is_open:
        raise Conflict("the job has ended")
    row.cancel_asked_at, row.reason = clock.now(), ""
    if row.offered_at is None:
        _end(row, S.CANCELLED, row.cancel_asked_at)
    row.save()
    CLUSTER.audit(row.cluster, actor, "job_cancel", after={"job": str(row.pk), "name": row.name})
    cluster_announce(row.cluster)
    return row


@transaction.atomic
def jobs_exchange(cluster: Cluster, seen: Iterable[SlurmSeen]) -> list[SlurmOrder]:
    """Keeps what Slurm says, and answers with what is to be done: every job that has not ended, until Slurm has ended it."""
    rows, reported = _open_locked(cluster), list(seen)
    known, logs = {row.pk: row for row in rows}, _logs_of(cluster, reported)
    moment, before = clock.now(), {row.pk: _kept(row) for row in rows}
    for one in reported:
        if (row := known.get(one.id)) is not None and row.is_open:
            _keep(row, one, moment)
    _rights_follow(cluster, rows, moment)
    offered = _offered(rows)
    for row in rows:
        if row.pk in offered:
            row.offered_at = row.offered_at or moment
    scripts = dict(ClusterJob.objects.filter(pk__in=offered).values_list("pk", "script"))
    orders = [
        _order_of(row, scripts.get(row.pk)) for row in rows if row.is_open and row.offered_at is not None
    ]
    changed = [row for row in rows if before[row.pk] != _kept(row) or _log_is_new(row, logs)]
    for row in changed:
        row.save()
    for name in ("seen_at", "log_taken_at"):
        fresh = [row.pk for row in rows if getattr(row, name) == moment]
        ClusterJob.objects.filter(pk__in=fresh).update(**{name: moment})
    if changed:
        cluster_announce(cluster)
    return orders


def jobs_due() -> list[uuid.UUID]:
    """The clusters with open jobs whose driver reaches Slurm itself. Ends before what is open of clusters that end."""
    _ended_with_cluster()
    able = [name for name in cluster_driver_names() if _driver_takes(name)]
    rows = Cluster.objects.filter(jobs__state__in=JOB_OPEN, template_version__template__driver__in=able)
    return list(rows.values_list("pk", flat=True).distinct())


def jobs_carry_out(cluster_id: uuid.UUID) -> bool:
    """By the driver; returns whether Slurm has answered."""
    outside_transaction()
    rows = Cluster.objects.select_related("project__organization", "site", "template_version__template")
    cluster = rows.get(pk=cluster_id)
    driver = driver_of(cluster)
    if not isinstance(driver, ClusterJobsCapability):
        return False
    try:
        jobs_exchange(cluster, driver.slurm_exchange(spec_of(cluster), jobs_exchange(cluster, ())))
    except GpuaasError as error:
        log.warning("cluster_jobs_wait", cluster=str(cluster.pk), message=error.message)
        return False
    return True


def _driver_takes(driver: str) -> bool:
    return issubclass(cluster_driver_class(driver), ClusterJobsCapability)


def _open_locked(cluster: Cluster) -> list[ClusterJob]:
    """Without what is long, which is neither read nor saved unless it is set."""
    rows = ClusterJob.objects.filter(cluster=cluster, state__in=JOB_OPEN).select_related(
        "login", "created_by"
    )
    rows = rows.defer("script", "log")
    return list(rows.select_for_update(of=("self",)).order_by("pk"))


def _offered(rows: Iterable[ClusterJob]) -> set[uuid.UUID]:
    """The oldest of each person before the second of anybody: those that cannot be submitted keep nobody else's waiting."""
    turns, waiting = Counter[uuid.UUID](), []
    for row in rows:
        if row.state == S.QUEUED and row.cancel_asked_at is None:
            turns[row.created_by_id] += 1
            waiting.append((turns[row.created_by_id], row.pk))
    return {pk for _, pk in sorted(waiting)[:OFFERED_MOST]}


def _logs_of(cluster: Cluster, seen: Iterable[SlurmSeen]) -> dict[uuid.UUID, str]:
    """As they are before, of those that have been read anew."""
    taken = [one.id for one in seen if one.log is not None]
    return dict(ClusterJob.objects.filter(cluster=cluster, pk__in=taken).values_list("pk", "log"))


def _log_is_new(row: ClusterJob, before: Mapping[uuid.UUID, str]) -> bool:
    return row.pk in before and row.log != before[row.pk]


def _kept(row: ClusterJob) -> tuple[object, ...]:
    """All that a report may change, but when it was made."""
    ends = row.cancel_asked_at, row.offered_at, row.gone_at
    return row.state, row.slurm_id, row.reason, row.started_at, *ends


def _keep(row: ClusterJob, seen: SlurmSeen, moment: datetime) -> None:
    if seen.log is not None:
        row.log, row.log_taken_at = plain(seen.log)[-LOG_MOST:], moment
    if seen.state in {GONE, ERROR}:
        _forgotten(row, seen, moment)
        return
    row.seen_at, row.gone_at, row.slurm_id = moment, None, seen.slurm_id or row.slurm_id
    row.started_at = None if seen.state in WAITS else seen.started_at or row.started_at
    if seen.state == "COMPLETED":
        _end(row, S.SUCCEEDED, seen.ended_at or moment, code=seen.exit_code)
    elif seen.state in CANCELS:
        words = row.reason if row.cancel_asked_at is not None else ""
        _end(row, S.CANCELLED, seen.ended_at or moment, code=seen.exit_code, reason=words)
    elif seen.state in FAILS:
        _end(row, S.FAILED, seen.ended_at or moment, code=seen.exit_code, reason=_failure(seen))
    else:
        row.state = S.PENDING if seen.state in WAITS else S.RUNNING
        if row.cancel_asked_at is None:
            row.reason = plain(seen.reason)[:300] if row.state == S.PENDING else ""


def _failure(seen: SlurmSeen) -> str:
    if words := FAILS[seen.state] or seen.reason:
        return words
    if seen.exit_code == UNOPENED:
        return "its log could not be written: see that the home has room, and that gpuaas-jobs there is a folder of the account"
    if seen.exit_code is None:
        return "Slurm gives no exit code of its script"
    return f"its script ended with exit code {seen.exit_code}"


def _forgotten(row: ClusterJob, seen: SlurmSeen, moment: datetime) -> None:
    """One that Slurm had is ended by nothing else; one that it never had is offered again for a while, or cancelled."""
    row.gone_at = row.gone_at or moment
    passed = moment - row.gone_at
    if row.seen_at is not None:
        if passed > FORGOTTEN:
            _end(row, S.FAILED, moment, reason=f"Slurm no longer knows its job {row.slurm_id}")
    elif row.cancel_asked_at is not None:
        if seen.state == GONE or moment - row.cancel_asked_at > GIVEN_UP:
            _end(row, S.CANCELLED, moment, reason=row.reason)
    else:
        row.reason = plain(seen.error)[:300]
        if passed > GIVEN_UP:
            words = f"the cluster could not hand it to Slurm for {GIVEN_UP.seconds // 60} minutes"
            row.cancel_asked_at, row.reason = moment, f"{words}: {row.reason}"[:300] if row.reason else words


def _end(
    row: ClusterJob, state: ClusterJobState, moment: datetime, *, code: int | None = None, reason: str = ""
) -> None:
    row.state, row.finished_at, row.exit_code, row.reason = state, moment, code, plain(reason)[:300]


def _rights_follow(cluster: Cluster, rows: Sequence[ClusterJob], moment: datetime) -> None:
    """Of people who may not enter any more what waits is cancelled; whether what runs ends is the template's choice, and the head's
    deed (`jobs_of_removed`)."""
    lost = cluster_jobs_lost(cluster=cluster)
    for row in rows:
        waits = row.state in {S.QUEUED, S.PENDING} and row.cancel_asked_at is None
        if row.pk not in lost or not waits:
            continue
        row.cancel_asked_at = moment
        row.reason = f"{row.login or row.created_by.username} may no longer enter the cluster"
        if row.offered_at is None:
            _end(row, S.CANCELLED, moment, reason=row.reason)
        after = {"job": str(row.pk), "name": row.name, "reason": row.reason}
        CLUSTER.audit(cluster, SYSTEM, "job_cancel", after=after)


def _order_of(row: ClusterJob, script: str | None) -> SlurmOrder:
    """script: of one that is offered."""
    return SlurmOrder(
        id=row.pk,
        slurm_id=row.slurm_id,
        login=row.login.name if row.login else "",
        since=row.created_at,
        submit=script is not None,
        cancel=row.cancel_asked_at is not None,
        name=row.name,
        script=script or "",
        partition=row.partition,
        nodes=row.nodes,
        tasks=row.tasks,
        gpus_per_node=row.gpus_per_node,
        cpus_per_task=row.cpus_per_task,
        memory_gib=row.memory_gib,
        minutes=row.minutes,
    )


def _ended_with_cluster() -> None:
    going = [ClusterState.DELETING, ClusterState.DELETED]
    for cluster in Cluster.objects.filter(jobs__state__in=JOB_OPEN, state__in=going).distinct():
        rows = cluster.jobs.filter(state__in=JOB_OPEN)
        rows.update(state=S.CANCELLED, finished_at=clock.now(), reason="the cluster was deleted")
        cluster_announce(cluster)
