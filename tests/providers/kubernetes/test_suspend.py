"""What becomes of each kind of workload when its namespace sleeps and wakes: on the real control plane."""

from datetime import timedelta

import pytest

from gpuaas.core.errors import Permanent
from gpuaas.providers.base import Change, WorkspaceSpec
from gpuaas.providers.kubeapi import ending
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.providers.kubernetes import suspend
from tests.contracts.rigs import pod, workload
from tests.contracts.test_suspend import asleep
from tests.lab.fixtures import until
from tests.providers.kubernetes.conftest import Room

pytestmark = pytest.mark.lab
APPS, BATCH = "/apis/apps/v1", "/apis/batch/v1"


def sleep(room: Room) -> None:
    for step in room.driver.steps(Change.SUSPEND):
        _until_done(room, Change.SUSPEND, asleep(room.spec), step.key)


def wake(room: Room) -> None:
    for step in room.driver.steps(Change.RESUME):
        _until_done(room, Change.RESUME, room.spec, step.key)


def _until_done(room: Room, change: Change, spec: WorkspaceSpec, key: str) -> None:
    until(lambda: room.driver.perform(change, spec, key).done, key)


def make(room: Room, kind: str, name: str, *, replicas: int = 1, **spec: object) -> str:
    """Its path. Without GPUs, so that many fit."""
    collection, body = workload(room.spec.external_name, kind, name, {}, replicas=replicas)
    body["spec"] |= spec
    room.admin.create(collection, body)
    return f"{collection}/{name}"


def replicas(room: Room, path: str) -> int:
    return int(room.admin.get(path)["spec"]["replicas"])


def annotations(found: Object) -> set[str]:
    return {key for key in found["metadata"].get("annotations") or {} if key.startswith("gpuaas.io/")}


def test_everything_that_can_be_scaled_comes_back_as_it_was(room: Room) -> None:
    sizes = {
        make(room, "Deployment", "web", replicas=3): 3,
        make(room, "Deployment", "off", replicas=0): 0,
        make(room, "StatefulSet", "db", replicas=2, serviceName="db"): 2,
        make(room, "ReplicaSet", "bare", replicas=2): 2,
    }
    sleep(room)
    assert {path: replicas(room, path) for path in sizes} == dict.fromkeys(sizes, 0)
    wake(room)
    assert {path: replicas(room, path) for path in sizes} == sizes
    assert not any(annotations(room.admin.get(path)) for path in sizes)


def test_what_the_tenant_changed_meanwhile_counts(room: Room) -> None:
    scaled, removed, forged = (make(room, "Deployment", name) for name in ("scaled", "removed", "forged"))
    sleep(room)
    room.tenant.merge(scaled, {"spec": {"replicas": 4}})
    room.tenant.delete(removed)
    forge = {"metadata": {"annotations": {suspend.REPLICAS: "many"}}}
    with pytest.raises(Permanent, match="belong to the portal"):
        room.tenant.merge(forged, forge)
    room.admin.merge(forged, forge)
    made = make(room, "Deployment", "made")
    wake(room)
    assert replicas(room, scaled) == 4
    assert room.admin.find(removed) is None
    assert (replicas(room, forged), annotations(room.admin.get(forged))) == (0, set())
    until(lambda: room.admin.get(made)["status"].get("readyReplicas") == 1, "what was made asleep starts")


def test_jobs_go_on_and_none_has_failed(room: Room) -> None:
    """With backoffLimit 0 a single pod that counts as failed ends the Job."""
    train, paused = make(room, "Job", "train", replicas=2), make(room, "Job", "paused", suspend=True)
    until(lambda: room.admin.get(train)["status"].get("active") == 2, "it runs")
    sleep(room)
    assert room.admin.get(train)["spec"]["suspend"]
    wake(room)
    until(lambda: room.admin.get(train)["status"].get("active") == 2, "it runs again")
    found = room.admin.get(train)
    assert not found["status"].get("failed")
    assert annotations(found) == set()
    assert room.admin.get(paused)["spec"]["suspend"]


def test_cron_jobs_are_paused_but_for_those_that_were(room: Room) -> None:
    template = {"spec": workload(room.spec.external_name, "Job", "night", {})[1]["spec"]}
    collection = room.path("cronjobs", BATCH)
    for name, paused in (("night", False), ("old", True)):
        spec = {"schedule": "0 3 * * *", "suspend": paused, "jobTemplate": template}
        body = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name}, "spec": spec}
        room.tenant.create(collection, body)

    def flags() -> list[bool]:
        return [each["spec"]["suspend"] for each in room.admin.items(collection)]

    assert flags() == [False, True]
    sleep(room)
    assert flags() == [True, True]
    wake(room)
    assert flags() == [False, True]


def test_an_autoscaler_does_not_wake_it(room: Room) -> None:
    web = make(room, "Deployment", "web", replicas=2)
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    spec = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 5}
    scalers = room.path("horizontalpodautoscalers", "/apis/autoscaling/v2")
    room.tenant.create(scalers, {"metadata": {"name": "web"}, "spec": spec})
    sleep(room)

    def reason() -> bool:
        conditions = room.admin.get(f"{scalers}/web").get("status", {}).get("conditions") or []
        return "ScalingDisabled" in {each.get("reason") for each in conditions}

    until(reason, "the autoscaler says that it is switched off")
    assert replicas(room, web) == 0
    wake(room)
    assert replicas(room, web) == 2


