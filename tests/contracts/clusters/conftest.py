"""Each test of this folder runs once for every driver of clusters."""

from collections.abc import Callable, Iterator

import pytest

from gpuaas.providers.base import ClusterDriver, ClusterSpec
from gpuaas.providers.registry import cluster_driver_class
from tests.contracts.clusters.baremetal_rig import BareMetalRig
from tests.contracts.clusters.capi_openstack_rig import ClusterApiOpenStackRig
from tests.contracts.clusters.clusterapi_rig import ClusterApiRig
from tests.contracts.clusters.openstack_rig import OpenStackClusterRig
from tests.contracts.clusters.rigs import ClusterRig, SandboxClusterRig
from tests.contracts.clusters.vcluster_rig import VirtualRig

Maker = Callable[[pytest.FixtureRequest], ClusterRig]


def cluster_api(request: pytest.FixtureRequest) -> ClusterRig:
    """At the one management cluster of the machine."""
    lab = request.getfixturevalue("cluster_api_lab")
    return ClusterApiRig(lab.kubeconfig.read_text(), request.getfixturevalue("lab"))


def cluster_api_openstack(request: pytest.FixtureRequest) -> ClusterRig:
    """At the same, whose clusters are made in the one cloud of the machine."""
    lab = request.getfixturevalue("cluster_api_openstack_lab")
    tenancy = request.getfixturevalue("capi_tenancy")
    return ClusterApiOpenStackRig(lab.kubeconfig.read_text(), request.getfixturevalue("lab"), tenancy)


def openstack(request: pytest.FixtureRequest) -> ClusterRig:
    """At the one cloud of the machine."""
    return OpenStackClusterRig(request.getfixturevalue("openstack_lab"))


RIGS: dict[str, Maker] = {
    "sandbox": lambda request: SandboxClusterRig(),
    "cluster-api": cluster_api,
    "cluster-api-openstack": cluster_api_openstack,
    "openstack": openstack,
    "openshift-bare-metal": lambda request: BareMetalRig(request.getfixturevalue("lab")),
    "vcluster": lambda request: VirtualRig(
        request.getfixturevalue("lab"), request.getfixturevalue("virtual_lab")
    ),
}
MARKS = {
    "cluster-api-openstack": [pytest.mark.openstack],
    "openstack": [pytest.mark.openstack],
    "openshift-bare-metal": [pytest.mark.lab],
    "vcluster": [pytest.mark.lab],
}
# rigs whose driver is of another name than their own
DRIVERS = {"cluster-api-openstack": "cluster-api"}


@pytest.fixture(params=[pytest.param(name, marks=MARKS.get(name, [])) for name in sorted(RIGS)])
def yard(request: pytest.FixtureRequest, db: None) -> Iterator[ClusterRig]:
    """At a site of its own, or among others at one that all share. A module's NEEDS = the capability that its tests are about; no site
    is made for a driver without it."""
    driver = cluster_driver_class(DRIVERS.get(request.param, request.param))
    if not issubclass(driver, getattr(request.module, "NEEDS", ClusterDriver)):
        pytest.skip(f"the driver {driver.name} has no {request.module.NEEDS.__name__}")
    rig = RIGS[request.param](request)
    yield rig
    rig.close()


@pytest.fixture
def ready(yard: ClusterRig) -> ClusterSpec:
    return yard.ready()
