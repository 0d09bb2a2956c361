"""Boot reports of machines of clusters: authorized by a token for one boot of one machine, each stage once."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import NoReturn

from django.db import transaction

from gpuaas.clusters.models import Cluster, ClusterPool, ClusterQueue, NodeBoot
from gpuaas.clusters.policies.facts import Drain
from gpuaas.clusters.policies.stored import drain_read
from gpuaas.clusters.services.access import grants_ended
from gpuaas.clusters.services.job_reports import jobs_exchange
from gpuaas.clusters.services.logins import LoginOrders, has_logins, login_orders, logins_record
from gpuaas.clusters.services.rows import cluster_wake
from gpuaas.clusters.services.use import Used, use_record
from gpuaas.clusters.spec import is_asleep
from gpuaas.clusters.states import LIVE, ClusterState
from gpuaas.core import clock
from gpuaas.core.crypto import decrypt_json
from gpuaas.core.errors import Conflict, Unauthorized
from gpuaas.core.rotation import column_rotate
from gpuaas.core.rows import one_or_none
from gpuaas.core.terminal import plain
from gpuaas.providers.base import (
    BootClaim,
    PoolSignals,
    QueueClaim,
    SlurmOrder,
    SlurmSeen,
    Stage,
    boot_claim,
    queue_claim,
)

MESSAGE_MOST = 4000
COUNTED = ("pool", "used_gpus", "pending_gpus", "queued")
REPORTING = LIVE - {ClusterState.DELETING}


def node_report(*, token: str, stage: Stage, message: str = "") -> NodeBoot:
    """Recorded, shown on pages, and the reconciler runs at once. Raises Unauthorized for an invalid token, whatever
    the reason; Conflict for a stage that was already reported."""
    claim = boot_claim(token)
    if claim is None or not claim.is_timely(clock.now()) or not _is_sealed(claim):
        _refuse()
    with transaction.atomic():
        cluster = _lock(claim)
        row = cluster.boots.filter(node=claim.node, boot=claim.boot).first()
        if row is not None and Stage(row.stage).is_last and row.stage != stage:
            _refuse()
        if row is not None and not stage.follows(Stage(row.stage)):
            raise Conflict(f"the stage {stage} was already reported", detail={"stage": stage.value})
        row = row or NodeBoot(cluster=cluster, node=claim.node, boot=claim.boot)
        row.passed, row.stage = row.stage, stage.value
        row.message, row.reported_at = plain(message)[-MESSAGE_MOST:], clock.now()
        row.save()
        Cluster.objects.filter(pk=cluster.pk).update(due_at=clock.now())
        cluster_wake(cluster)
    return row


@dataclass(frozen=True)
class PoolOrder:
    """For the head: a pool of workers with `gpus` each. Those with numbers above `workers` accept no work; those above
    `machines` are gone once they do not respond."""

    pool: str
    gpus: int
    workers: int
    machines: int


@dataclass(frozen=True)
class QueueAnswer:
    """logins: None for clusters that have none. jobs: None for heads that take none."""

    told_at: datetime
    pools: list[PoolOrder]
    logins: LoginOrders | None
    jobs: list[SlurmOrder] | None


def queue_report(
    *,
    token: str,
    pools: Sequence[PoolSignals] | None,
    logins: Sequence[str] | None = None,
    used: Sequence[Used] = (),
    jobs: Sequence[SlurmSeen] | None = None,
    moves: bool = False,
) -> QueueAnswer:
    """A report of a head, authorized by the token of its cluster. The latest one counts; pools that it does not have
    are ignored; None: it could not ask for its queue. logins: whom it lets in now, if it has been given logins; used:
    what their jobs used; jobs: what Slurm says about those of the portal, from a head that takes them; moves: it also submits
    movers of their files. Answers with what is to be drained, who is to be let in, and what is to be submitted and
    cancelled. Raises Unauthorized for an invalid token, whatever the reason."""
    claim = queue_claim(token)
    if claim is None or not _is_sealed(claim):
        _refuse()
    known = ClusterPool.objects.filter(cluster=claim.cluster, cluster__state__in=REPORTING)
    joined = known.select_related(
        "cluster__project", "cluster__template_version__template", "policy", "flavor"
    )
    rows = {row.name: row for row in joined.order_by("pk")}
    if not rows:
        _refuse()
    cluster = next(iter(rows.values())).cluster
    drains = {name: _drain_of(row) for name, row in rows.items()}
    if pools is not None:
        _queue_keep(cluster, [one for one in pools if one.pool in rows], drains)
    if logins is not None and has_logins(cluster):
        grants_ended(cluster, inside=logins_record(cluster, logins))
        use_record(cluster, used)
    orders = [_order_of(pool, drains[name]) for name, pool in rows.items()]
    takes = jobs is not None and has_logins(cluster)
    return QueueAnswer(
        clock.now(),
        orders,
        login_orders(cluster),
        _jobs_answer(cluster, jobs or (), moves=moves) if takes else None,
    )


def _jobs_answer(cluster: Cluster, seen: Sequence[SlurmSeen], *, moves: bool) -> list[SlurmOrder]:
    if (cluster.takes_jobs, cluster.moves_files) != (True, moves):
        Cluster.objects.filter(pk=cluster.pk).update(takes_jobs=True, moves_files=moves)
    return jobs_exchange(cluster, seen)


def _queue_keep(
    cluster: Cluster, reported: Sequence[PoolSignals], drains: Mapping[str, Drain | None]
) -> None:
    workers = {
        one.pool: {
            "busy": sorted(set(one.busy)),
            "least": one.least,
            "drain": drain.key if (drain := drains[one.pool]) else "",
            "unhealthy": sorted(dict(one.unhealthy).items()),
        }
        for one in reported
        if one.least is not None
    }
    counted = [{key: value for key, value in asdict(one).items() if key in COUNTED} for one in reported]
    given = {"pools": counted, "workers": workers, "told_at": clock.now()}
    ClusterQueue.objects.update_or_create(cluster=cluster, defaults=given)


def _drain_of(pool: ClusterPool) -> Drain | None:
    policy = getattr(pool, "policy", None)
    return drain_read(policy.memory) if policy is not None and policy.enabled else None


def _order_of(pool: ClusterPool, drain: Drain | None) -> PoolOrder:
    count = 0 if is_asleep(pool.cluster) else pool.count
    workers = count if drain is None else min(count, drain.above)
    return PoolOrder(pool.name, pool.flavor.gpus, workers, max(count, pool.confirmed))


def seeds_rotate() -> int:
    """Encrypts with the newest key what an older one encrypted; returns how many. May run at any time."""
    return column_rotate("clusters.Cluster.seed").sealed


def _is_sealed(claim: BootClaim | QueueClaim) -> bool:
    """Checked before anything is locked, because anybody can send it."""
    seed = Cluster.objects.filter(pk=claim.cluster).values_list("seed", flat=True).first()
    if not seed:
        return False
    return claim.is_sealed(str(decrypt_json(seed)["seed"]))


def _lock(claim: BootClaim) -> Cluster:
    """Serializes two reports of one boot."""
    rows = Cluster.objects.select_for_update(of=("self",), no_key=True).select_related("project")
    cluster = one_or_none(rows.filter(pk=claim.cluster, state__in=REPORTING))
    if cluster is None:
        _refuse()
    return cluster


def _refuse() -> NoReturn:
    """One answer for all cases, so that nobody learns which clusters and machines exist."""
    raise Unauthorized("this token is invalid, used up or expired")
