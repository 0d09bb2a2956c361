"""kill -9 of the worker before and after every call and guarded write of create, scale and delete of a cluster of
bare metal: the last worker comes
to the end that was asked for, no host is held twice, and none is free before it was wiped. There is no upgrade: this driver leaves
it to the cluster."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from gpuaas.catalog.models import Flavor, GpuPool, Site
from gpuaas.clusters.models import Cluster
from gpuaas.clusters.services import (
    cluster_delete,
    cluster_order,
    cluster_scale,
    template_create,
    template_update,
    template_version_add,
)
from gpuaas.clusters.site import cluster_driver_of
from gpuaas.clusters.spec import spec_of
from gpuaas.core.crypto import encrypt_json
from gpuaas.core.errors import GpuaasError
from gpuaas.providers.baremetal.driver import OpenShiftBareMetalDriver
from gpuaas.providers.baremetal.hub import KINDS
from gpuaas.providers.baremetal.models import Host, HostState
from gpuaas.providers.baremetal.plan import IMAGE_SET
from gpuaas.providers.base import Change
from gpuaas.providers.kubeapi.names import CLUSTER
from quotas.models import Limit, SiteCapacity
from tenants.actors import Actor
from tenants.models import Project
from tests.clusters.named_worker import killed_at_each
from tests.factories.quotas import counters_must_match, limits_give
from tests.lab.fixtures import LabSite
from tests.providers.baremetal.crds import crds_load
from tests.providers.baremetal.play import PlayedHub, namespace_make
from tests.providers.baremetal.rack import host_make

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.lab, pytest.mark.timeout(1800)]
GPUS, RELEASE = "gpu:h100-sxm-80gb", "4.18.5"
CREATE = ("definition", "control-plane", "pool:gpu", "artifacts", "install", "checks", "addon:gpu-operator")
SCALE = ("pool:gpu", "artifacts", "checks")
DELETE = ("definition", "workers", "control-plane", "artifacts", "gone")


@pytest.fixture
def hub(bare_metal_lab: LabSite) -> Iterator[PlayedHub]:
    """Its controllers take a turn when they are asked to: a process that is forked has no threads to inherit."""
    api = bare_metal_lab.api()
    crds_load(api)
    made = PlayedHub(api, namespace_make(api))
    yield made
    for image in api.items(KINDS[IMAGE_SET].everywhere):
        name = image["metadata"]["name"]
        api.delete(f"{KINDS[IMAGE_SET].everywhere}/{name}")
    api.delete(f"/api/v1/namespaces/{made.namespace}")
    api.close()


@pytest.fixture
def rack(site: Site, bare_metal_lab: LabSite, hub: PlayedHub, as_olga: Actor, project: Project) -> Site:
    """Three hosts of two GPUs and one for control planes, and a template for them."""
    Site.objects.filter(pk=site.pk).update(
        driver="bare-metal", credentials=encrypt_json({"kubeconfig": bare_metal_lab.kubeconfig})
    )
    pool = GpuPool.objects.get(site=site, gpu_type__slug="h100-sxm-80gb")
    size = {"gpus": 2, "vcpus": 32, "memory_gib": 360, "state": "active"}
    Flavor.objects.create(slug="dgx.2", pool=pool, name="2 × H100", **size)
    for _ in range(3):
        host_make(site.pk, resource_name=pool.resource_name, gpus=2)
    host_make(site.pk, resource_name="control", gpus=0)
    SiteCapacity.objects.update(hard=None)
    limits_give(project, {GPUS: None})
    template = template_create(
        actor=as_olga,
        slug="metal",
        name="Metal",
        kind="kubernetes",
        site=Site.objects.get(pk=site.pk),
        driver="openshift-bare-metal",
    )
    template_version_add(actor=as_olga, template=template, document=_document(hub.namespace))
    template_update(actor=as_olga, template=template, state="active", public=True)
    return site


def _document(namespace: str) -> dict[str, Any]:
    return {
        "releases": [RELEASE],
        "control_plane": {"vcpus": 16, "memory_gib": 64, "disk_gib": 400, "counts": [1]},
        "pools": [{"name": "gpu", "flavors": ["dgx.2"], "min": 1, "max": 3, "default": 1}],
        "addons": [{"name": "gpu-operator", "required": True}],
        "settings": {
            "namespace": namespace,
            "pull_secret": "pull-secret",
            "base_domain": "clusters.example.org",
            "control_hosts": "control",
            "images": {RELEASE: f"images.example.org/ocp:{RELEASE}"},
            "machine_networks": ["192.0.2.0/24"],
            "addons": {"gpu-operator": {"subscription.yaml": "kind: Subscription\n"}},
        },
    }


def whole(row: Cluster, *, workers: int) -> None:
    assert row.state == "ready", row.trouble
    spec = spec_of(row)
    driver = cluster_driver_of(row.template_version.template, row.site)
    planned = {(one.kind, one.name) for one in driver.plan(Change.CREATE, spec).objects}
    found = [(one.kind, one.name) for one in driver.inventory(spec.ref)]
    assert len(found) == len(set(found)), "nothing is there twice"
    assert set(found) == planned == set(row.ledger.filter(gone_at=None).values_list("kind", "name"))
    held = Host.objects.filter(cluster_id=row.pk)
    assert sorted(held.values_list("pool", flat=True)) == ["control", *["gpu"] * workers]
    assert set(held.values_list("state", flat=True)) == {HostState.BOUND}
    assert row.holdings.get(meter="gpu_held", ended_at=None).quantity == 2 * workers


def gone(row: Cluster, hub: PlayedHub, project: Project) -> None:
    assert row.state == "deleted", row.trouble
    assert not row.ledger.filter(gone_at=None).exists()
    assert not row.holdings.filter(ended_at=None).exists()
    assert row.transitions.filter(new="deleted").count() == 1
    assert set(Host.objects.values_list("state", flat=True)) == {HostState.FREE}
    for kind in KINDS.values():
        left = [one for one in hub.api.items(kind.everywhere) if str(row.pk) == _owner(one)]
        assert not left, kind
    assert Limit.objects.get(project=project, resource=GPUS).used == 0


def _owner(found: dict[str, Any]) -> str:
    return str((found["metadata"].get("labels") or {}).get(CLUSTER, ""))


def killed(row: Cluster, hub: PlayedHub, *calls: str) -> Cluster:
    """At every boundary of the change; `calls` are those to the site that it has at least. What comes of it."""

    def turn() -> None:
        with contextlib.suppress(GpuaasError):  # what was read has changed or is gone
            hub.turn()

    at = killed_at_each(OpenShiftBareMetalDriver, row, meanwhile=turn)
    for call in ("claim", *calls, "apply"):
        assert {f"before {call}", f"after {call}"} <= set(at), call
    counters_must_match()
    return Cluster.objects.get(pk=row.pk)


def test_kills_everywhere_leave_one_cluster_and_every_host_once(
    as_alice: Actor, project: Project, rack: Site, hub: PlayedHub
) -> None:
    wanted = {"release": RELEASE, "pools": {"gpu": {"count": 1}}}
    ordered = cluster_order(actor=as_alice, project=project, template="metal", name="train", document=wanted)
    row = killed(ordered, hub, *(f"create {step}" for step in CREATE), "observe", "inventory")
    whole(row, workers=1)
    asked = cluster_scale(actor=as_alice, cluster=row, counts={"gpu": 3})
    row = killed(asked, hub, *(f"scale {step}" for step in SCALE), "observe", "inventory")
    whole(row, workers=3)
    asked = cluster_delete(actor=as_alice, cluster=row)
    row = killed(asked, hub, *(f"delete {step}" for step in DELETE), "inventory")
    gone(row, hub, project)
