"""Which of several clusters that wait in a warm pool an order takes over."""

from datetime import timedelta

import pytest

from gpuaas.clusters.models import Cluster, ClusterTemplate
from gpuaas.core.clock import now
from tenants.actors import Actor
from tenants.models import Project
from tests.clusters.stage import order
from tests.clusters.warm_stage import kept, pool_of
from tests.factories.quotas import limits_give

pytestmark = pytest.mark.django_db


def test_of_several_the_one_last_seen_whole_is_handed_over(
    as_olga: Actor, as_alice: Actor, template: ClusterTemplate, project: Project, other_project: Project
) -> None:
    """What breaks is seen within a minute: the later it was looked at, the less has had time to break unseen."""
    first, second, third = kept(pool_of(as_olga, template, other_project, wanted=3), rounds=6)
    for row, minutes in ((first, 9), (second, 1), (third, 5)):
        seen = {**row.observed, "at": (now() - timedelta(minutes=minutes)).isoformat()}
        Cluster.objects.filter(pk=row.pk).update(observed=seen)
    limits_give(project)
    assert order(as_alice, project, name="one").pk == second.pk
    assert order(as_alice, project, name="two").pk == third.pk
    Cluster.objects.filter(pk=first.pk).update(observed={})
    assert order(as_alice, project, name="three").pk == first.pk
