"""The portal, Cluster API's real controllers, OpenStack's provider and a real cloud: ordered, grown, refused by a
quota, tried again, taken away."""

from dataclasses import replace
from typing import Any

import pytest

from deploy.lab.cluster_api import Lab
from gpuaas.catalog.models import Flavor, GpuPool, Site
from gpuaas.clusters.models import Cluster
from gpuaas.clusters.services import (
    cluster_delete,
    cluster_order,
    cluster_retry,
    cluster_scale,
    template_create,
    template_update,
    template_version_add,
)
from gpuaas.clusters.site import cluster_driver_of
from gpuaas.clusters.spec import spec_of
from gpuaas.core.crypto import encrypt_json
from gpuaas.providers.base import Change, ControlPlane
from gpuaas.providers.kubeapi.client import Api
from gpuaas.providers.kubeapi.names import NAMESPACES
from quotas.models import SiteCapacity
from tenants.actors import Actor
from tenants.models import Project
from tests.clusters.named_worker import settle
from tests.contracts.clusters.capi_openstack_rig import ClusterApiOpenStackRig, settings_of
from tests.contracts.clusters.rigs import carry_out, step_finish
from tests.factories.quotas import limits_give
from tests.lab.cluster_api.tenancy import H100, Tenancy
from tests.lab.fixtures import LabSite, until

pytestmark = [
    pytest.mark.openstack,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(3600),
]
GPUS = "gpu:h100-sxm-80gb"


@pytest.fixture
def cluster(
    as_olga: Actor, as_alice: Actor, project: Project, site: Site, cluster_api_lab: Lab, capi_tenancy: Tenancy
) -> Cluster:
    """Of one worker, whose flavor is called something else at the cloud; ordered, and waited for."""
    kubeconfig = cluster_api_lab.kubeconfig.read_text()
    Site.objects.filter(pk=site.pk).update(
        driver="kubernetes", credentials=encrypt_json({"kubeconfig": kubeconfig})
    )
    pool = GpuPool.objects.get(site=site, gpu_type__slug="h100-sxm-80gb")
    size = {"gpus": 2, "vcpus": 32, "memory_gib": 360, "state": "active"}
    Flavor.objects.create(slug="h100.2", pool=pool, name="2 × H100", **size)
    SiteCapacity.objects.update(hard=None)
    limits_give(project, {GPUS: None})
    template = template_create(
        actor=as_olga,
        slug="k8s",
        name="Kubernetes",
        kind="kubernetes",
        site=Site.objects.get(pk=site.pk),
        driver="cluster-api",
    )
    settings = {**settings_of(capi_tenancy), "flavors": {"h100.2": capi_tenancy.flavors["h100"]}}
    words: dict[str, Any] = {
        "releases": ["1.35.6", "1.36.3"],
        "control_plane": {"vcpus": 4, "memory_gib": 8, "disk_gib": 40, "counts": [1]},
        "pools": [{"name": "gpu", "flavors": ["h100.2"], "min": 1, "max": 4, "default": 1}],
        "settings": settings,
    }
    template_version_add(actor=as_olga, template=template, document=words)
    template_update(actor=as_olga, template=template, state="active", public=True)
    made = cluster_order(
        actor=as_alice, project=project, template="k8s", name="train", document={"release": "1.35.6"}
    )
    (row,) = settle(made)
    return row


def held(row: Cluster) -> int:
    return int(row.holdings.get(meter="gpu_held", ended_at=None).quantity)


