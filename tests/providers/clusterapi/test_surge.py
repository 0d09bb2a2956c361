"""An upgrade by the real controllers never has more workers than were reserved, not for a moment."""

import threading

import pytest

from deploy.lab.cluster_api import Lab
from gpuaas.catalog.models import Site
from gpuaas.clusters.models import Cluster
from gpuaas.clusters.services import cluster_order, cluster_upgrade
from gpuaas.providers.clusterapi import names
from gpuaas.providers.clusterapi import site as sites
from gpuaas.providers.kubeapi.client import Api
from quotas.models import SiteCapacity
from tenants.actors import Actor
from tenants.models import Project
from tests.clusters.stage import run_now
from tests.factories.quotas import counters_must_match, limits_give
from tests.lab.fixtures import until
from tests.providers.clusterapi.stage import offered

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(900)]
BOUGHT = 2


def test_no_worker_more_than_was_bought(
    as_alice: Actor, as_olga: Actor, project: Project, site: Site, cluster_api_lab: Lab
) -> None:
    kubeconfig = cluster_api_lab.kubeconfig.read_text()
    offered(as_olga, site, kubeconfig)
    SiteCapacity.objects.update(hard=None)
    limits_give(project, {"gpu:h100-sxm-80gb": 2 * BOUGHT})
    wanted = {"release": "1.35.6", "pools": {"gpu": {"count": BOUGHT}}, "parameters": {"boot_seconds": 3}}
    cluster = cluster_order(actor=as_alice, project=project, template="k8s", name="up", document=wanted)
    until(lambda: run_now(cluster).state == "ready", "it is made", seconds=240)
    cluster = Cluster.objects.get(pk=cluster.pk)
    most, done = [0], threading.Event()

    def look() -> None:
        api = Api(kubeconfig)
        while not done.is_set():
            machines = api.items(f"{names.CORE}/namespaces/{cluster.external_name}/machines")
            most[0] = max(most[0], sum(sites.pool_of(one) == "gpu" for one in machines))
        api.close()

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        cluster_upgrade(actor=as_alice, cluster=cluster, release="1.36.3")
        until(lambda: run_now(cluster).state == "ready", "it is upgraded", seconds=240)
    finally:
        done.set()
        watcher.join()
    cluster.refresh_from_db()
    assert cluster.confirmed_release == "1.36.3"
    assert most == [BOUGHT]
    counters_must_match()