def test_no_pod_gives_itself_more_time_than_we_do(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither one that is ended by us, nor one that its owner has ended before."""
    year = 365 * 86400
    for name in ("first", "second"):
        body = pod(name, {"nvidia.com/gpu": "1"}, terminationGracePeriodSeconds=year)
        body["metadata"] |= {"annotations": {"lab.gpuaas.io/stop": "3600s"}}
        room.tenant.create(room.path("pods"), body)
        room.run_to(name, "Running")
    room.tenant.delete(f"{room.path('pods')}/first")
    for key in [step.key for step in room.driver.steps(Change.SUSPEND)][:-1]:
        _until_done(room, Change.SUSPEND, asleep(room.spec), key)
    room.driver.perform(Change.SUSPEND, asleep(room.spec), "pods")
    pods = room.admin.items(room.path("pods"))
    assert [each["metadata"]["deletionGracePeriodSeconds"] for each in pods] == [
        ending.SUSPEND_GRACE_SECONDS
    ] * 2
    monkeypatch.setattr(ending, "STUCK_AFTER", timedelta(hours=-1))
    _until_done(room, Change.SUSPEND, asleep(room.spec), "pods")


def test_what_has_finished_stays_to_be_read(room: Room) -> None:
    room.tenant.create(room.path("pods"), pod("done", {"nvidia.com/gpu": "1"}, run_seconds=0))
    room.run_to("done", "Succeeded")
    sleep(room)
    assert room.pod("done")["status"]["phase"] == "Succeeded"


def test_asleep_a_tenant_may_change_objects_and_nothing_starts(room: Room) -> None:
    sleep(room)
    make_as_tenant = workload(room.spec.external_name, "Deployment", "eager", {}, replicas=2)
    room.tenant.create(*make_as_tenant)
    path = f"{make_as_tenant[0]}/eager"

    def refused() -> bool:
        conditions = room.admin.get(path).get("status", {}).get("conditions") or []
        return any("suspended" in each.get("message", "") for each in conditions)

    until(refused, "its pods are refused")
    assert room.admin.items(room.path("pods")) == []


def test_a_change_at_the_same_moment_is_seen(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenant scales between our look and our change: what comes back is what the tenant wanted last."""
    web = make(room, "Deployment", "web", replicas=1)
    merge = Api.merge
    tried: list[str] = []

    def overtaken(self: Api, path: str, change: Object) -> Object:
        if path == web and not tried:
            tried.append(path)
            merge(room.tenant, path, {"spec": {"replicas": 3}})
        return merge(self, path, change)

    monkeypatch.setattr(Api, "merge", overtaken)
    sleep(room)
    assert (tried, replicas(room, web)) == ([web], 0)
    wake(room)
    assert replicas(room, web) == 3


def test_one_that_is_changed_each_time_is_scaled_down_all_the_same(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody changes it in a loop, just before each of our changes."""
    web, other = make(room, "Deployment", "web", replicas=2), make(room, "Deployment", "other")
    merge = Api.merge
    changes: list[int] = []

    def raced(self: Api, path: str, change: Object) -> Object:
        if path == web and self is not room.tenant and "resourceVersion" in change["metadata"]:
            changes.append(len(changes))
            merge(room.tenant, path, {"metadata": {"annotations": {"loop": str(len(changes))}}})
        return merge(self, path, change)

    monkeypatch.setattr(Api, "merge", raced)
    sleep(room)
    assert changes, "it was a race"
    assert (replicas(room, web), replicas(room, other)) == (0, 0)
    assert room.admin.items(room.path("pods")) == []
    monkeypatch.undo()
    wake(room)
    assert replicas(room, web) == 2


def test_one_that_refuses_keeps_no_other_running(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("first", "second"):
        room.tenant.create(room.path("pods"), pod(name, {"nvidia.com/gpu": "1"}))
        room.run_to(name, "Running")
    delete, refused = Api.delete, [True]

    def refuses(self: Api, path: str, body: Object | None = None, **query: str) -> bool:
        if path.endswith("/pods/first") and refused:
            raise Permanent("a webhook of the site says no")
        return delete(self, path, body, **query)

    monkeypatch.setattr(Api, "delete", refuses)
    spec = asleep(room.spec)
    for step in ("namespace", "quota", "confirm", "workloads"):
        _until_done(room, Change.SUSPEND, spec, step)
    outcome = room.driver.perform(Change.SUSPEND, spec, "pods")
    assert not outcome.done
    assert "first was refused: a webhook of the site says no" in outcome.detail

    def left() -> list[str]:
        room.driver.perform(Change.SUSPEND, spec, "pods")
        return [each["metadata"]["name"] for each in room.admin.items(room.path("pods"))]

    until(lambda: left() == ["first"], "the other one has ended")
    refused.clear()
    _until_done(room, Change.SUSPEND, spec, "pods")
