"""Writing down what a run did: each function is one transaction, guarded by the lease and by the state we acted on."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import F

from gpuaas.catalog.models import Site
from gpuaas.clusters.holdings import holdings_end, holdings_end_at, holdings_set
from gpuaas.clusters.ledger import ledger_settle, ledger_write
from gpuaas.clusters.models import Cluster, ClusterOperationStep, ClusterTransition
from gpuaas.clusters.reconcile.job import Job
from gpuaas.clusters.reconcile.plan import LEFTOVERS_AFTER, LOOK_EVERY
from gpuaas.clusters.selectors import definition_of
from gpuaas.clusters.services.rows import HOLDER, cluster_announce
from gpuaas.clusters.spec import Part, pools_of, takes_of
from gpuaas.clusters.states import MACHINE, ClusterState
from gpuaas.core import clock, leases
from gpuaas.core.conditions import Status
from gpuaas.core.errors import GpuaasError, Unauthorized, Unavailable
from gpuaas.core.operations import StepState
from gpuaas.core.visits import (
    PORTAL,
    PROGRESSING,
    REACHABLE,
    Record,
    conditions_write,
    reachable,
    step_fail,
    unreachable,
)
from gpuaas.providers.base import ClusterStep, ObservedCluster, SiteObject
from quotas.services import reservation_release, reservation_shrink

HEALTHY = "Healthy"

RECORD: Record[Cluster] = Record(
    "cluster",
    lambda: Cluster.objects.select_related("project", "template_version__template"),
    cluster_announce,
)
guarded, later, rest, steps_restart = RECORD.guarded, RECORD.later, RECORD.rest, RECORD.steps_restart


def answers(site: Site | None) -> dict[str, Any]:
    """Of its own site, or of a burst site."""
    return reachable() | _at(site)


def silent(site: Site | None, error: Unavailable | Unauthorized) -> dict[str, Any]:
    held_up = (
        {"message": f"{site.slug}: {error.message}; its pools wait, the portal keeps trying"} if site else {}
    )
    return unreachable(error) | held_up | _at(site)


def _at(site: Site | None) -> dict[str, str]:
    return {"type": f"{REACHABLE}:{site.slug}"} if site else {}


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
        ledger_write(cluster=row, step=step.key, makes=step.makes, at=clock.now(), site_id=step.site_id)
        if news:
            cluster_announce(row)


def step_done(job: Job, step: ClusterOperationStep, detail: str) -> None:
    with guarded(job) as row:
        step.state, step.finished_at, step.detail = StepState.DONE, clock.now(), detail[:500]
        step.save(update_fields=["state", "finished_at", "detail"])
        conditions_write(row, answers(step.site), drop=(PROGRESSING,))
        Cluster.objects.filter(pk=row.pk).update(attempts=0)
        cluster_announce(row)


def step_wait(job: Job, step: ClusterOperationStep, detail: str, *, due_at: datetime) -> None:
    """The site works on it: the lease is given back until then."""
    with guarded(job) as row:
        news = step.detail != detail[:500]
        step.detail = detail[:500]
        step.save(update_fields=["detail"])
        news = conditions_write(row, answers(step.site), drop=(PROGRESSING,)) or news
        leases.release(row, due_at=due_at, attempts=0)
        if news:
            cluster_announce(row)


def passed_over(job: Job, site: Site | None, error: Unavailable | Unauthorized) -> None:
    """A site is away: what has to do with it waits, all else goes on."""
    with guarded(job) as row:
        if conditions_write(row, silent(site, error)):
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


@dataclass(frozen=True)
class Seen:
    """What one site said, and what a sweep found there; cluster None = it was only swept."""

    part: Part
    cluster: ObservedCluster | None
    found: Sequence[SiteObject]


def looked(job: Job, seen: Sequence[Seen], differs: str) -> None:
    """What its sites said; machines at a site that did not answer stay as last seen."""
    facts = _facts(job, seen)
    with guarded(job) as row:
        for one in seen:
            ledger_settle(cluster=row, found=one.found, at=clock.now(), site_id=one.part.site_id)
        news = facts != {key: value for key, value in row.observed.items() if key != "at"}
        row.observed = {**facts, "at": clock.now().isoformat()}
        row.save(update_fields=["observed"])
        changes = [answers(one.part.site) for one in seen]
        whole = any(one.part.site is None for one in seen)
        if whole and row.state in {ClusterState.READY, ClusterState.SUSPENDED}:
            changes.append(healthy(differs))
        if conditions_write(row, *changes) or news:
            cluster_announce(row)


def _facts(job: Job, seen: Sequence[Seen]) -> dict[str, Any]:
    """Of what is being taken away nothing; of a site that did not answer what it said last."""
    clusters = {one.part.site_id: one.cluster for one in seen if one.cluster is not None}
    own = clusters.get(None)
    if not clusters or (own is not None and not any(cluster.exists for cluster in clusters.values())):
        return {}
    told = {pool.name for one in seen for pool in one.part.spec.pools} | ({""} if own else set())
    nodes = [node for node in job.row.observed.get("nodes", ()) if node["pool"] not in told]
    nodes += [
        {
            "name": node.name,
            "pool": node.pool,
            "release": node.release,
            "ready": node.ready,
            "reason": node.reason,
        }
        for cluster in clusters.values()
        for node in cluster.nodes
    ]
    endpoint = own.endpoint if own else job.row.observed.get("endpoint", "")
    return {"endpoint": endpoint, "nodes": sorted(nodes, key=lambda node: (node["pool"], node["name"]))}


def swept(job: Job, part: Part, found: Sequence[SiteObject], *, last: bool) -> None:
    """While it is taken away, the ledger empties as the site does. With the `last` step at one of several sites, what nothing is left
    of is no longer charged nor held there."""
    moment = clock.now()
    with guarded(job) as row:
        ledger_settle(cluster=row, found=found, at=moment, site_id=part.site_id)
        if last and not found and len(job.parts) > 1:
            holdings_end_at(cluster=row, site_id=part.site_id, at=moment)
            reservation_release(holder_kind=HOLDER, holder_id=row.pk, site=part.site or row.site)


def finish_up(job: Job, *, asleep: bool = False) -> None:
    """The site has confirmed: counts, releases, holdings and reservation become what was asked."""
    moment = clock.now()
    with guarded(job) as row:
        RECORD.operation_end(job, moment, succeeded=True)
        pools = pools_of(row)
        items = [] if asleep else [(pool.flavor, pool.count) for pool in pools if pool.count]
        definition = definition_of(row.template_version)
        takes = takes_of(row, items, definition)
        row.pools.update(confirmed=0 if asleep else F("count"), confirmed_release=F("release"))
        holdings_set(cluster=row, items=items, takes=takes, at=moment)
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
        reservation_shrink(
            holder_kind=HOLDER,
            holder_id=row.pk,
            amounts=takes.home,
            site=row.site,
            elsewhere=takes.elsewhere,
        )
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
        others = [kind for kind in row.conditions if kind.startswith(f"{REACHABLE}:")]
        conditions_write(row, reachable(), drop=(PROGRESSING, HEALTHY, "LeaseEnding", *others))
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


def made_again(job: Job, part: Part, step: ClusterStep) -> None:
    """Before a step is done without an operation."""
    with guarded(job) as row:
        makes = [[one.kind, one.name] for one in step.makes]
        ledger_write(cluster=row, step=step.key, makes=makes, at=clock.now(), site_id=part.site_id)
