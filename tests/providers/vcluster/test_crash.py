"""kill -9 of the worker at every boundary of create, scale, upgrade and delete at the real API server: one cluster,
the same end, and nothing left."""

from collections.abc import Iterator
from typing import Any

import pytest

from deploy.lab.kubernetes import Lab
from gpuaas.catalog.models import Flavor, GpuPool, Site
from gpuaas.clusters.models import Cluster
from gpuaas.clusters.services import (
    cluster_delete,
    cluster_order,
    cluster_scale,
    cluster_upgrade,
    template_create,
    template_update,
    template_version_add,
)
from gpuaas.clusters.site import cluster_driver_of
from gpuaas.clusters.spec import spec_of
from gpuaas.core.crypto import encrypt_json
from gpuaas.providers.base import ClusterRef
from gpuaas.providers.kubeapi.names import NAMESPACES
from gpuaas.providers.vcluster import names, site
from gpuaas.providers.vcluster.driver import VirtualClusterDriver
from gpuaas.providers.vcluster.tenancy import gpus_in
from quotas.models import Limit, SiteCapacity
from tenants.actors import Actor
from tenants.models import Project
from tests.clusters.named_worker import killed_at_each, settle
from tests.contracts.clusters.vcluster_rig import ADDON, H100, VirtualRig
from tests.factories.quotas import counters_must_match, limits_give
from tests.lab.fixtures import LabSite

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(3600),
]
GPUS = "gpu:h100-sxm-80gb"
CREATE = ("space", "quota", "guards", "control-plane", "api", "pool:gpu", "addon:gpu-operator", "checks")
DELETE = ("access", "pods", "namespace", "gone")


@pytest.fixture
def rig(as_olga: Actor, site: Site, lab: LabSite, virtual_lab: Lab) -> Iterator[VirtualRig]:
    """The stock site is the lab, with a template of virtual clusters and room for all that killed workers begin."""
    made = VirtualRig(lab, virtual_lab)
    Site.objects.filter(pk=site.pk).update(
        driver="kubernetes", credentials=encrypt_json({"kubeconfig": lab.kubeconfig})
    )
    pool = GpuPool.objects.get(site=site, gpu_type__slug="h100-sxm-80gb")
    GpuPool.objects.filter(pk=pool.pk).update(
        selector={"gpuaas.io/pool": "h100-sxm-80gb"}, resource_name=H100
    )
    size = {"gpus": 2, "vcpus": 8, "memory_gib": 64, "state": "active"}
    Flavor.objects.get_or_create(slug="h100.2", defaults={"pool": pool, "name": "2 × H100", **size})
    document: dict[str, Any] = {
        "releases": [made.old, made.new],
        "control_plane": {"vcpus": 1, "memory_gib": 2, "disk_gib": 10, "counts": [1]},
        "pools": [{"name": "gpu", "flavors": ["h100.2"], "min": 0, "max": 8, "default": 1}],
        "addons": [{"name": "gpu-operator", "required": True}],
        "settings": {"host": made.address, "addons": {"gpu-operator": ADDON}},
    }
    template = template_create(
        actor=as_olga, slug="vc", name="Virtual", kind="kubernetes", site=site, driver="vcluster"
    )
    template_version_add(actor=as_olga, template=template, document=document)
    template_update(actor=as_olga, template=template, state="active", public=True)
    SiteCapacity.objects.update(hard=None)
    yield made
    made.close()


def order(rig: VirtualRig, as_alice: Actor, project: Project) -> Cluster:
    wanted = {"release": rig.old, "pools": {"gpu": {"count": 1}}}
    made = cluster_order(actor=as_alice, project=project, template="vc", name="train", document=wanted)
    rig.played.clusters[made.external_name] = spec_of(made)
    return made


def killed(row: Cluster, *calls: str) -> Cluster:
    """At every boundary that there is, each by the next worker."""
    boundaries = killed_at_each(VirtualClusterDriver, row)
    for verb in ("claim", *calls, "inventory", "apply"):
        assert {f"before {verb}", f"after {verb}"} <= set(boundaries), verb
    return settle(row)[0]


def whole(row: Cluster, rig: VirtualRig, *, gpus: int, release: str) -> None:
    assert row.state == "ready", row.trouble
    space = f"{NAMESPACES}/{names.space(row.external_name)}"
    assert [one["metadata"]["name"] for one in rig.api.items(f"{space}/resourcequotas")] == ["gpuaas"]
    assert gpus_in(site.enforced(rig.api, row.external_name), H100) == gpus
    driver = cluster_driver_of(row.template_version.template, row.site)
    ref = ClusterRef(row.pk, row.external_name)
    nodes = driver.observe(ref).nodes
    assert sorted(node.pool for node in nodes) == ["", *["gpu"] * (gpus // 2)]
    assert {(node.release, node.ready) for node in nodes} == {(release, True)}
    swept = [(one.kind, one.name) for one in driver.inventory(ref)]
    assert len(swept) == len(set(swept))
    assert set(row.ledger.filter(gone_at=None).values_list("kind", "name")) == set(swept)
    assert row.holdings.get(meter="gpu_held", ended_at=None).quantity == gpus


def anew(row: Cluster) -> Cluster:
    return Cluster.objects.get(pk=row.pk)


def gone(row: Cluster, rig: VirtualRig, project: Project) -> None:
    assert row.state == "deleted"
    assert rig.api.find(f"{NAMESPACES}/{names.space(row.external_name)}") is None
    assert not row.ledger.filter(gone_at=None).exists()
    assert not row.holdings.filter(ended_at=None).exists()
    assert row.transitions.filter(new="deleted").count() == 1
    assert Limit.objects.get(project=project, resource=GPUS).used == 0
    counters_must_match()


def test_a_kill_anywhere_changes_nothing_of_the_end(
    as_alice: Actor, project: Project, rig: VirtualRig
) -> None:
    limits_give(project, {GPUS: None})
    row = killed(order(rig, as_alice, project), *(f"create {key}" for key in CREATE), "observe")
    whole(row, rig, gpus=2, release=rig.old)
    row = killed(
        cluster_scale(actor=as_alice, cluster=anew(row), counts={"gpu": 2}),
        *("scale pool:gpu", "scale checks", "observe"),
    )
    whole(row, rig, gpus=4, release=rig.old)
    row = killed(
        cluster_upgrade(actor=as_alice, cluster=anew(row), release=rig.new),
        *("upgrade control-plane", "upgrade pool:gpu", "upgrade checks", "observe"),
    )
    whole(row, rig, gpus=4, release=rig.new)
    row = killed(cluster_delete(actor=as_alice, cluster=anew(row)), *(f"delete {key}" for key in DELETE))
    gone(row, rig, project)
