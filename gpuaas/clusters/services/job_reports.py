"""What a report says of jobs on Slurm clusters, and what its answer asks for; the same by a driver that reaches Slurm itself."""

import uuid
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

import structlog
from django.db import transaction

from gpuaas.clusters.models import Cluster, ClusterJob
from gpuaas.clusters.selectors import cluster_jobs_lost
from gpuaas.clusters.services.movers import (
    moved_end,
    moved_failure,
    moved_keep,
    mover_order,
    staging_begin,
)
from gpuaas.clusters.services.rows import CLUSTER, cluster_announce, driver_of
from gpuaas.clusters.site import outside_transaction
from gpuaas.clusters.spec import spec_of
from gpuaas.clusters.states import JOB_OPEN, ClusterJobState, ClusterState
from gpuaas.core import clock
from gpuaas.core.errors import Conflict, GpuaasError, Permanent
from gpuaas.core.terminal import plain
from gpuaas.providers.base import (
    ERROR,
    GONE,
    REFUSED,
    ClusterJobsCapability,
    SlurmOrder,
    SlurmSeen,
)
from gpuaas.providers.registry import cluster_driver_class, cluster_driver_names
from gpuaas.staging.transfers import Way
from tenants.actors import SYSTEM

log = structlog.get_logger(__name__)
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


@transaction.atomic
def jobs_exchange(cluster: Cluster, seen: Iterable[SlurmSeen]) -> list[SlurmOrder]:
    """Keeps what Slurm says, and answers with what is to be done: every job that has not ended, until Slurm has ended it."""
    rows, reported = _open_locked(cluster), list(seen)
    known, logs = {row.key: row for row in rows}, _logs_of(cluster, reported)
    moment, before, lost = clock.now(), {row.pk: _kept(row) for row in rows}, set[uuid.UUID]()
    for one in reported:
        if (row := known.get(one.id)) is not None and row.is_open and row.key == one.id:
            _keep(row, one, moment)
            lost |= {one.id} if one.state == GONE else set()
    _rights_follow(cluster, rows, moment)
    orders = _orders(rows, lost, moment)
    changed = [row for row in rows if before[row.pk] != _kept(row) or _log_is_new(row, logs)]
    for row in changed:
        row.save()
    for name in ("seen_at", "log_taken_at"):
        fresh = [row.pk for row in rows if getattr(row, name) == moment]
        ClusterJob.objects.filter(pk__in=fresh).update(**{name: moment})
    if changed:
        cluster_announce(cluster)
    return orders


def _orders(rows: Sequence[ClusterJob], lost: Container[uuid.UUID], moment: datetime) -> list[SlurmOrder]:
    """lost: what Slurm does not have, by what it says now."""
    offered, orders = _offered(rows), list[SlurmOrder]()
    own = [row.pk for row in rows if row.pk in offered and row.mover is None]
    scripts = dict(ClusterJob.objects.filter(pk__in=own).values_list("pk", "script")) if own else {}
    for row in filter(lambda row: row.is_open and (row.pk in offered or row.offered_at is not None), rows):
        try:
            orders.append(_order_of(row, scripts.get(row.pk, ""), submit=row.pk in offered))
        except (Conflict, Permanent) as error:  # its credential is gone, or no key opens it
            if row.offered_at is None or row.key in lost:
                job_end(row, S.FAILED, moment, code=row.exit_code, reason=error.message)
            else:  # it may be in Slurm
                orders.append(_order_of(row))
            continue
        if row.pk in offered:
            row.offered_at = row.offered_at or moment
    return orders


def jobs_due() -> list[uuid.UUID]:
    """The clusters with open jobs whose driver reaches Slurm itself. Ends before what is open of clusters that end."""
    _ended_with_cluster()
    able = [name for name in cluster_driver_names() if driver_takes(name)]
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


def driver_takes(driver: str) -> bool:
    return issubclass(cluster_driver_class(driver), ClusterJobsCapability)


def _open_locked(cluster: Cluster) -> list[ClusterJob]:
    """Without what is long, which is neither read nor saved unless it is set."""
    rows = ClusterJob.objects.filter(cluster=cluster, state__in=JOB_OPEN)
    rows = rows.select_related("login", "created_by", "cluster").defer("script", "log")
    return list(rows.select_for_update(of=("self",)).order_by("pk"))


def _offered(rows: Iterable[ClusterJob]) -> set[uuid.UUID]:
    """The oldest of each person before the second of anybody: those that cannot be submitted keep nobody else's waiting."""
    turns, waiting = Counter[uuid.UUID](), []
    for row in rows:
        if row.is_open and row.seen_at is None and row.cancel_asked_at is None:
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
    files = row.mover, row.mover_slurm_id, row.moved
    ends = row.cancel_asked_at, row.offered_at, row.gone_at
    return row.state, row.slurm_id, row.reason, row.started_at, *files, *ends


