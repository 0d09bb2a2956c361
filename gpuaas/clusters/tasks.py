"""Background tasks of clusters. Arguments are ids; everything else is read again."""

import uuid

from celery import shared_task

from gpuaas.catalog.lanes import SiteTask
from gpuaas.clusters.lease import leases_enforce
from gpuaas.clusters.models import Cluster, ParametersImport, ScalingPolicy, WarmPool
from gpuaas.clusters.reconcile import run
from gpuaas.clusters.reconcile.imports import parameters_import
from gpuaas.clusters.reconcile.policies import samples_prune
from gpuaas.clusters.reconcile.warm import warm_keep
from gpuaas.clusters.services import (
    cluster_jobs_empty,
    jobs_carry_out,
    jobs_due,
    revocations_carry_out,
    revocations_due,
)
from gpuaas.core import claims, clock
from gpuaas.core.queue import poke

JOBS_SECONDS = 5  # between two of a cluster: what has not begun then is not needed any more


@shared_task(name="clusters.reconcile", base=SiteTask, site_by="clusters")
def reconcile(cluster_id: str) -> None:
    run(uuid.UUID(cluster_id))


@shared_task(name="clusters.sweep")
def sweep() -> int:
    """Starts what is due: requests whose poke was lost, waiting steps, retries, periodic checks. Then empties jobs that ended long
    ago."""
    started = claims.due_poke(Cluster, "clusters.reconcile", by="site")
    cluster_jobs_empty()
    return started


@shared_task(name="clusters.leases")
def lease_ends() -> int:
    return leases_enforce(now=clock.now())


@shared_task(name="clusters.policies")
def policies_due() -> int:
    """Starts the rounds of policies that are due. The task is billing's, which knows what may be spent."""
    return claims.due_poke(ScalingPolicy, "billing.scaling_policy", by="pool__cluster__site")


@shared_task(name="clusters.samples")
def samples() -> int:
    return samples_prune(now=clock.now())


@shared_task(name="clusters.revoke")
def revoke() -> int:
    """One task for each cluster, so that a site that does not answer keeps no other from its revocations."""
    due = revocations_due()
    for cluster_id in due:
        poke("clusters.revoke_at", str(cluster_id))
    return len(due)


@shared_task(name="clusters.revoke_at", base=SiteTask, site_by="clusters")
def revoke_at(cluster_id: str) -> int:
    return revocations_carry_out(cluster_id=uuid.UUID(cluster_id))


@shared_task(name="clusters.jobs")
def jobs() -> int:
    due = jobs_due()
    for pk in due:
        poke("clusters.jobs_of", str(pk), expires=JOBS_SECONDS)
    return len(due)


@shared_task(name="clusters.jobs_of", base=SiteTask, site_by="clusters")
def jobs_of(cluster_id: str) -> bool:
    return jobs_carry_out(uuid.UUID(cluster_id))


@shared_task(name="clusters.warm")
def warm_pools_due() -> int:
    return claims.due_poke(WarmPool, "clusters.warm_pool")


@shared_task(name="clusters.warm_pool", base=SiteTask, site_by="cluster_templates__warm_pools")
def warm_pool(pool_id: str) -> None:
    warm_keep(uuid.UUID(pool_id))


@shared_task(name="clusters.parameters_imports")
def parameters_imports_due() -> int:
    return claims.due_poke(ParametersImport, "clusters.parameters_import")


@shared_task(
    name="clusters.parameters_import",
    base=SiteTask,
    site_by="cluster_templates",
    time_limit=110,
    soft_time_limit=100,
)
def parameters_import_ask(template_id: str) -> bool:
    return parameters_import(uuid.UUID(template_id))
