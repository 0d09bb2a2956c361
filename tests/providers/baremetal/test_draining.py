"""A pool that shrinks: the work moves off a machine through a real eviction API before its host is wiped, within
bounds, whoever dies meanwhile.
"""

import base64
import re
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from gpuaas.core import clock
from gpuaas.core.errors import GpuaasError
from gpuaas.providers.baremetal.hosts import hosts_of
from gpuaas.providers.baremetal.hub import KINDS
from gpuaas.providers.baremetal.models import Host, HostState
from gpuaas.providers.baremetal.plan import INSTALL
from gpuaas.providers.base import Change, StepOutcome
from gpuaas.providers.kubeapi.client import Api, Object
from tests.contracts.clusters.baremetal_rig import BareMetalRig
from tests.contracts.clusters.rigs import carry_out, counts, step_do
from tests.lab.fixtures import LabSite, until

pytestmark = pytest.mark.lab
C = Change
STEP = "pool:gpu"


class Yard:
    """A cluster of two workers, of which the second is to go. The API server is the hub, and the cluster's own."""

    def __init__(self, rig: BareMetalRig, bare_metal_lab: LabSite) -> None:
        self.rig, self.api, self.space = rig, rig.api, rig.namespace
        self.spec = rig.spec(workers=2)
        carry_out(rig.driver, C.CREATE, self.spec)
        self.fewer = counts(self.spec, gpu=1)
        self.stays, self.goes = hosts_of(self.spec.id).filter(pool="gpu").order_by("slot")
        self.answers_at(bare_metal_lab.kubeconfig)
        path = f"{KINDS[INSTALL].within(self.space)}/{self.spec.external_name}"
        reference = {"clusterMetadata": {"adminKubeconfigSecretRef": {"name": "admin-kubeconfig"}}}
        self.api.merge(path, {"spec": reference})
        for host in (self.stays, self.goes):
            self.api.create("/api/v1/nodes", {"metadata": {"name": host.name}})

    def answers_at(self, kubeconfig: str) -> None:
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "admin-kubeconfig"},
            "data": {"kubeconfig": base64.b64encode(kubeconfig.encode()).decode()},
        }
        self.api.apply(f"/api/v1/namespaces/{self.space}/secrets", secret)

    def close(self) -> None:
        for host in (self.stays, self.goes):
            self.api.delete(f"/api/v1/nodes/{host.name}")

    def pod(self, name: str, host: Host, **metadata: Any) -> None:
        """Running there and ready, as its kubelet would say."""
        path = f"/api/v1/namespaces/{self.space}/pods"
        spec = {
            "nodeName": host.name,
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "containers": [{"name": "main", "image": "pause"}],
        }
        labels = {"app": "train"}
        body = {"metadata": {"name": name, "labels": labels, **metadata}, "spec": spec}
        until(lambda: self._made(path, body), f"the pod {name} is taken")
        ready = {"type": "Ready", "status": "True"}
        self.api.merge(f"{path}/{name}/status", {"status": {"phase": "Running", "conditions": [ready]}})

    def _made(self, path: str, body: Object) -> bool:
        """A namespace's account is there a moment after the namespace."""
        try:
            return bool(self.api.create(path, body))
        except GpuaasError:
            return False

    def budget(self) -> None:
        """None of them may go."""
        spec = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "train"}}}
        body = {"metadata": {"name": "train"}, "spec": spec}
        self.api.create(f"/apis/policy/v1/namespaces/{self.space}/poddisruptionbudgets", body)

    def pods(self) -> set[str]:
        return {one["metadata"]["name"] for one in self.api.items(f"/api/v1/namespaces/{self.space}/pods")}

    def node(self, host: Host) -> Object | None:
        return self.api.find(f"/api/v1/nodes/{host.name}")

    def is_cordoned(self, host: Host) -> bool:
        node = self.node(host)
        assert node is not None
        return bool(node["spec"].get("unschedulable"))

    def shrink(self) -> StepOutcome:
        return step_do(self.rig.driver, C.SCALE, self.fewer, STEP)

    def row(self) -> Host:
        return Host.objects.get(pk=self.goes.pk)

    def is_free(self) -> bool:
        return self.shrink().done and self.row().state == HostState.FREE

    def time_is_up(self) -> None:
        Host.objects.filter(pk=self.goes.pk).update(drained_from=clock.now() - timedelta(minutes=15))


@pytest.fixture
def yard(bare_metal_lab: LabSite, db: None) -> Iterator[Yard]:
    rig = BareMetalRig(bare_metal_lab)
    made = Yard(rig, bare_metal_lab)
    yield made
    made.close()
    rig.close()


