"""Each test of this folder runs once for every driver of clusters."""

import os
from collections.abc import Callable, Iterator

import pytest

from gpuaas.providers.base import ClusterSpec
from tests.contracts.clusters.baremetal_rig import BareMetalRig
from tests.contracts.clusters.clusterapi_rig import ClusterApiRig
from tests.contracts.clusters.rigs import ClusterRig, SandboxClusterRig

Maker = Callable[[pytest.FixtureRequest], ClusterRig]


def cluster_api(request: pytest.FixtureRequest) -> ClusterRig:
    """At the one management cluster of the machine."""
    lab = request.getfixturevalue("cluster_api_lab")
    return ClusterApiRig(lab.kubeconfig.read_text(), request.getfixturevalue("lab"))


RIGS: dict[str, Maker] = {
    "sandbox": lambda request: SandboxClusterRig(),
    "cluster-api": cluster_api,
    "openshift-bare-metal": lambda request: BareMetalRig(request.getfixturevalue("lab")),
}
MARKS = {"openshift-bare-metal": [pytest.mark.lab]}
# a cluster of real controllers takes half a minute: what makes many of them is run where that is asked for
MANY = {
    "test_a_lost_answer_makes_nothing_twice",
    "test_making_ends_alike_wherever_it_was_interrupted",
    "test_deletion_of_what_was_half_made_leaves_nothing",
}
WHOLE_CONTRACT = os.environ.get("GPUAAS_CLUSTER_API") == "all"


@pytest.fixture(params=[pytest.param(name, marks=MARKS.get(name, [])) for name in sorted(RIGS)])
def yard(request: pytest.FixtureRequest, db: None) -> Iterator[ClusterRig]:
    """At a site of its own."""
    if request.param == "cluster-api" and request.function.__name__ in MANY and not WHOLE_CONTRACT:
        pytest.skip("GPUAAS_CLUSTER_API=all runs this too, some minutes")
    rig = RIGS[request.param](request)
    yield rig
    rig.close()


@pytest.fixture
def ready(yard: ClusterRig) -> ClusterSpec:
    return yard.ready()