def test_a_quota_of_the_cloud_is_told_and_what_it_refused_is_tried_again(
    as_alice: Actor, cluster: Cluster, capi_tenancy: Tenancy, cluster_api_lab: Lab
) -> None:
    assert cluster.state == "ready", cluster.trouble
    assert (held(cluster), capi_tenancy.gpus(cluster.external_name)) == (2, 2)

    capi_tenancy.limit(H100, 2)
    (refused,) = settle(cluster_scale(actor=as_alice, cluster=cluster, counts={"gpu": 2}))
    assert refused.state == "failed"
    assert refused.trouble["step"] == "pool:gpu"
    assert "over limit" in " ".join(refused.trouble["evidence"])
    assert "InstanceCreateFailed" in " ".join(refused.trouble["evidence"])
    assert "quota" in refused.trouble["next"]

    capi_tenancy.limit(H100, 8)
    (grown,) = settle(cluster_retry(actor=as_alice, cluster=refused))
    assert grown.state == "ready", grown.trouble
    assert (held(grown), capi_tenancy.gpus(grown.external_name)) == (4, 4)

    (gone,) = settle(cluster_delete(actor=as_alice, cluster=grown))
    assert gone.state == "deleted", gone.trouble
    assert capi_tenancy.gpus(gone.external_name) == 0
    left = {
        key: [one for one in found if gone.external_name in one] for key, found in capi_tenancy.left().items()
    }
    assert not any(left.values()), left
    driver = cluster_driver_of(gone.template_version.template, gone.site)
    assert driver.inventory(spec_of(gone).ref) == ()
    api = Api(cluster_api_lab.kubeconfig.read_text())
    assert api.find(f"{NAMESPACES}/{gone.external_name}") is None


def test_a_quota_of_load_balancers_is_told_and_three_machines_share_one(
    cluster_api_openstack_lab: Lab, capi_tenancy: Tenancy, lab: LabSite
) -> None:
    rig = ClusterApiOpenStackRig(cluster_api_openstack_lab.kubeconfig.read_text(), lab, capi_tenancy)
    spec, driver = replace(rig.spec(), control_plane=ControlPlane(3, 4, 8, 40)), rig.driver
    capi_tenancy.balancers(0)
    step_finish(driver, Change.CREATE, spec, "order")

    def told() -> str:
        outcome = driver.perform(Change.CREATE, spec, "network")
        return outcome.detail if "Quota has been met for resources: Load Balancer" in outcome.detail else ""

    detail = until(told, "the quota is told")
    assert detail.startswith("the provider is creating the network: OpenStackCluster")
    assert "http" not in detail

    capi_tenancy.balancers(-1)
    for step in ("network", "control-plane", "api"):
        step_finish(driver, Change.CREATE, spec, step)
    assert capi_tenancy.balanced(spec.external_name) == 3
    carry_out(driver, Change.DELETE, spec)
    left = {
        key: [one for one in found if spec.external_name in one] for key, found in capi_tenancy.left().items()
    }
    assert not any(left.values()), left


def test_a_cloud_without_octavia_is_told_while_a_cluster_is_made_and_taken_away(
    cluster_api_openstack_lab: Lab, capi_tenancy: Tenancy, lab: LabSite
) -> None:
    """Its provider lets nobody take the load balancer out of an order, and deletes none before it has looked for one."""
    rig = ClusterApiOpenStackRig(cluster_api_openstack_lab.kubeconfig.read_text(), lab, capi_tenancy)
    made, driver = rig.spec(), rig.driver
    chosen = {**made.settings["variables"], "identity": capi_tenancy.bare_identity}
    spec = replace(made, settings={**made.settings, "variables": chosen})
    words = "No suitable endpoint could be found in the service catalog"
    step_finish(driver, Change.CREATE, spec, "order")
    until(
        lambda: words in driver.perform(Change.CREATE, spec, "network").detail, "it is told while it is made"
    )
    for step in ("access", "workers", "control-plane"):
        step_finish(driver, Change.DELETE, spec, step)
    until(
        lambda: words in driver.perform(Change.DELETE, spec, "network").detail,
        "it is told while it is taken away",
    )

    place = f"/apis/infrastructure.cluster.x-k8s.io/v1beta1/namespaces/{spec.external_name}/openstackclusters"
    (found,) = rig.api.items(place)
    other = {"type": "ClusterIdentity", "name": capi_tenancy.identity, "cloudName": "openstack"}
    rig.api.merge(f"{place}/{found['metadata']['name']}", {"spec": {"identityRef": other}})
    carry_out(driver, Change.DELETE, spec)
    assert not [one for rows in capi_tenancy.left().values() for one in rows if spec.external_name in one]
