"""How much there is to do: of drivers that can tell."""

import pytest

from gpuaas.core.errors import NotFound, Unavailable
from gpuaas.providers.base import ClusterSignalsCapability, ClusterSpec, PoolSignals
from tests.contracts.clusters.rigs import ClusterRig
from tests.lab.fixtures import until

NEEDS = ClusterSignalsCapability


@pytest.fixture
def telling(yard: ClusterRig) -> ClusterSignalsCapability:
    """At OpenStack sites the heads of clusters tell, and not the site: tests/clusters/test_queue_reports.py."""
    assert isinstance(yard.driver, ClusterSignalsCapability)
    if yard.is_told:
        pytest.skip("here the heads of clusters tell the portal")
    return yard.driver


def test_every_pool_says_what_it_has_to_do(
    yard: ClusterRig, telling: ClusterSignalsCapability, ready: ClusterSpec
) -> None:
    idle = {pool.name: PoolSignals(pool.name, 0, 0, 0) for pool in ready.pools}
    assert {one.pool: one for one in telling.signals(ready)} == idle
    yard.demand(ready, "gpu", 7)
    busy = idle | {"gpu": PoolSignals("gpu", 4, 3, 3)}
    until(lambda: {one.pool: one for one in telling.signals(ready)} == busy, "4 GPUs used and 3 waited for")


def test_before_it_answers_nothing_is_said(yard: ClusterRig, telling: ClusterSignalsCapability) -> None:
    with pytest.raises(NotFound):
        telling.signals(yard.spec())


def test_a_site_that_does_not_answer_is_unavailable(
    yard: ClusterRig, telling: ClusterSignalsCapability, ready: ClusterSpec
) -> None:
    driver = yard.unreachable()
    assert isinstance(driver, ClusterSignalsCapability)
    with pytest.raises(Unavailable):
        driver.signals(ready)
