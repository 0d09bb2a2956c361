"""Reads of warm pools: their ready clusters, which of them match an order, and who may see them."""

import uuid
from collections.abc import Iterable

from django.db.models import BooleanField, Count, Exists, F, Func, Max, OuterRef, Q, QuerySet, Value

from gpuaas.clusters.models import Cluster, ClusterPool, ClusterTemplate, WarmPool
from gpuaas.clusters.states import ClusterState
from gpuaas.core.rows import first_of
from tenants.actors import Actor
from tenants.selectors import platform_require

S = ClusterState
MAKING = (S.REQUESTED, S.PROVISIONING)
WAITING = Q(warm_pool__isnull=False, claimed_at__isnull=True)
# its own site's condition, and that of each burst site by its slug
AWAY = '$.keyvalue() ? (@.key starts with "Reachable" && @.value.status != "True")'


def _whole(clusters: str = "") -> Q:
    """Ready, healthy when last seen, and every site of it answers: nothing else is ever handed out. `clusters`: the
    lookup path to their columns."""
    healthy = {f"{clusters}conditions__{name}__status": "True" for name in ("Healthy", "Reachable")}
    column, path = F(f"{clusters}conditions"), Value(AWAY)
    away = Func(column, path, function="jsonb_path_exists", output_field=BooleanField())
    return Q(**healthy, **{f"{clusters}state": S.READY}) & ~Q(away)


CLAIMABLE = WAITING & _whole()


def alike(cluster: Cluster, pools: Iterable[ClusterPool]) -> QuerySet[Cluster]:
    """Equal in version and choice: release, control plane, add-ons, parameters, each pool's flavor and count.

    Both may be unsaved.
    """
    rows = Cluster.objects.filter(
        template_version=cluster.template_version_id,
        site=cluster.site_id,
        release=cluster.release,
        control_count=cluster.control_count,
        addons=cluster.addons,
        parameters=cluster.parameters,
    )
    for pool in pools:
        same = ClusterPool.objects.filter(
            cluster=OuterRef("pk"),
            name=pool.name,
            flavor=pool.flavor_id,
            count=pool.count,
            release=pool.release,
        )
        rows = rows.filter(Exists(same))
    return rows


def claimable(cluster: Cluster, pools: Iterable[ClusterPool]) -> QuerySet[Cluster]:
    """The ready clusters that an order of `cluster` could get now."""
    return alike(cluster, pools).filter(CLAIMABLE)


def warm_pools(*, actor: Actor, template: ClusterTemplate | None = None) -> QuerySet[WarmPool]:
    """For operators and auditors: existing pools, with the numbers `ready`, `making` and `claimed`, and
    `claimed_last`."""
    platform_require(actor=actor)
    rows = WarmPool.objects.filter(ended_at__isnull=True).select_related("project", "template", "created_by")
    if template is not None:
        rows = rows.filter(template=template)
    waits = Q(clusters__claimed_at__isnull=True)
    return rows.annotate(
        ready=Count("clusters", filter=waits & _whole("clusters__")),
        making=Count("clusters", filter=waits & Q(clusters__state__in=MAKING)),
        claimed=Count("clusters", filter=Q(clusters__claimed_at__isnull=False)),
        claimed_last=Max("clusters__claimed_at"),
    ).order_by("template__slug", "pk")


def warm_pool_get(*, actor: Actor, template: ClusterTemplate, pool_id: uuid.UUID) -> WarmPool:
    return first_of(warm_pools(actor=actor, template=template).filter(pk=pool_id), "warm pool")
