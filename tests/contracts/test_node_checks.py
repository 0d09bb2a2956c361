"""The vendor's own check on a node: it waits for a free GPU, says what it found, and goes without a trace."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from gpuaas.core.errors import NotFound, Permanent
from gpuaas.providers.base import NodeCheckCapability, NodeCheckOutcome, UsageKind
from gpuaas.providers.kubernetes import nodechecks
from gpuaas.providers.sandbox.models import SandboxNamespace, SandboxNode, SandboxPod
from gpuaas.providers.sandbox.pods import pod_create, pod_delete
from tests.contracts.rigs import KubernetesRig, Rig, SandboxRig, pod
from tests.lab.fixtures import until

NEEDS = NodeCheckCapability


@pytest.fixture
def node(rig: Rig) -> str:
    """One with GPUs that the other contracts do not use."""
    return "l40s-01" if isinstance(rig, SandboxRig) else "l40s-shared-1"


@pytest.fixture
def check(rig: Rig) -> Iterator[uuid.UUID]:
    made = uuid.uuid4()
    yield made
    rig.driver.node_check_end(made)


def done(rig: Rig, node: str, check: uuid.UUID) -> NodeCheckOutcome:
    """As the portal looks: one that made way for somebody's pod, here another test's, is begun again."""

    def look() -> NodeCheckOutcome | None:
        rig.driver.node_check_start(node, check)
        with suppress(NotFound):
            found = rig.driver.node_check_result(check)
            return found if found.done else None
        return None

    return until(look, "the check is done")


def pods_of(rig: Rig, check: uuid.UUID) -> int:
    """What is at the site of it, beside the driver's back."""
    if isinstance(rig, KubernetesRig):
        api = rig._lab.api()
        selector = f"{nodechecks.CHECK}={check}"
        claims = api.items(nodechecks.CLAIMS, labelSelector=selector)
        return len(api.items(f"{nodechecks.SPACE}/pods", labelSelector=selector)) + len(claims)
    assert isinstance(rig, SandboxRig)
    return SandboxNode.objects.filter(pods__uid=check).count()


@contextmanager
def taken(rig: Rig, node: str) -> Iterator[None]:
    """Somebody holds all GPUs of the node."""
    if isinstance(rig, KubernetesRig):
        space = f"holder-{uuid.uuid4().hex[:8]}"
        rig.foreign(space)
        name = "nvidia.com/gpu.shared"
        everything = pod("holder", {name: "16"}, nodeSelector={"kubernetes.io/hostname": node})
        everything["spec"]["tolerations"] = [{"operator": "Exists"}]
        path = f"/api/v1/namespaces/{space}/pods"
        api = rig._lab.api()
        until(lambda: api.find(f"/api/v1/namespaces/{space}/serviceaccounts/default"), "the account")
        api.create(path, everything)
        until(lambda: api.get(f"{path}/holder")["status"].get("phase") == "Running", "all GPUs are held")
        yield
        api.delete(f"{path}/holder", gracePeriodSeconds="0")
        return
    assert isinstance(rig, SandboxRig)
    row = SandboxNode.objects.get(site=rig.site_id, name=node)
    row.labels = {**row.labels, "place": node}
    row.save()
    selectors = {row.resource_name: {"place": node}}
    SandboxNamespace.objects.create(site_id=rig.site_id, name="holder", selectors=selectors)
    pod_create(rig.site_id, "holder", "holder", row.capacity, resource_name=row.resource_name)
    yield
    pod_delete(rig.site_id, "holder", "holder")


def test_it_tells_how_many_gpus_and_which_driver(rig: Rig, node: str, check: uuid.UUID) -> None:
    rig.driver.node_check_start(node, check)
    outcome = done(rig, node, check)
    assert outcome.succeeded
    assert "1 GPU" in outcome.detail
    assert "580.95.05" in outcome.detail
    assert "driver_version" in outcome.output


def test_it_may_be_started_again_and_is_one(rig: Rig, node: str, check: uuid.UUID) -> None:
    for _ in range(3):
        rig.driver.node_check_start(node, check)
    assert done(rig, node, check).succeeded
    rig.driver.node_check_start(node, check)
    assert pods_of(rig, check) == 1


def test_it_waits_for_a_free_gpu_and_says_so(rig: Rig, node: str, check: uuid.UUID) -> None:
    with taken(rig, node):
        rig.driver.node_check_start(node, check)

        def waits() -> NodeCheckOutcome | None:
            found = rig.driver.node_check_result(check)
            return found if "free" in found.detail and "processed" not in found.detail else None

        outcome = until(waits, "it says what it waits for")
        assert not outcome.done
        assert not outcome.running
    assert done(rig, node, check).succeeded


def test_one_that_made_way_for_a_tenant_is_begun_again(rig: Rig, node: str, check: uuid.UUID) -> None:
    """Pods of checks are the first to go: the scheduler deletes them."""
    rig.driver.node_check_start(node, check)
    if isinstance(rig, KubernetesRig):
        path = f"{nodechecks.SPACE}/pods/check-{check}"
        rig._lab.api().delete(path, gracePeriodSeconds="0")
        until(lambda: rig._lab.api().find(path) is None, "it is gone")
    else:
        SandboxPod.objects.get(pk=check).delete()
    with pytest.raises(NotFound):
        rig.driver.node_check_result(check)
    assert done(rig, node, check).succeeded


def test_it_goes_without_a_trace_whether_done_or_not(rig: Rig, node: str, check: uuid.UUID) -> None:
    rig.driver.node_check_start(node, check)
    rig.driver.node_check_end(check)
    until(lambda: pods_of(rig, check) == 0, "nothing is left")
    with pytest.raises(NotFound):
        rig.driver.node_check_result(check)
    rig.driver.node_check_end(check)


def test_no_such_node_and_no_gpu_are_told_apart(rig: Rig) -> None:
    check = uuid.uuid4()
    with pytest.raises(NotFound):
        rig.driver.node_check_start("no-such-node", check)
    with pytest.raises(Permanent):
        rig.driver.node_check_start("cpu-01" if isinstance(rig, SandboxRig) else "cpu-1", check)
    assert pods_of(rig, check) == 0


def test_it_is_not_metered(rig: Rig, node: str, check: uuid.UUID) -> None:
    rig.driver.node_check_start(node, check)
    done(rig, node, check)
    for event in rig.driver.watch_usage("", seconds=1):
        assert event.consumer is None or event.consumer.uid != str(check)
        assert "gpuaas-checks" not in event.workspace_name
        if event.kind is UsageKind.RELISTED:
            break
