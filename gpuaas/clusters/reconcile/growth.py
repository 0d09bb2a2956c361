"""A growth by policy that a site has given up on: what it could not make is taken back, and asked for again later.

Otherwise the cluster would be failed, with its policy silent and its reservation held, until somebody looked.
"""

from datetime import datetime, timedelta

import structlog
from django.db import transaction
from django.db.models import F

from gpuaas.clusters.models import Cluster, ClusterPool, ScalingDecision, ScalingOutcome, ScalingPolicy
from gpuaas.clusters.policies.facts import Cap
from gpuaas.clusters.services.changes import cluster_scale
from gpuaas.clusters.states import ClusterState
from gpuaas.core.clock import whole_second
from gpuaas.core.errors import Conflict, Invalid
from gpuaas.providers.base import Change
from tenants.actors import SYSTEM

log = structlog.get_logger(__name__)
AGAIN_AFTER = timedelta(minutes=30)


def has_failed(cluster: Cluster, pool: ClusterPool) -> bool:
    """The last change was the policy's, of this pool. One query for a failed cluster, none for others."""
    if cluster.state != ClusterState.FAILED or pool.count <= pool.confirmed:
        return False
    last = cluster.operations.first()
    return last is not None and last.kind == Change.SCALE and last.requested_by == SYSTEM.name


def take_back(row: ScalingPolicy, cluster: Cluster, at: datetime) -> None:
    """Back to the workers that the site has confirmed, with a line in the log. The caller has locked the cluster."""
    pool, cause = row.pool, str(cluster.trouble.get("cause", ""))
    try:
        with transaction.atomic():
            cluster_scale(
                actor=SYSTEM,
                cluster=cluster,
                counts={pool.name: pool.confirmed},
                reason="by policy: back to what the site could make",
            )
    except (Conflict, Invalid) as error:
        log.warning("growth_not_taken_back", cluster=str(cluster.pk), pool=pool.name, said=error.message)
        return
    ScalingDecision.objects.create(
        cluster=cluster,
        pool=pool.name,
        kind=row.kind,
        at=whole_second(at),
        outcome=ScalingOutcome.REFUSED,
        before=pool.count,
        wanted=pool.count,
        after=pool.confirmed,
        reason=f"The site could not make {pool.count - pool.confirmed} more",
        refused=cause[:500],
        signals={},
    )


def caps_of(cluster: Cluster, pool: ClusterPool, now: datetime) -> tuple[Cap, ...]:
    """For a while no more than what the site could make. One query."""
    recent = ScalingDecision.objects.filter(cluster=cluster, pool=pool.name, at__gt=now - AGAIN_AFTER)
    last = recent.filter(outcome=ScalingOutcome.REFUSED, after__lt=F("before")).first()
    if last is None:
        return ()
    again = last.at + AGAIN_AFTER
    return (
        Cap(
            last.after,
            f"the site could not make more, and is asked again at {again:%H:%M} UTC: {last.refused}",
        ),
    )
