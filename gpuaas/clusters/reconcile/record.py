"""Writing down what a run did: each function is one transaction, guarded by the lease and by the state we acted on."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db.models import F

from gpuaas.clusters.holdings import holdings_end, holdings_set
from gpuaas.clusters.ledger import ledger_settle, ledger_write
from gpuaas.clusters.models import Cluster, ClusterOperationStep, ClusterTransition
from gpuaas.clusters.reconcile.job import Job
from gpuaas.clusters.reconcile.plan import LEFTOVERS_AFTER, LOOK_EVERY
from gpuaas.clusters.selectors import definition_of
from gpuaas.clusters.services.rows import HOLDER, cluster_announce
from gpuaas.clusters.spec import held_amounts, pools_of
from gpuaas.clusters.states import MACHINE, ClusterState
from gpuaas.core import clock, leases
from gpuaas.core.conditions import Status
from gpuaas.core.errors import GpuaasError
from gpuaas.core.operations import StepState
from gpuaas.core.visits import PORTAL, PROGRESSING, Record, conditions_write, reachable, step_fail
from gpuaas.providers.base import ClusterStep, ObservedCluster, SiteObject
from quotas.services import reservation_release, reservation_shrink

HEALTHY = "Healthy"

RECORD: Record[Cluster] = Record(
    "cluster",
    lambda: Cluster.objects.select_related("project", "template_version__template"),
    cluster_announce,
)
guarded, later, rest, steps_restart = RECORD.guarded, RECORD.later, RECORD.rest, RECORD.steps_restart


def healthy(differs: str = "") -> dict[str, Any]:
    if differs:
        return {"type": HEALTHY, "status": Status.FALSE, "reason": "Differs", "message": differs}
    message = "every machine is ready"
    return {"type": HEALTHY, "status": Status.TRUE, "reason": "MachinesReady", "message": message}


def begin(job: Job) -> None:
    with guarded(job) as row:
        MACHINE.transition(row, to=ClusterState.PROVISIONING, history=ClusterTransition, actor=PORTAL)
        cluster_announce(row)


def step_start(job: Job, step: ClusterOperationStep) -> None:
    """What the step may make is in the ledger before the site is asked for any of it."""
    with guarded(job) as row:
        news = step.state != StepState.RUNNING
        step.state, step.attempts = StepState.RUNNING, step.attempts + 1
        step.started_at = step.started_at or clock.now()
        step.save(update_fields=["state", "attempts", "started_at"])
        ledger_write(cluster=row, step=step.key, makes=step.makes, at=clock.now())
        if news:
            cluster_announce(row)


def step_done(job: Job, step: ClusterOperationStep, detail: str) -> None:
    with guarded(job) as row:
        step.state, step.finished_at, step.detail = StepState.DONE, clock.now(), detail[:500]
        step.save(update_fields=["state", "finished_at", "detail"])
        conditions_write(row, reachable(), drop=(PROGRESSING,))
        Cluster.objects.filter(pk=row.pk).update(attempts=0)
        cluster_announce(row)


def step_wait(job: Job, step: ClusterOperationStep, detail: str, *, due_at: datetime) -> None:
    """The site works on it: the lease is given back until then."""
    with guarded(job) as row:
        news = step.detail != detail[:500]
        step.detail = detail[:500]
        step.save(update_fields=["detail"])
        news = conditions_write(row, reachable(), drop=(PROGRESSING,)) or news
        leases.release(row, due_at=due_at, attempts=0)
        if news:
            cluster_announce(row)


def give_up(job: Job, step: ClusterOperationStep, error: GpuaasError) -> None:
    """Failed, with cause, evidence and what to do next. What is reserved stays held for the retry."""
    moment = clock.now()
    trouble = trouble_of(step, error)
    with guarded(job) as row:
        step_fail(step, moment, error.message)
        RECORD.operation_end(job, moment, succeeded=False)
        conditions_write(row, reachable(), drop=(PROGRESSING,))
        MACHINE.transition(
            row,
            to=ClusterState.FAILED,
            history=ClusterTransition,
            actor=PORTAL,
            reason=error.message,
            trouble=trouble,
        )
        leases.release(row, due_at=None, attempts=0)
        cluster_announce(row)


def trouble_of(step: ClusterOperationStep, error: GpuaasError) -> dict[str, Any]:
    evidence = [str(line)[:500] for line in error.detail.get("evidence", ())][:20]
    return {
        "step": step.key,
        "cause": error.message[:500],
        "evidence": evidence or [f"{step.label}: {error.message}"[:500]],
        "next": str(error.detail.get("next") or "Retry from this step; if it fails again, ask an operator.")[
            :500
        ],
    }


def looked(job: Job, seen: ObservedCluster | None, found: Sequence[SiteObject], differs: str) -> None:
    """What the site said and what a sweep found there; seen None = only swept."""
    facts: dict[str, Any] = {}
    if seen is not None and seen.exists:
        nodes = sorted(seen.nodes, key=lambda node: (node.pool, node.name))
        facts = {
            "endpoint": seen.endpoint,
            "nodes": [
                {
                    "name": node.name,
                    "pool": node.pool,
                    "release": node.release,
                    "ready": node.ready,
                    "reason": node.reason,
                }
                for node in nodes
            ],
        }
    with guarded(job) as row:
        ledger_settle(cluster=row, found=found, at=clock.now())
        news = facts != {key: value for key, value in row.observed.items() if key != "at"}
        row.observed = {**facts, "at": clock.now().isoformat()}
        row.save(update_fields=["observed"])
        changes = [reachable()]
        if row.state in {ClusterState.READY, ClusterState.SUSPENDED}:
            changes.append(healthy(differs))
        if conditions_write(row, *changes) or news:
            cluster_announce(row)


def swept(job: Job, found: Sequence[SiteObject]) -> None:
    """While it is taken away, the ledger empties as the site does."""
    with guarded(job) as row:
        ledger_settle(cluster=row, found=found, at=clock.now())


def finish_up(job: Job, *, asleep: bool = False) -> None:
    """The site has confirmed: counts, releases, holdings and reservation become what was asked."""
    moment = clock.now()
    with guarded(job) as row:
        RECORD.operation_end(job, moment, succeeded=True)
        pools = pools_of(row)
        items = [] if asleep else [(pool.flavor, pool.count) for pool in pools if pool.count]
        definition = definition_of(row.template_version)
        amounts = held_amounts(items, control_count=row.control_count, definition=definition)
        row.pools.update(confirmed=0 if asleep else F("count"), confirmed_release=F("release"))
        holdings_set(cluster=row, items=items, amounts=amounts, at=moment)
        conditions_write(row, reachable(), healthy(), drop=(PROGRESSING,))
        up = {"ready_at": row.ready_at or moment, "suspended_at": None, "confirmed_release": row.release}
        changes: dict[str, Any] = {} if asleep else up
        MACHINE.transition(
            row,
            to=ClusterState.SUSPENDED if asleep else ClusterState.READY,
            history=ClusterTransition,
            actor=PORTAL,
            **changes,
        )
        reservation_shrink(holder_kind=HOLDER, holder_id=row.pk, amounts=amounts)
        row.due_at = job.row.due_at  # the transition has read the row anew
        leases.release(row, due_at=moment + LOOK_EVERY, attempts=0)
        cluster_announce(row)


def finish_deleted(job: Job) -> None:
    """A sweep has proved that nothing is left: charging ends, what was reserved is given back, exactly once."""
    moment = clock.now()
    with guarded(job) as row:
        RECORD.operation_end(job, moment, succeeded=True)
        holdings_end(cluster=row, at=moment)
        row.pools.update(confirmed=0)
        conditions_write(row, reachable(), drop=(PROGRESSING, HEALTHY, "LeaseEnding"))
        MACHINE.transition(
            row,
            to=ClusterState.DELETED,
            history=ClusterTransition,
            actor=PORTAL,
            deleted_at=moment,
            observed={},
            seed="",
        )
        row.boots.all().delete()
        row.grants.filter(revoked_at=None, expires_at__gt=moment).update(revoked_at=moment)
        reservation_release(holder_kind=HOLDER, holder_id=row.pk)
        row.due_at = job.row.due_at
        leases.release(row, due_at=moment + LEFTOVERS_AFTER, attempts=0)
        cluster_announce(row)


def made_again(job: Job, step: ClusterStep) -> None:
    """Before a step is done without an operation."""
    with guarded(job) as row:
        makes = [[one.kind, one.name] for one in step.makes]
        ledger_write(cluster=row, step=step.key, makes=makes, at=clock.now())
