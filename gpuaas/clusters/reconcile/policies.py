"""One round of one policy: claim, ask the site for the demand, decide, scale, record."""

import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial

import structlog
from django.db import transaction

from gpuaas.clusters.models import (
    Cluster,
    ClusterPool,
    PoolSample,
    ScalingDecision,
    ScalingOutcome,
    ScalingPolicy,
)
from gpuaas.clusters.policies.decide import decide
from gpuaas.clusters.policies.facts import Cap, Decision, Memory, Pool, Rules, Signals
from gpuaas.clusters.policies.registry import kinds, policy_make
from gpuaas.clusters.policies.stored import memory_read, memory_stored
from gpuaas.clusters.reconcile import growth
from gpuaas.clusters.room import room_after
from gpuaas.clusters.services.changes import cluster_scale
from gpuaas.clusters.services.rows import cluster_announce, cluster_lock, signals_driver_of
from gpuaas.clusters.spec import spec_whole
from gpuaas.clusters.states import ClusterState
from gpuaas.core import clock
from gpuaas.core.claims import ClaimLost, claimed, release
from gpuaas.core.clock import whole_second
from gpuaas.core.errors import Conflict, GpuaasError, Invalid, NotFound
from gpuaas.core.rows import one_or_none
from gpuaas.lifecycle.visits import CLAIM_SECONDS
from tenants.actors import SYSTEM

log = structlog.get_logger(__name__)
EVERY = timedelta(seconds=60)
SAY_AGAIN = timedelta(hours=1)  # a refusal that lasts is written down that often
KEPT = timedelta(days=35)
COUNTED = ("used_gpus", "pending_gpus", "queued")
WATCHED = {ClusterState.READY, ClusterState.SCALING, ClusterState.UPGRADING}


@dataclass(frozen=True)
class Allowance:
    """Limits by money. worker_hour: cost of one more worker in `currency`; None without a price."""

    caps: tuple[Cap, ...] = ()
    worker_hour: Decimal | None = None
    currency: str = ""


Purse = Callable[[ScalingPolicy, datetime], Allowance]


def policy_run(policy_id: uuid.UUID, *, purse: Purse) -> None:
    """Checks one pool, and scales it if its policy is enabled and says so. Safe at any time, in any number of
    processes."""
    claimed(
        ScalingPolicy, policy_id, partial(_work, purse), failed=_not_run, seconds=CLAIM_SECONDS, only_due=True
    )


def _work(purse: Purse, row: ScalingPolicy) -> None:
    cluster = row.pool.cluster
    if cluster.state in WATCHED:
        seen = _signals(row, cluster)
        _decide(row, seen, purse(row, seen.at))
    elif row.enabled and growth.has_failed(cluster, row.pool):
        _take_back(row)
    else:
        release(row, due_at=None if cluster.state == ClusterState.DELETED else clock.now() + EVERY)


def _not_run(row: ScalingPolicy, error: GpuaasError) -> None:
    """What people can do something about is a line in their log, once an hour: a head that reports nothing."""
    log.warning("policy_not_run", policy=str(row.pk), code=error.code, message=error.message)
    cluster, count, at = row.pool.cluster, row.pool.count, whole_second(clock.now())
    if row.enabled and isinstance(error, NotFound):
        words = f"Nothing was decided: {error.message}"
        decision = Decision(count, count, count, words, Memory(), broken=True)
        _write(row, cluster, Signals(at), decision, Allowance())
    release(row, due_at=clock.now() + EVERY)


def samples_prune(*, now: datetime) -> int:
    deleted, _ = PoolSample.objects.filter(at__lt=now - KEPT).delete()
    return deleted


def _signals(row: ScalingPolicy, cluster: Cluster) -> Signals:
    """Only the time where no demand is reported and the policy needs none. Raises NotFound where it needs it."""
    driver = signals_driver_of(cluster)
    if driver is None:
        return Signals(whole_second(clock.now()))
    signals = {one.pool: one for one in driver.signals(spec_whole(cluster))}
    mine, kind = signals.get(row.pool.name), kinds().get(row.kind)
    if mine is None and kind is not None and kind.needs_signals:
        raise NotFound(
            "the cluster has never reported its demand; if an earlier version of the portal created it, it does not: choose "
            "a policy by hours of the week, or order another cluster"
        )
    if mine is None:
        return Signals(whole_second(clock.now()))
    counted = (mine.used_gpus, mine.pending_gpus, mine.queued)
    sick = frozenset(number for number, _ in mine.unhealthy)
    return Signals(whole_second(clock.now()), *counted, least=mine.least, drain=mine.drain, unhealthy=sick)


