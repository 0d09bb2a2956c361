"""Serves an order from a warm pool: the cluster is moved to the tenant's project in the order's transaction."""

from functools import partial

from django.db.models import DateTimeField
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast

from gpuaas.clusters.holdings import holdings_move
from gpuaas.clusters.models import Cluster, ClusterTransition
from gpuaas.clusters.services.planning import Draft
from gpuaas.clusters.services.rows import HOLDER, cluster_wake, driver_of, operation_start
from gpuaas.clusters.spec import parts_of
from gpuaas.clusters.states import CLAIM, MACHINE, ClusterState
from gpuaas.clusters.steps import plan_whole, sites_held
from gpuaas.clusters.waiting import claimable
from gpuaas.core import clock, events
from gpuaas.core.queue import poke
from gpuaas.providers.base import Change
from quotas.services import reservation_move
from tenants.actors import SYSTEM, Actor
from tenants.audit import audit_record
from tenants.models import Project

REASON = "claimed from a warm pool"


def cluster_claim(*, actor: Actor, draft: Draft) -> Cluster | None:
    """Of the ready clusters equal to the order, the one last seen healthy, now the tenant's; None if there is none.
    In the caller's transaction. Raises QuotaRefused, NoCapacity (a pool is another organization's) or OnHold as an
    order does."""
    row = _take(draft)
    if row is None:
        return None
    giver, moment, wanted = row.project, clock.now(), draft.cluster
    MACHINE.transition(
        row,
        to=ClusterState.PROVISIONING,
        history=ClusterTransition,
        actor=actor.name,
        reason=REASON,
        project=wanted.project,
        name=wanted.name,
        created_by=wanted.created_by,
        created_at=moment,
        lease_ends_at=wanted.lease_ends_at,
        claimed_at=moment,
        due_at=moment,
        attempts=0,
        trouble={},
    )
    parts = parts_of(row)
    held = sites_held(row, parts)
    steps = plan_whole(Change.CREATE, parts, partial(driver_of, row), held=held).steps
    operation_start(row, CLAIM, actor, steps=steps, summary=REASON, admission="handed over as it stood")
    _record(actor, row, draft, giver)
    cluster_wake(row)
    poke("clusters.warm_pool", str(row.warm_pool_id))
    holdings_move(cluster=row, project=row.project, at=moment)
    reservation_move(holder_kind=HOLDER, holder_id=row.pk, project=row.project)
    return row


def _record(actor: Actor, row: Cluster, draft: Draft, giver: Project) -> None:
    """The project that gave it learns that it was claimed, but not by whom."""
    after = {
        "template": str(row.template_version),
        "document": dict(draft.document),
        "lease_ends_at": row.lease_ends_at.isoformat(),
    }
    audit_record(actor=actor, action="cluster.claim", target=row, project=row.project, after=after)
    gone = {"cluster": str(row.pk)}
    audit_record(actor=SYSTEM, action="warm_pool.claimed", target=row.warm_pool, project=giver, after=gone)
    events.publish(kind="cluster", id=row.pk, groups=(events.project_group(giver.pk),))


def _take(draft: Draft) -> Cluster | None:
    """Locked, and still ready. One that nobody else has locked comes first; otherwise it waits for one, because the
    other order may be refused, or the lock may be a worker's that records its health."""
    seen = Cast(KeyTextTransform("at", "observed"), DateTimeField())
    rows = claimable(draft.cluster, draft.pools).order_by(seen.desc(nulls_last=True), "ready_at", "pk")
    if not rows.exists():
        return None
    rows = rows.select_related("project__organization", "site", "template_version__template", "warm_pool")
    free = rows.select_for_update(of=("self",), no_key=True, skip_locked=True).first()
    return free or rows.select_for_update(of=("self",), no_key=True).first()