def test_the_work_moves_off_before_the_host_is_wiped(yard: Yard) -> None:
    plan = yard.rig.driver.plan(C.SCALE, yard.fewer, yard.spec)
    assert plan.steps[0].label == "Drain 1 of the pool gpu, wipe them and return them"
    assert "drained and wiped" in plan.warnings[0]
    yard.pod("train", yard.goes)
    yard.pod("elsewhere", yard.stays)
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": True}
    yard.pod("agent", yard.goes, finalizers=["tests/stays"], ownerReferences=[owner])
    outcome = yard.shrink()
    assert not outcome.done
    assert f"{yard.goes.name} is being drained: 1 pod is still on it" in outcome.detail
    assert yard.row().state == HostState.BOUND, "nothing is wiped yet"
    assert yard.is_cordoned(yard.goes)
    until(lambda: "train" not in yard.pods(), "the pod was evicted")
    until(yard.is_free, "the host is free")
    assert yard.node(yard.goes) is None, "the next machine of this name is not cordoned"
    assert not yard.is_cordoned(yard.stays)
    assert "elsewhere" in yard.pods()
    assert (yard.row().drained_from, yard.row().drain_words) == (None, "")
    yard.api.merge(f"/api/v1/namespaces/{yard.space}/pods/agent", {"metadata": {"finalizers": None}})


def test_a_budget_is_kept_to_until_the_time_is_up(yard: Yard) -> None:
    yard.pod("train", yard.goes)
    yard.budget()
    for _ in range(3):
        outcome = yard.shrink()
        assert not outcome.done
        assert f"{yard.space}/train is protected by a disruption budget" in outcome.detail
        assert "wiped anyway in 15 minutes" in outcome.detail
    assert "train" in yard.pods()
    assert yard.row().state == HostState.BOUND
    yard.time_is_up()
    yard.rig.hub.stuck.add(f"{yard.spec.external_name}-gpu-2")

    def wiping() -> str:
        said = yard.shrink().detail
        return said if "is being wiped" in said else ""

    told = until(wiping, "it is being wiped")
    assert "not drained within 15 minutes" in told
    assert "train is protected by a disruption budget" in told
    yard.rig.hub.stuck.clear()
    until(yard.is_free, "the host is free")


def test_what_is_wanted_again_takes_work_again(yard: Yard) -> None:
    yard.pod("train", yard.goes)
    yard.budget()
    assert not yard.shrink().done
    assert yard.is_cordoned(yard.goes)
    assert step_do(yard.rig.driver, C.SCALE, yard.spec, STEP).done
    assert not yard.is_cordoned(yard.goes)
    assert (yard.row().state, yard.row().drained_from) == (HostState.BOUND, None)
    assert "train" in yard.pods()


def test_a_cluster_that_does_not_answer_is_waited_for_within_the_same_time(
    yard: Yard, bare_metal_lab: LabSite
) -> None:
    yard.answers_at(re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:9", bare_metal_lab.kubeconfig))
    outcome = yard.shrink()
    assert not outcome.done
    assert "its cluster does not answer" in outcome.detail
    assert yard.row().state == HostState.BOUND
    yard.time_is_up()
    until(yard.is_free, "the host is free")


class Killed(BaseException):
    pass


class Killer:
    """In turn after turn a worker that dies one call further: in even turns before the call, in odd ones after it."""

    def __init__(self) -> None:
        self.turns = self.calls = 0
        self.armed, self.mine, self.real = False, threading.get_ident(), Api._call

    def call(self, api: Api, *args: Any, **more: Any) -> Any:
        if threading.get_ident() != self.mine or not self.armed:
            return self.real(api, *args, **more)
        self.calls += 1
        if self.calls == self.turns // 2 and self.turns % 2 == 0:
            raise Killed
        answer = self.real(api, *args, **more)
        if self.calls == self.turns // 2:
            raise Killed
        return answer

    def attempt(self, yard: Yard) -> bool:
        self.turns, self.calls, self.armed = self.turns + 1, 0, True
        try:
            return yard.shrink().done
        except Killed:
            return False
        finally:
            self.armed = False


def test_killed_before_and_after_every_call(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time that the work has is not begun anew."""
    yard.pod("train", yard.goes)
    killer, began = Killer(), set()

    def call(api: Api, *args: Any, **more: Any) -> Any:
        return killer.call(api, *args, **more)

    monkeypatch.setattr(Api, "_call", call)

    def turn() -> bool:
        done = killer.attempt(yard)
        row = yard.row()
        if row.state == HostState.BOUND and row.drained_from:
            began.add(row.drained_from)
        return done and row.state == HostState.FREE

    until(turn, "the host is free")
    assert killer.turns > 10, "it was killed on the way"
    assert len(began) == 1
    assert "train" not in yard.pods()
    assert yard.node(yard.goes) is None
    assert not yard.is_cordoned(yard.stays)
