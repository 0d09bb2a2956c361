"""The plan of a cluster with its price: the one call that answers while somebody fills in an order."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from billing.money import amount_of
from billing.quotes import Beside, Quote, QuoteItem, quote
from billing.selectors.costs import cost_by_holder, currency_of
from gpuaas.clusters.models import Cluster, WarmPool
from gpuaas.clusters.selectors import definition_of
from gpuaas.clusters.services import Draft, Plan, cluster_plan
from gpuaas.clusters.spec import is_asleep
from gpuaas.clusters.states import ClusterState
from tenants.actors import Actor
from tenants.models import Project
from tenants.roles import Permission


@dataclass(frozen=True)
class PricedPlan:
    """quote: per hour and to the end of the lease; None for people who may not see prices."""

    plan: Plan
    quote: Quote | None


def cluster_plan_priced(
    *,
    actor: Actor,
    project: Project,
    template: str,
    document: Any,
    name: str | None = None,
    number: int | None = None,
    lease_ends_at: datetime | None = None,
) -> PricedPlan:
    """Like `cluster_plan`, with the cost by the organization's own prices."""
    plan = cluster_plan(
        actor=actor,
        project=project,
        template=template,
        document=document,
        name=name,
        number=number,
        lease_ends_at=lease_ends_at,
    )
    if Permission.BILLING_VIEW not in actor.on_project(project.pk, project.organization_id):
        return PricedPlan(plan, None)
    return PricedPlan(plan, draft_quote(draft=plan.draft))


def draft_quote(*, draft: Draft) -> Quote:
    """The cost by the prices of its project's organization."""
    count, sizes = draft.cluster.control_count, draft.definition
    return quote(
        organization=draft.cluster.project.organization,
        items=[QuoteItem(flavor, workers) for flavor, workers in draft.items],
        storage_gib=count * sizes.disk_gib,
        lease_ends_at=draft.cluster.lease_ends_at,
        beside=Beside(vcpus=count * sizes.vcpus, memory_gib=count * sizes.memory_gib),
    )


def warm_pool_cost(
    *, actor: Actor, pool: WarmPool, month: date | None = None, now: datetime | None = None
) -> Decimal:
    """What the clusters of a warm pool cost their project in a month (default this one): until they were claimed, and
    those that never were. Part of the project's lines."""
    mine = list(Cluster.objects.filter(warm_pool=pool).values_list("pk", flat=True))
    rows = cost_by_holder(actor=actor, project=pool.project, month=month, now=now, holders=mine)
    return sum((row.amount for row in rows), amount_of(0, currency_of(pool.project.organization_id)))


def cluster_wanted_quote(
    *,
    cluster: Cluster,
    counts: Mapping[str, int] | None = None,
    lease_ends_at: datetime | None = None,
    awake: bool | None = None,
) -> Quote:
    """The cost of what is wanted of it, by present prices: of a suspended cluster its control plane, of a deleted one
    nothing. The cost of what runs is `held_quote`.

    counts: other numbers of workers, by pool; lease_ends_at: another end; awake: as if it were, or as if it slept.
    """
    wanted = counts or {}
    definition = definition_of(cluster.template_version)
    count = 0 if cluster.state == ClusterState.DELETED else cluster.control_count
    runs = count and (not is_asleep(cluster) if awake is None else awake)
    return quote(
        organization=cluster.project.organization,
        items=[
            QuoteItem(pool.flavor, wanted.get(pool.name, pool.count)) for pool in cluster.pools.all() if runs
        ],
        storage_gib=count * definition.disk_gib,
        lease_ends_at=lease_ends_at or cluster.lease_ends_at,
        beside=Beside(vcpus=count * definition.vcpus, memory_gib=count * definition.memory_gib),
    )
