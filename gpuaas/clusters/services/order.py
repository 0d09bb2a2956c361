"""Ordering a cluster: plan, reserve exactly what was planned, record; the reconciler does the rest."""

from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction

from gpuaas.clusters.models import Cluster, ClusterPool, ClusterTransition
from gpuaas.clusters.selectors import template_offered, template_version_get
from gpuaas.clusters.services.handover import cluster_claim
from gpuaas.clusters.services.planning import Draft, draft_make, name_validate
from gpuaas.clusters.services.rows import CLUSTER, HOLDER, cluster_wake, operation_start
from gpuaas.clusters.spec import seed_make
from gpuaas.clusters.states import ClusterState
from gpuaas.core.errors import Conflict, Forbidden
from gpuaas.providers.base import Change
from quotas.services import reservation_reserve
from tenants.actors import Actor
from tenants.models import Project, User
from tenants.roles import Permission
from tenants.selectors import project_require


def cluster_order(
    *,
    actor: Actor,
    project: Project,
    template: str,
    name: str,
    document: Any,
    number: int | None = None,
    lease_ends_at: datetime | None = None,
) -> Cluster:
    """Accepts and reserves, or changes nothing. If a warm pool has an equal cluster ready, the order gets that one.

    Raises Invalid, QuotaRefused, NoCapacity, OnHold, Conflict (name in use).
    """
    project_require(actor=actor, project=project, permission=Permission.WORKSPACE_CREATE)
    if actor.user_id is None:
        raise Forbidden("only a person can order a cluster")
    found = template_offered(project=project, slug=template)
    draft = draft_make(
        project=project,
        version=template_version_get(template=found, number=number),
        document=document,
        name=name_validate(name),
        lease_ends_at=lease_ends_at,
    )
    draft.cluster.created_by = User.objects.get(pk=actor.user_id)
    try:
        with transaction.atomic():
            return cluster_claim(actor=actor, draft=draft) or cluster_build(actor=actor, draft=draft)
    except IntegrityError as error:
        if "cluster_name_once_per_project" not in str(error):
            raise
        draft.admission().refuse()  # whoever was first may have taken the last of a limit too: said before the name, as always
        message = f"the project {project.slug} already has a cluster called {name}"
        raise Conflict(message, detail={"field": "name"}) from error


def cluster_build(*, actor: Actor, draft: Draft) -> Cluster:
    """In the caller's transaction. Reserves last: orders compete for the counters, so they are locked for the
    shortest time. What already exceeds a limit is refused before anything is written; concurrent orders are decided
    by the reservation."""
    cluster = draft.cluster
    draft.admission().refuse()
    cluster.seed = seed_make()
    cluster.save(force_insert=True)
    ClusterPool.objects.bulk_create(draft.pools)
    ClusterTransition.objects.create(subject=cluster, old="", new=ClusterState.REQUESTED, actor=actor.name)
    words = words_of(draft.pools)
    operation_start(
        cluster,
        Change.CREATE,
        actor,
        steps=draft.plan.steps,
        summary=words,
        admission=f"reserved {words}" if words else "reserved the control plane",
    )
    CLUSTER.audit(
        cluster,
        actor,
        "order",
        after={
            "template": str(cluster.template_version),
            "document": dict(draft.document),
            "lease_ends_at": cluster.lease_ends_at.isoformat(),
        },
    )
    cluster_wake(cluster)
    takes = draft.takes
    reservation_reserve(
        holder_kind=HOLDER,
        holder_id=cluster.pk,
        project=cluster.project,
        site=cluster.site,
        amounts=takes.home,
        elsewhere=takes.elsewhere,
    )
    return cluster


def words_of(pools: tuple[ClusterPool, ...] | list[ClusterPool]) -> str:
    """`gpu: 2 × H100 SXM`, at most 200 characters."""
    return ", ".join(f"{pool.name}: {pool.count} × {pool.flavor.name}" for pool in pools if pool.count)[:200]
