"""What nodes say of their cards; the sandbox by its dials, Kubernetes in tests/providers/kubernetes/test_dcgm.py."""

from gpuaas.providers.base import HealthCapability
from tests.contracts.rigs import Rig

NEEDS = HealthCapability


def test_each_node_is_told_once_and_only_nodes_with_gpus(rig: Rig) -> None:
    told = rig.driver.device_health()
    with_gpus = {node.name for node in rig.driver.probe().nodes if node.kind_slug}
    assert len({each.node for each in told}) == len(told)
    assert {each.node for each in told} <= with_gpus
    assert all(each.check.type == "CardsHealthy" and each.cards > 0 for each in told)
