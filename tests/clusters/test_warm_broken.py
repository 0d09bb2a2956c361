"""Of the clusters that wait in a warm pool, those that could not be handed over are replaced."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from gpuaas.clusters.models import Cluster, ClusterTemplate
from gpuaas.clusters.reconcile.warm import BROKEN_AFTER, warm_keep
from gpuaas.core.clock import now
from tenants.actors import Actor
from tenants.models import Project
from tests.clusters.warm_stage import kept, pool_of

pytestmark = pytest.mark.django_db


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
    as_olga: Actor,
    template: ClusterTemplate,
    other_project: Project,
    found: dict[str, Any] | Callable[[], dict[str, Any]],
    said: str,
) -> None:
    pool = pool_of(as_olga, template, other_project, wanted=2)
    broken, well = kept(pool)
    changed = found() if callable(found) else found
    conditions = {**broken.conditions, **changed.get("conditions", {})}
    Cluster.objects.filter(pk=broken.pk).update(**{**changed, "conditions": conditions})
    warm_keep(pool.pk)
    pool.refresh_from_db()
    assert (said in pool.trouble) if said else (pool.trouble == "")
    left = {row.pk for row in kept(pool)}
    assert len(left) == 2
    assert left & {broken.pk, well.pk} == {well.pk}
