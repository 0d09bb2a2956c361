"""Writes the results of a run: each function is one transaction, guarded by the claim and by the state we acted on."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import F

from gpuaas.catalog.models import Site
from gpuaas.clusters.holdings import holdings_end, holdings_end_at, holdings_set
from gpuaas.clusters.ledger import ledger_settle, ledger_write
from gpuaas.clusters.models import Cluster, ClusterOperationStep
from gpuaas.clusters.reconcile.job import Job
from gpuaas.clusters.reconcile.plan import LOOK_EVERY
from gpuaas.clusters.selectors import definition_of
from gpuaas.clusters.services.rows import CLUSTER, HOLDER, cluster_announce
from gpuaas.clusters.spec import Part, pools_of, takes_of
from gpuaas.clusters.states import ClusterState
from gpuaas.core import claims, clock
from gpuaas.core.conditions import Status
from gpuaas.core.errors import GpuaasError, Unauthorized, Unavailable
from gpuaas.lifecycle import visits
from gpuaas.lifecycle.enforce import ENFORCED
from gpuaas.lifecycle.kind import conditions_write
from gpuaas.lifecycle.lease import LEASE_ENDING
from gpuaas.lifecycle.lease import asleep as asleep_since
from gpuaas.lifecycle.operations import StepRow, StepState
from gpuaas.providers.base import ObservedCluster, SiteObject, StepSpec
from quotas.services import reservation_release, reservation_shrink

HEALTHY = "Healthy"

RECORD: visits.Record[Cluster] = visits.Record(CLUSTER, "project", "template_version__template")
guarded, later, rest, steps_restart = RECORD.guarded, RECORD.later, RECORD.rest, RECORD.steps_restart


def answers(site: Site | None) -> dict[str, Any]:
    """The site row: its own, or a burst site."""
    return visits.reachable() | _at(site)


def silent(site: Site | None, error: Unavailable | Unauthorized) -> dict[str, Any]:
    held_up = (
        {"message": f"{site.slug}: {error.message}; its pools wait, the portal keeps retrying"}
        if site
        else {}
    )
    return visits.unreachable(error) | held_up | _at(site)


def _at(site: Site | None) -> dict[str, str]:
    return {"type": f"{visits.REACHABLE}:{site.slug}"} if site else {}


def healthy(differs: str = "") -> dict[str, Any]:
    if differs:
        return {"type": HEALTHY, "status": Status.FALSE, "reason": "Differs", "message": differs}
    message = "all machines are ready"
    return {"type": HEALTHY, "status": Status.TRUE, "reason": "MachinesReady", "message": message}


def begin(job: Job) -> None:
    with guarded(job) as row:
        CLUSTER.move(row, ClusterState.PROVISIONING)
        cluster_announce(row)


def step_start(job: Job, step: ClusterOperationStep) -> None:
    """Records what the step may make in the ledger before the site is asked for any of it."""
    with guarded(job) as row:
        news = step.state != StepState.RUNNING
        step.state, step.attempts = StepState.RUNNING, step.attempts + 1
        step.started_at = step.started_at or clock.now()
        step.save(update_fields=["state", "attempts", "started_at"])
        ledger_write(cluster=row, step=step.key, makes=step.makes, at=clock.now(), site_id=step.site_id)
        if news:
            cluster_announce(row)


def step_done(job: Job, step: ClusterOperationStep, detail: str) -> None:
    RECORD.step_done(job, step, detail, answers(step.site))


def step_wait(job: Job, step: ClusterOperationStep, detail: str, *, due_at: datetime) -> None:
    RECORD.step_wait(job, step, detail, answers(step.site), due_at=due_at, moved_at=clock.now())


def passed_over(job: Job, site: Site | None, error: Unavailable | Unauthorized) -> None:
    """A site does not answer: what needs it waits, everything else continues."""
    with guarded(job) as row:
        if conditions_write(row, silent(site, error)):
            cluster_announce(row)


def give_up(job: Job, step: StepRow, error: GpuaasError) -> None:
    """With cause, evidence and what to do next."""
    RECORD.give_up(job, step, error.message, trouble=trouble_of(step, error))


def trouble_of(step: StepRow, error: GpuaasError) -> dict[str, Any]:
    evidence = [str(line)[:500] for line in error.detail.get("evidence", ())][:20]
    return {
        "step": step.key,
        "cause": error.message[:500],
        "evidence": evidence or [f"{step.label}: {error.message}"[:500]],
        "next": str(error.detail.get("next") or "Retry this step; if it fails again, ask an operator.")[:500],
    }


@dataclass(frozen=True)
class Seen:
    """What one site reported, and what a sweep found there; cluster None = it was only swept."""

    part: Part
    cluster: ObservedCluster | None
    found: Sequence[SiteObject]


def looked(job: Job, seen: Sequence[Seen], differs: str) -> None:
    """What its sites reported; machines at a site that did not answer stay as last seen."""
    facts = _facts(job, seen)
    with guarded(job) as row:
        for one in seen:
            ledger_settle(cluster=row, found=one.found, at=clock.now(), site_id=one.part.site_id)
        news = facts != {key: value for key, value in row.observed.items() if key != "at"}
        row.observed = {**facts, "at": clock.now().isoformat()}
        row.save(update_fields=["observed"])
        changes = [answers(one.part.site) for one in seen]
        own_seen = any(one.part.site is None for one in seen)
        if own_seen and row.state in {ClusterState.READY, ClusterState.SUSPENDED}:
            changes.append(healthy(differs))
        if conditions_write(row, *changes) or news:
            cluster_announce(row)


def _facts(job: Job, seen: Sequence[Seen]) -> dict[str, Any]:
    """Nothing for what is being removed; for a site that did not answer its last report."""
    clusters = {one.part.site_id: one.cluster for one in seen if one.cluster is not None}
    own = clusters.get(None)
    if not clusters or (own is not None and not any(cluster.exists for cluster in clusters.values())):
        return {}
    reported = {pool.name for one in seen for pool in one.part.spec.pools} | ({""} if own else set())
    nodes = [node for node in job.row.observed.get("nodes", ()) if node["pool"] not in reported]
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
    """During a removal, the ledger empties as the site does. After the `last` step at one of several sites, what has
    nothing left there is no longer charged or held."""
    moment = clock.now()
    with guarded(job) as row:
        ledger_settle(cluster=row, found=found, at=moment, site_id=part.site_id)
        if last and not found and len(job.parts) > 1:
            holdings_end_at(cluster=row, site_id=part.site_id, at=moment)
            reservation_release(holder_kind=HOLDER, holder_id=row.pk, site=part.site or row.site)


def finish_up(job: Job, *, asleep: bool = False) -> None:
    """The site has confirmed: counts, releases, holdings and reservation become what was requested."""
    moment = clock.now()
    with guarded(job) as row:
        RECORD.operation_end(job, moment, succeeded=True)
        pools = pools_of(row)
        items = [] if asleep else [(pool.flavor, pool.count) for pool in pools if pool.count]
        definition = definition_of(row.template_version)
        takes = takes_of(row, items, definition)
        row.pools.update(confirmed=0 if asleep else F("count"), confirmed_release=F("release"))
        holdings_set(cluster=row, items=items, takes=takes, at=moment)
        conditions_write(row, visits.reachable(), healthy(), drop=(visits.PROGRESSING,))
        up = {"ready_at": row.ready_at or moment, "suspended_at": None, "confirmed_release": row.release}
        changes: dict[str, Any] = asleep_since(CLUSTER, row, at=moment) if asleep else up
        CLUSTER.move(
            row,
            ClusterState.SUSPENDED if asleep else ClusterState.READY,
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
        claims.release(row, due_at=moment + LOOK_EVERY, attempts=0)
        cluster_announce(row)


def finish_deleted(job: Job) -> None:
    """A sweep has proved that nothing is left: charges end, and the reservation is released, exactly once."""
    moment = clock.now()
    with guarded(job) as row:
        RECORD.operation_end(job, moment, succeeded=True)
        holdings_end(cluster=row, at=moment)
        row.pools.update(confirmed=0)
        others = [kind for kind in row.conditions if kind.startswith(f"{visits.REACHABLE}:")]
        conditions_write(
            row, visits.reachable(), drop=(visits.PROGRESSING, HEALTHY, LEASE_ENDING, ENFORCED, *others)
        )
        CLUSTER.move(
            row,
            ClusterState.DELETED,
            deleted_at=moment,
            observed={},
            seed="",
        )
        row.boots.all().delete()
        row.grants.filter(revoked_at=None, expires_at__gt=moment).update(revoked_at=moment)
        reservation_release(holder_kind=HOLDER, holder_id=row.pk)
        row.due_at = job.row.due_at
        claims.release(row, due_at=moment + visits.LEFTOVERS_AFTER, attempts=0)
        cluster_announce(row)


def made_again(job: Job, part: Part, step: StepSpec) -> None:
    """Called before a step is performed without an operation."""
    with guarded(job) as row:
        makes = [[one.kind, one.name] for one in step.makes]
        ledger_write(cluster=row, step=step.key, makes=makes, at=clock.now(), site_id=part.site_id)