def _keep(row: ClusterJob, seen: SlurmSeen, moment: datetime) -> None:
    if row.mover is not None:
        moved_keep(row, seen)
    elif seen.log is not None:
        row.log, row.log_taken_at = plain(seen.log)[-LOG_MOST:], moment
    if seen.state in {GONE, ERROR}:
        _forgotten(row, seen, moment)
        return
    row.seen_at, row.gone_at = moment, None
    if row.mover is not None:
        row.mover_slurm_id = seen.slurm_id or row.mover_slurm_id
    else:
        row.slurm_id = seen.slurm_id or row.slurm_id
        row.started_at = None if seen.state in WAITS else seen.started_at or row.started_at
    code = row.exit_code if row.mover is not None else seen.exit_code
    # the head's clock may say anything, and how long a job is kept depends on its end
    ended = min(max(seen.ended_at or moment, row.created_at), moment)
    if seen.state == "COMPLETED":
        _succeeded(row, ended, code)
    elif seen.state in CANCELS:
        words = row.reason if row.cancel_asked_at is not None else ""
        job_end(row, S.CANCELLED, ended, code=code, reason=words)
    elif seen.state in FAILS:
        words = _failure(seen) if row.mover is None else moved_failure(row, seen, _failure(seen))
        job_end(row, S.FAILED, ended, code=code, reason=words)
    else:
        if row.mover is None:
            row.state = S.PENDING if seen.state in WAITS else S.RUNNING
        if row.cancel_asked_at is None:
            row.reason = plain(seen.reason)[:300] if seen.state in WAITS else ""


def _succeeded(row: ClusterJob, moment: datetime, code: int | None) -> None:
    """What is next of it: its inputs are there, or it has run, or its outputs are there."""
    way, words = row.staging, row.reason
    if row.mover is not None:
        moved_end(row)
    if way == Way.OUT or not (way or row.outputs):
        job_end(row, S.SUCCEEDED, moment, code=code)
    elif row.cancel_asked_at is not None:
        words = words or ("" if way else "its outputs were not moved")
        job_end(row, S.CANCELLED, moment, code=code, reason=words)
    elif way == Way.IN:
        row.state = S.QUEUED
    else:
        row.exit_code = code
        staging_begin(row, Way.OUT)


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
            number = row.slurm_id if row.mover is None else row.mover_slurm_id
            job_end(
                row, S.FAILED, moment, code=row.exit_code, reason=f"Slurm no longer knows its job {number}"
            )
    elif row.cancel_asked_at is not None:
        if seen.state == GONE or moment - row.cancel_asked_at > GIVEN_UP:
            job_end(row, S.CANCELLED, moment, code=row.exit_code, reason=row.reason)
    else:
        row.reason = plain(seen.error)[:300]
        if passed > GIVEN_UP:
            words = f"the cluster could not hand it to Slurm for {GIVEN_UP.seconds // 60} minutes"
            row.cancel_asked_at, row.reason = moment, f"{words}: {row.reason}"[:300] if row.reason else words


def job_end(
    row: ClusterJob, state: ClusterJobState, moment: datetime, *, code: int | None = None, reason: str = ""
) -> None:
    row.state, row.finished_at, row.exit_code, row.reason = state, moment, code, plain(reason)[:300]


def _rights_follow(cluster: Cluster, rows: Sequence[ClusterJob], moment: datetime) -> None:
    """Of people who may not enter any more what waits is cancelled; whether what runs ends is the template's choice, and the head's
    deed (`jobs_of_removed`)."""
    lost = cluster_jobs_lost(cluster=cluster)
    for row in rows:
        waits = row.is_open and row.state != S.RUNNING and row.cancel_asked_at is None
        if row.pk not in lost or not waits:
            continue
        row.cancel_asked_at = moment
        row.reason = f"{row.login or row.created_by.username} may no longer enter the cluster"
        if row.offered_at is None:
            job_end(row, S.CANCELLED, moment, code=row.exit_code, reason=row.reason)
        after = {"job": str(row.pk), "name": row.name, "reason": row.reason}
        CLUSTER.audit(cluster, SYSTEM, "job_cancel", after=after)


def _order_of(row: ClusterJob, script: str = "", *, submit: bool = False) -> SlurmOrder:
    """script: of one that is submitted itself; a mover has its own."""
    order = SlurmOrder(
        id=row.pk,
        slurm_id=row.slurm_id,
        login=row.login.name if row.login else "",
        since=row.created_at,
        submit=submit,
        cancel=row.cancel_asked_at is not None,
        name=row.name,
        script=script,
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
    going = [ClusterState.DELETING, ClusterState.DELETED]
    for cluster in Cluster.objects.filter(jobs__state__in=JOB_OPEN, state__in=going).distinct():
        rows = cluster.jobs.filter(state__in=JOB_OPEN)
        rows.update(state=S.CANCELLED, finished_at=clock.now(), reason="the cluster was deleted")
        cluster_announce(cluster)