@transaction.atomic
def _decide(held: ScalingPolicy, signals: Signals, allowance: Allowance) -> None:
    cluster, row = _locked(held)
    if cluster.state in WATCHED and row.version == held.version:
        room = room_after(cluster=cluster, pool=row.pool, maximum=row.maximum, after=row.after)
        PoolSample.objects.bulk_create([_sample(row.pool, signals, room.most)], ignore_conflicts=True)
        if row.enabled and cluster.state == ClusterState.READY:
            decision = _scaled(row, cluster, signals, allowance)
            row.memory = memory_stored(decision.memory)
            row.save(update_fields=["memory"])
            _write(row, cluster, signals, decision, allowance)
    row.due_at = held.due_at
    release(row, due_at=clock.now() + EVERY, attempts=0)


@transaction.atomic
def _take_back(held: ScalingPolicy) -> None:
    cluster, row = _locked(held)
    if row.version == held.version and growth.has_failed(cluster, row.pool):
        growth.take_back(row, cluster, clock.now())
    row.due_at = held.due_at
    release(row, due_at=clock.now() + EVERY, attempts=0)


def _locked(held: ScalingPolicy) -> tuple[Cluster, ScalingPolicy]:
    """The cluster is locked first, as everywhere; then everything read here is current."""
    cluster = cluster_lock(held.pool.cluster_id)
    rows = ScalingPolicy.objects.select_for_update(of=("self",), no_key=True).select_related("pool__flavor")
    row = one_or_none(rows.filter(pk=held.pk, claim_token=held.claim_token))
    if row is None:
        raise ClaimLost("another process is working on this policy")
    return cluster, row


def _sample(pool: ClusterPool, signals: Signals, room: int) -> PoolSample:
    return PoolSample(
        pool=pool,
        at=signals.at,
        count=pool.count,
        used_gpus=signals.used_gpus,
        pending_gpus=signals.pending_gpus,
        queued=signals.queued,
        room=room,
    )


def _scaled(row: ScalingPolicy, cluster: Cluster, signals: Signals, allowance: Allowance) -> Decision:
    """Decided and requested, reserved in the same moment. A refusal at this point is a cap like the others."""
    pool = row.pool
    wanted = _decided(row, signals, allowance.caps)
    if not wanted.changes:
        return wanted
    caps = (*allowance.caps, *growth.caps_of(cluster, pool, signals.at))
    room = room_after(cluster=cluster, pool=pool, maximum=wanted.count, after=row.after)
    decision = _decided(row, signals, (*caps, Cap(room.most, room.reason)))
    if not decision.changes:
        return decision
    try:
        with transaction.atomic():
            reason = f"by policy: {decision.reason}"[:200]
            cluster_scale(actor=SYSTEM, cluster=cluster, counts={pool.name: decision.count}, reason=reason)
    except (Conflict, Invalid) as error:
        decision = replace(_decided(row, signals, ()), count=pool.count, refused=error.message)
        return replace(decision, memory=memory_read(row.memory))
    return decision


def _decided(row: ScalingPolicy, signals: Signals, caps: tuple[Cap, ...]) -> Decision:
    rules = rules_of(row)
    pool = Pool(row.pool.name, row.pool.count, row.pool.flavor.gpus, rules.minimum, rules.maximum)
    memory = memory_read(row.memory)
    try:
        policy = policy_make(row.kind, row.settings)
    except Invalid as error:
        return Decision(pool.count, pool.count, pool.count, error.message, memory, broken=True)
    return decide(policy, rules, signals=signals, pool=pool, memory=memory, caps=caps, now=signals.at)


def rules_of(row: ScalingPolicy) -> Rules:
    return Rules(row.minimum, row.maximum, row.step, row.up_delay, row.down_delay, row.cool_down)


def _write(
    row: ScalingPolicy, cluster: Cluster, signals: Signals, decision: Decision, allowance: Allowance
) -> None:
    """One line if something changed; for refusals one per reason and hour."""
    outcome = ScalingOutcome.SCALED
    if not decision.changes:
        if not (decision.refused or decision.broken):
            return
        outcome = ScalingOutcome.BROKEN if decision.broken else ScalingOutcome.REFUSED
    last = ScalingDecision.objects.filter(cluster=cluster, pool=row.pool.name).first()
    reason = decision.reason if decision.broken else decision.refused
    recent = last is not None and last.outcome == outcome and signals.at - last.at < SAY_AGAIN
    if recent and not decision.changes and last is not None and reason[:500] in {last.reason, last.refused}:
        return
    more, worker_hour = decision.count - decision.before, allowance.worker_hour
    ScalingDecision.objects.create(
        cluster=cluster,
        pool=row.pool.name,
        kind=row.kind,
        at=signals.at,
        outcome=outcome,
        before=decision.before,
        wanted=decision.wanted,
        after=decision.count,
        reason=decision.reason[:500],
        refused=decision.refused[:500],
        signals={name: value for name, value in asdict(signals).items() if name in COUNTED},
        per_hour=None if worker_hour is None else worker_hour * more,
        currency=allowance.currency,
    )
    if outcome != ScalingOutcome.SCALED:
        log.warning(
            "policy_refused", cluster=str(cluster.pk), pool=row.pool.name, outcome=outcome, said=reason
        )
    cluster_announce(cluster)
