"""kill -9 of the worker around every call to either site, and many who want the last GPU of the burst site at the same moment."""

import pytest

from gpuaas.catalog.models import Site
from gpuaas.clusters.models import Cluster, ClusterOperation, ClusterPool, ClusterTemplate
from gpuaas.clusters.services import cluster_scale
from gpuaas.core.clock import now
from quotas.models import Reservation, SiteCapacity
from tenants.actors import Actor
from tenants.models import Project
from tests.clusters import burst_killed
from tests.clusters.burst_stage import GPUS, order_both, used_at
from tests.clusters.test_races import at_once
from tests.factories.quotas import counters_must_match, limits_give
from tests.kills import everywhere

pytestmark = pytest.mark.django_db(transaction=True)
MANY = 50


def test_scaling_out_and_back_survives_a_kill_anywhere(
    as_alice: Actor, project: Project, bursting: ClusterTemplate, site: Site, cloud: Site
) -> None:
    burst_killed.scaling_out_and_back(everywhere, actor=as_alice, project=project, site=site, cloud=cloud)


def test_creation_and_deletion_survive_a_kill_anywhere(
    as_alice: Actor, project: Project, bursting: ClusterTemplate, site: Site, cloud: Site
) -> None:
    burst_killed.creation_and_deletion(everywhere, actor=as_alice, project=project, site=site, cloud=cloud)


def test_50_scale_outs_for_the_last_worker_of_the_burst_site(
    as_alice: Actor, project: Project, bursting: ClusterTemplate, site: Site, cloud: Site
) -> None:
    limits_give(project, {GPUS: None})
    SiteCapacity.objects.filter(site=site).update(hard=None)
    SiteCapacity.objects.filter(site=cloud, resource=GPUS).update(hard=3)
    for number in range(MANY):
        order_both(as_alice, project, name=f"n-{number}", far=0)
    ClusterOperation.objects.update(finished_at=now(), succeeded=True)
    Cluster.objects.update(state="ready", ready_at=now(), due_at=None)
    ready = list(Cluster.objects.select_related("project__organization", "site"))

    answers = at_once(
        MANY, lambda number: cluster_scale(actor=as_alice, cluster=ready[number], counts={"far": 1})
    )

    assert answers == {"done": 1, "no_capacity": MANY - 1}
    scaled = Cluster.objects.get(state="scaling")
    assert set(Reservation.objects.filter(site=cloud).values_list("holder_id", flat=True)) == {scaled.pk}
    assert ClusterPool.objects.get(name="far", count=1).cluster_id == scaled.pk
    assert ClusterOperation.objects.filter(kind="scale").count() == 1
    assert used_at(cloud) == 2
    counters_must_match()
