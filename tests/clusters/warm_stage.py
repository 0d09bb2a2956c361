"""A warm pool of charlie's project: clusters as `order` asks for, made and waiting."""

from typing import Any

from gpuaas.clusters.models import Cluster, ClusterTemplate, WarmPool
from gpuaas.clusters.reconcile.warm import warm_keep
from gpuaas.clusters.services import warm_pool_create
from gpuaas.providers.sandbox.models import SandboxClusterObject
from tenants.actors import Actor
from tenants.models import Project
from tests.clusters.stage import RESTING, settle
from tests.factories.quotas import limits_give

CHOICE: dict[str, Any] = {"release": "1.35.6", "pools": {"gpu": {"count": 1}}}
H100 = "gpu:h100-sxm-80gb"


def pool_of(
    as_olga: Actor,
    template: ClusterTemplate,
    project: Project,
    *,
    wanted: int = 1,
    making_most: int = 5,
    **changes: Any,
) -> WarmPool:
    """In `project`, with generous limits; nothing is made yet."""
    limits_give(project, {H100: None})
    given: dict[str, Any] = {"name": "small", "document": CHOICE, **changes}
    return warm_pool_create(
        actor=as_olga, template=template, project=project, wanted=wanted, making_most=making_most, **given
    )


def waiting(pool: WarmPool) -> list[Cluster]:
    """What is there of it, oldest first."""
    rows = Cluster.objects.filter(warm_pool=pool, claimed_at=None)
    return list(rows.exclude(state__in=["deleting", "deleted"]).order_by("pk"))


def kept(pool: WarmPool, *, rounds: int = 4) -> list[Cluster]:
    """What waits after so many rounds, each with everything settled after it."""
    for _ in range(rounds):
        warm_keep(pool.pk)
        for row in Cluster.objects.filter(warm_pool=pool, claimed_at=None):
            if row.state not in RESTING:
                settle(row)
    return waiting(pool)


def owners(cluster: Cluster) -> set[tuple[str, str]]:
    """Whose the cluster's objects at the site say they are."""
    rows = SandboxClusterObject.objects.filter(tag=cluster.pk).values_list("facts", flat=True)
    return {(facts["project"], facts["organization"]) for facts in rows}
