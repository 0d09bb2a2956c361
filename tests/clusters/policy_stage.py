"""A cluster with a policy on its pool of GPU workers, and rounds of it at moments that a test names."""

from datetime import datetime, timedelta
from typing import Any

from gpuaas.catalog.models import Site
from gpuaas.clusters.models import Cluster, PoolSample, ScalingPolicy
from gpuaas.clusters.reconcile.policies import Allowance, policy_run
from gpuaas.clusters.services import PolicyTerms, policy_create
from gpuaas.core.clock import now, whole_second
from gpuaas.providers.sandbox.clusters.demand import demand_set
from tenants.actors import Actor

QUICK: dict[str, Any] = {
    "kind": "pending",
    "minimum": 1,
    "maximum": 6,
    "step": 6,
    "up_delay": 0,
    "down_delay": 0,
    "cool_down": 0,
    "enabled": True,
}


def quick(**changes: Any) -> PolicyTerms:
    """Terms without delays."""
    return PolicyTerms(**QUICK | changes)


def free(policy: ScalingPolicy, at: datetime) -> Allowance:
    """Money is no object."""
    del policy, at
    return Allowance()


def scaled_by(actor: Actor, cluster: Cluster, *, pool: str = "gpu", **changes: Any) -> ScalingPolicy:
    return policy_create(actor=actor, cluster=cluster, pool=pool, terms=quick(**changes))


def round_now(policy: ScalingPolicy) -> ScalingPolicy:
    """One round, whenever it would have been due."""
    ScalingPolicy.objects.filter(pk=policy.pk).update(due_at=now())
    policy_run(policy.pk, purse=free)
    return ScalingPolicy.objects.select_related("pool").get(pk=policy.pk)


def demand(site: Site, cluster: Cluster, gpus: int, *, pool: str = "gpu", jobs: int = 0) -> None:
    demand_set(site.pk, cluster.pk, pool, gpus=gpus, jobs=jobs)


def recorded(policy: ScalingPolicy, asked: list[int], *, count: int = 1, every: int = 60) -> datetime:
    """Samples of so many GPUs asked for, `every` seconds apart, up to now; the moment of the first."""
    gpus = policy.pool.flavor.gpus
    first = whole_second(now()) - timedelta(seconds=every * len(asked))
    PoolSample.objects.bulk_create(
        PoolSample(
            pool=policy.pool,
            at=first + timedelta(seconds=every * place),
            count=count,
            used_gpus=min(wanted, count * gpus),
            pending_gpus=max(wanted - count * gpus, 0),
            queued=max(wanted - count * gpus, 0),
            room=policy.maximum,
        )
        for place, wanted in enumerate(asked)
    )
    return first
