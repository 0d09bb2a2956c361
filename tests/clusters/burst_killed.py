"""The lives of a cluster of two sites whose worker is killed around a call to either; `kill` chooses where."""

import itertools

from gpuaas.catalog.models import Site
from gpuaas.clusters.models import Cluster
from gpuaas.clusters.services import cluster_delete, cluster_scale
from quotas.models import SiteCapacity
from tenants.actors import Actor
from tenants.models import Project
from tests.clusters.burst_stage import GPUS, by_site, in_ledger_at, order_both, ready_both, used_at
from tests.clusters.killed import LOOKS, change_of
from tests.clusters.stage import at_site, settle, workers
from tests.factories.quotas import limits_give
from tests.kills import Kill


def whole(cluster: Cluster, site: Site, cloud: Site, *, far: int) -> None:
    """Exactly what an undisturbed worker leaves, at both sites."""
    assert cluster.state == "ready"
    assert len(workers(cluster).get("far", [])) == far
    for where, place in ((site, None), (cloud, cloud)):
        there = {row for row in at_site(where) if cluster.external_name in row[1]}
        assert there == in_ledger_at(cluster, place)
    assert by_site(cluster, cloud) == 2 * far


def scaling_out_and_back(kill: Kill, *, actor: Actor, project: Project, site: Site, cloud: Site) -> None:
    cluster, sizes, asked = ready_both(actor, project, far=0), itertools.cycle([1, 0]), 0

    def ask(number: int) -> Cluster:
        nonlocal asked
        asked = next(sizes)
        row = Cluster.objects.get(pk=cluster.pk)
        return cluster_scale(actor=actor, cluster=row, counts={"far": asked})

    def check(row: Cluster) -> None:
        whole(row, site, cloud, far=asked)
        assert used_at(cloud) == 2 * asked

    kill(change_of(ask, check, "scale pool:far", *LOOKS))


def creation_and_deletion(kill: Kill, *, actor: Actor, project: Project, site: Site, cloud: Site) -> None:
    limits_give(project, {GPUS: None})
    SiteCapacity.objects.update(hard=None)

    def ordered(number: int) -> Cluster:
        return order_both(actor, project, name=f"n-{number}")

    def made(cluster: Cluster) -> None:
        whole(cluster, site, cloud, far=1)

    kill(change_of(ordered, made, "create network", "create pool:gpu", "create pool:far"))
    living = iter(list(Cluster.objects.order_by("pk")))

    def given_back(number: int) -> Cluster:
        """Those that were made above, then further ones: a deletion has more boundaries than a creation."""
        return cluster_delete(actor=actor, cluster=next(living, None) or settle(ordered(number)))

    def gone(cluster: Cluster) -> None:
        assert cluster.state == "deleted"
        assert not [
            row for where in (site, cloud) for row in at_site(where) if cluster.external_name in row[1]
        ]
        assert not cluster.ledger.filter(gone_at=None).exists()
        assert not cluster.holdings.filter(ended_at=None).exists()

    kill(change_of(given_back, gone, "delete access", "delete workers", "delete gone", "inventory"))
