"""kill -9 of the worker at every boundary of create, scale, upgrade and delete, on the real controllers: one cluster, the same end, and
nothing left. Clusters are made side by side."""

from collections.abc import Callable

import pytest

from deploy.lab.cluster_api import Lab
from gpuaas.catalog.models import Site
from gpuaas.clusters.models import Cluster
from gpuaas.clusters.services import cluster_delete, cluster_order, cluster_scale, cluster_upgrade
from gpuaas.clusters.site import cluster_driver_of
from gpuaas.providers.base import ClusterRef
from gpuaas.providers.clusterapi import names
from gpuaas.providers.clusterapi.driver import ClusterApiDriver
from gpuaas.providers.kubeapi.client import Api
from gpuaas.providers.kubeapi.names import NAMESPACES
from quotas.models import Limit, SiteCapacity
from tenants.actors import Actor
from tenants.models import Project
from tests.clusters.named_worker import settle, worker
from tests.factories.quotas import counters_must_match, limits_give
from tests.providers.clusterapi.stage import offered

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(3600),
]
GPUS = "gpu:h100-sxm-80gb"
CREATE = ("order", "network", "control-plane", "api", "pool:gpu", "addon:gpu-operator", "checks")
DELETE = ("access", "workers", "control-plane", "network", "gone")
Ask = Callable[[Cluster], Cluster]


def names_of(crossed: tuple[str, ...], *, calls: list[str]) -> list[str]:
    found = list(dict.fromkeys(crossed))
    for verb in ("claim", *calls, "apply"):
        assert {f"before {verb}", f"after {verb}"} <= set(found), verb
    return found


def killed_everywhere(ask: Ask, clusters: list[Cluster], *, calls: list[str]) -> list[Cluster]:
    """The first is changed undisturbed, to learn the boundaries; each of the others by a worker that dies at one of them."""
    first, *others = [ask(row) for row in clusters]
    undisturbed = worker(ClusterApiDriver, first, "").end()
    assert not undisturbed.killed
    boundaries = names_of(undisturbed.crossed, calls=calls)
    assert len(boundaries) <= len(others), boundaries
    workers = [worker(ClusterApiDriver, row, at) for row, at in zip(others, boundaries, strict=False)]
    for one in workers:
        assert one.end().killed
    assert len(workers) == len(boundaries)
    return settle(first, *others)


def whole(rows: list[Cluster], api: Api, *, gpus: int, release: str) -> None:
    for row in rows:
        assert row.state == "ready", row.trouble
        found = api.items(names.clusters(row.external_name))
        assert [one["metadata"]["name"] for one in found] == [row.external_name]
        driver = cluster_driver_of(row.template_version.template, row.site)
        nodes = driver.observe(ClusterRef(row.pk, row.external_name)).nodes
        assert sorted(node.pool for node in nodes) == ["", *["gpu"] * (gpus // 2)]
        assert {(node.release, node.ready) for node in nodes} == {(release, True)}
        swept = {(one.kind, one.name) for one in driver.inventory(ClusterRef(row.pk, row.external_name))}
        written = set(row.ledger.filter(gone_at=None).values_list("kind", "name"))
        assert written <= swept
        assert {("Namespace", row.external_name), ("Cluster", row.external_name)} <= written
        assert row.holdings.get(meter="gpu_held", ended_at=None).quantity == gpus


def anew(row: Cluster) -> Cluster:
    return Cluster.objects.get(pk=row.pk)


def order(as_alice: Actor, project: Project, number: int) -> Cluster:
    wanted = {"release": "1.35.6", "pools": {"gpu": {"count": 1}}, "parameters": {"boot_seconds": 1}}
    return cluster_order(actor=as_alice, project=project, template="k8s", name=f"n-{number}", document=wanted)


def all_gone(rows: list[Cluster], api: Api, project: Project) -> None:
    assert {row.state for row in rows} == {"deleted"}
    for row in rows:
        assert api.find(f"{NAMESPACES}/{row.external_name}") is None
        assert not row.ledger.filter(gone_at=None).exists()
        assert not row.holdings.filter(ended_at=None).exists()
        assert row.transitions.filter(new="deleted").count() == 1
    assert Limit.objects.get(project=project, resource=GPUS).used == 0
    counters_must_match()


def test_a_kill_anywhere_changes_nothing_of_the_end(
    as_alice: Actor, as_olga: Actor, project: Project, site: Site, cluster_api_lab: Lab
) -> None:
    kubeconfig = cluster_api_lab.kubeconfig.read_text()
    api = Api(kubeconfig)
    offered(as_olga, site, kubeconfig)
    SiteCapacity.objects.update(hard=None)
    limits_give(project, {GPUS: None})
    looks = ["observe", "inventory"]

    ordered = [order(as_alice, project, number) for number in range(25)]
    calls = [*(f"create {key}" for key in CREATE), *looks]
    made = killed_everywhere(lambda row: row, ordered, calls=calls)
    whole(made, api, gpus=2, release="1.35.6")

    def scale(row: Cluster) -> Cluster:
        return cluster_scale(actor=as_alice, cluster=anew(row), counts={"gpu": 2})

    made = killed_everywhere(scale, made[:15], calls=["scale pool:gpu", "scale checks", *looks])
    whole(made, api, gpus=4, release="1.35.6")

    def upgrade(row: Cluster) -> Cluster:
        return cluster_upgrade(actor=as_alice, cluster=anew(row), release="1.36.3")

    made = killed_everywhere(
        upgrade, made, calls=["upgrade control-plane", "upgrade pool:gpu", "upgrade checks", *looks]
    )
    whole(made, api, gpus=4, release="1.36.3")

    def delete(row: Cluster) -> Cluster:
        return cluster_delete(actor=as_alice, cluster=anew(row))

    calls = [*(f"delete {key}" for key in DELETE), "inventory"]
    all_gone(killed_everywhere(delete, list(Cluster.objects.all()), calls=calls), api, project)
