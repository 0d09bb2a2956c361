"""Background work on clusters. Arguments are ids; everything else is read anew."""

import uuid

from celery import shared_task

from gpuaas.clusters.lease import leases_enforce
from gpuaas.clusters.models import Cluster, ParametersImport, ScalingPolicy, WarmPool
from gpuaas.clusters.reconcile import run
from gpuaas.clusters.reconcile.imports import parameters_import
from gpuaas.clusters.reconcile.policies import samples_prune
from gpuaas.clusters.reconcile.warm import warm_keep
from gpuaas.clusters.services import revocations_carry_out
from gpuaas.core import clock, leases
from gpuaas.core.queue import poke

SWEEP_LIMIT = 200


@shared_task(name="clusters.reconcile")
def reconcile(cluster_id: str) -> None:
    run(uuid.UUID(cluster_id))


@shared_task(name="clusters.sweep")
def sweep() -> int:
    """Pokes what is due: new wishes whose poke was lost, waiting steps, retries, periodic looks."""
    due = leases.due_ids(Cluster, now=clock.now(), limit=SWEEP_LIMIT)
    for cluster_id in due:
        poke("clusters.reconcile", str(cluster_id))
    return len(due)


@shared_task(name="clusters.leases")
def lease_ends() -> int:
    return leases_enforce(now=clock.now())


@shared_task(name="clusters.policies")
def policies_due() -> int:
    """Pokes the rounds of policies that are due. They are billing's task, which knows what may be spent."""
    due = leases.due_ids(ScalingPolicy, now=clock.now(), limit=SWEEP_LIMIT)
    for policy_id in due:
        poke("billing.scaling_policy", str(policy_id))
    return len(due)


@shared_task(name="clusters.samples")
def samples() -> int:
    return samples_prune(now=clock.now())


@shared_task(name="clusters.revoke")
def revoke() -> int:
    return revocations_carry_out()


@shared_task(name="clusters.warm")
def warm_pools_due() -> int:
    due = leases.due_ids(WarmPool, now=clock.now(), limit=SWEEP_LIMIT)
    for pool_id in due:
        poke("clusters.warm_pool", str(pool_id))
    return len(due)


@shared_task(name="clusters.warm_pool")
def warm_pool(pool_id: str) -> None:
    warm_keep(uuid.UUID(pool_id))


@shared_task(name="clusters.parameters_imports")
def parameters_imports_due() -> int:
    due = leases.due_ids(ParametersImport, now=clock.now(), limit=SWEEP_LIMIT)
    for template_id in due:
        poke("clusters.parameters_import", str(template_id))
    return len(due)


@shared_task(name="clusters.parameters_import", time_limit=110, soft_time_limit=100)
def parameters_import_ask(template_id: str) -> bool:
    return parameters_import(uuid.UUID(template_id))
