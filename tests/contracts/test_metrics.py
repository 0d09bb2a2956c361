"""What each GPU does; Kubernetes' pages in tests/providers/kubernetes/test_readings.py."""

from gpuaas.providers.base import MetricsCapability, WorkspaceSpec
from tests.contracts.rigs import Rig

NEEDS = MetricsCapability


def test_each_device_is_told_once_and_with_the_pod_that_has_it(rig: Rig, ready: WorkspaceSpec) -> None:
    rig.start(ready, "train", gpus=2)
    told = rig.driver.device_metrics()
    assert len({(each.device, each.instance, each.namespace, each.pod) for each in told}) == len(told)
    assert {each.node for each in told} <= {each.node for each in rig.driver.device_health()}
    assert all(each.utilization is None or 0 <= each.utilization <= 100 for each in told)
    ours = [each for each in told if each.namespace == ready.external_name]
    assert {each.pod for each in ours} <= {"train"}
