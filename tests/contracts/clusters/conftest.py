"""Each test of this folder runs once for every driver of clusters."""

import os
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
if os.environ.get("GPUAAS_CLUSTER_API") == "all":
    RIGS["cluster-api-openstack"] = cluster_api_openstack
# a cluster of real services takes half a minute: what makes many of them is run where that is asked for
MANY = {
    "test_making_ends_alike_wherever_it_was_interrupted",
    "test_deletion_of_what_was_half_made_leaves_nothing",
}
HANDED_OVER = "test_a_cluster_that_is_handed_over_is_the_same_and_says_whose_it_is"
# and what others show as well
LEFT_OUT = {
    "cluster-api": {
        *MANY,
        HANDED_OVER,
        "test_a_lost_answer_makes_nothing_twice",
        "test_each_step_makes_only_what_it_named",
        "test_other_clusters_are_left_alone",
    },
    "vcluster": {
        "test_deletion_of_what_was_half_made_leaves_nothing",
        "test_other_clusters_are_left_alone",
    },
    "openstack": {
        *MANY,
        HANDED_OVER,
        "test_what_is_made_was_named_by_the_plan",
        "test_each_step_makes_only_what_it_named",
        "test_deletion_leaves_nothing_and_may_be_repeated",
        "test_other_clusters_are_left_alone",
        "test_an_unknown_step_is_refused_for_good",
        "test_a_cluster_is_made_with_every_machine_ready",
        "test_a_broken_worker_is_seen_and_replaced",
        "test_asleep_it_holds_no_gpu_and_wakes_as_it_was",
        "test_pools_grow_and_shrink",
        "test_whatever_brings_workers_makes_what_they_stand_on",
        "test_the_token_is_in_no_words",
    },
}
WHOLE = {
    "cluster-api": os.environ.get("GPUAAS_CLUSTER_API") == "all",
    "openstack": bool(os.environ.get("GPUAAS_CHAOS")),
    "vcluster": bool(os.environ.get("GPUAAS_CHAOS")),
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
    function = getattr(request, "function", None)
    named = function.__name__ if function else ""
    if named in LEFT_OUT.get(request.param, ()) and not WHOLE[request.param]:
        pytest.skip("minutes: with GPUAAS_CLUSTER_API=all, or GPUAAS_CHAOS for the others")
    rig = RIGS[request.param](request)
    yield rig
    rig.close()


@pytest.fixture
def ready(yard: ClusterRig) -> ClusterSpec:
    return yard.ready()
