"""kill -9 of the worker around every call to either site, and many who want the last GPU of the burst site at the same moment."""

import itertools

import pytest

from gpuaas.catalog.models import Site
from gpuaas.clusters.models import Cluster, ClusterOperation, ClusterPool, ClusterTemplate
from gpuaas.clusters.services import cluster_delete, cluster_scale
from gpuaas.core.clock import now
from quotas.models import Reservation, SiteCapacity
from tenants.actors import Actor
from tenants.models import Project
from tests.clusters.burst_stage import GPUS, by_site, in_ledger_at, order_both, ready_both, used_at
from tests.clusters.stage import at_site, workers
from tests.clusters.test_crash import until_it_survives
from tests.clusters.test_races import at_once
from tests.factories.quotas import counters_must_match, limits_give

pytestmark = pytest.mark.django_db(transaction=True)
MANY = 50


def whole(cluster: Cluster, site: Site, cloud: Site, *, far: int) -> None:
    """Exactly what an undisturbed worker leaves, at both sites."""
    assert cluster.state == "ready"
    assert len(workers(cluster).get("far", [])) == far
    for where, place in ((site, None), (cloud, cloud)):
        there = {row for row in at_site(where) if cluster.external_name in row[1]}
        assert there == in_ledger_at(cluster, place)
    assert by_site(cluster, cloud) == 2 * far


@pytest.mark.parametrize("every", [3, 1])
def test_scaling_out_and_back_survives_a_kill_anywhere(
    as_alice: Actor, project: Project, bursting: ClusterTemplate, site: Site, cloud: Site, every: int
) -> None:
    cluster, sizes, asked = ready_both(as_alice, project, far=0), itertools.cycle([1, 0]), 0

    def prepare(number: int) -> Cluster:
        nonlocal asked
        asked = next(sizes)
        row = Cluster.objects.get(pk=cluster.pk)
        return cluster_scale(actor=as_alice, cluster=row, counts={"far": asked})

    def check(row: Cluster) -> None:
        whole(row, site, cloud, far=asked)
        assert used_at(cloud) == 2 * asked

    until_it_survives(prepare, check, calls=("scale pool:far", "observe", "inventory"), every=every)


def test_creation_and_deletion_survive_a_kill_anywhere(
    as_alice: Actor, project: Project, bursting: ClusterTemplate, site: Site, cloud: Site
) -> None:
    limits_give(project, {GPUS: None})
    SiteCapacity.objects.update(hard=None)

    def check(cluster: Cluster) -> None:
        whole(cluster, site, cloud, far=1)

    calls = ("create network", "create pool:gpu", "create pool:far")
    until_it_survives(lambda number: order_both(as_alice, project, name=f"n-{number}"), check, calls=calls)
    living = iter(list(Cluster.objects.order_by("pk")))

    def gone(cluster: Cluster) -> None:
        assert cluster.state == "deleted"
        assert not [
            row for where in (site, cloud) for row in at_site(where) if cluster.external_name in row[1]
        ]
        assert not cluster.ledger.filter(gone_at=None).exists()
        assert not cluster.holdings.filter(ended_at=None).exists()

    until_it_survives(
        lambda number: cluster_delete(actor=as_alice, cluster=next(living)),
        gone,
        calls=("delete access", "delete workers", "delete gone", "inventory"),
    )


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
