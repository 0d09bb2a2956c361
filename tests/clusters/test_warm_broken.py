"""Of the clusters that wait in a warm pool, those that could not be handed over are replaced."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from gpuaas.clusters.models import Cluster, ClusterTemplate, WarmPool
from gpuaas.clusters.reconcile.warm import BROKEN_AFTER, warm_keep
from gpuaas.core.clock import now
from tenants.actors import Actor
from tenants.models import Project
from tests.clusters.warm_stage import kept, pool_of, waiting
from tests.lasting import lasting

pytestmark = pytest.mark.django_db


@pytest.fixture
@lasting
def pool(template: ClusterTemplate, as_olga: Actor, other_project: Project) -> WarmPool:
    """Of two clusters, which wait."""
    made = pool_of(as_olga, template, other_project, wanted=2)
    kept(made)
    return made


def ill() -> dict[str, Any]:
    since = (now() - BROKEN_AFTER - timedelta(seconds=1)).isoformat()
    condition = {"status": "False", "reason": "Differs", "message": "one is missing", "since": since}
    return {"conditions": {"Healthy": condition}}


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({"state": "failed", "trouble": {"cause": "no host has room"}}, "no host has room"),
        ({"state": "suspended"}, ""),
        (ill, ""),
    ],
    ids=["failed", "asleep", "ill"],
)
def test_what_failed_sleeps_or_is_not_mended_is_replaced(
    pool: WarmPool, found: dict[str, Any] | Callable[[], dict[str, Any]], said: str
) -> None:
    broken, well = waiting(pool)
    changed = found() if callable(found) else found
    conditions = {**broken.conditions, **changed.get("conditions", {})}
    Cluster.objects.filter(pk=broken.pk).update(**{**changed, "conditions": conditions})
    warm_keep(pool.pk)
    pool.refresh_from_db()
    assert (said in pool.trouble) if said else (pool.trouble == "")
    left = {row.pk for row in kept(pool)}
    assert len(left) == 2
    assert left & {broken.pk, well.pk} == {well.pk}
