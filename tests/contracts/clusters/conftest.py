"""Each test of this folder runs once for every driver of clusters."""

from collections.abc import Callable

import pytest

from gpuaas.providers.base import ClusterChange, ClusterSpec
from tests.contracts.clusters.rigs import ClusterRig, SandboxClusterRig, carry_out

RIGS: dict[str, Callable[[], ClusterRig]] = {"sandbox": SandboxClusterRig}


@pytest.fixture(params=sorted(RIGS))
def yard(request: pytest.FixtureRequest, db: None) -> ClusterRig:
    """At a site of its own."""
    return RIGS[request.param]()


@pytest.fixture
def ready(yard: ClusterRig) -> ClusterSpec:
    spec = yard.spec()
    carry_out(yard.driver, ClusterChange.CREATE, spec)
    return spec
