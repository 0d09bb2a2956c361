"""Kueue in the life of a workspace: it divides what was bought, follows each change, and is gone with the workspace."""

from deploy.lab.kueue import Lab
from gpuaas.providers.base import Change, GpuAmount
from gpuaas.providers.kubeapi import queues
from tests.lab.fixtures import until
from tests.lab.kueue.conftest import GPU, JOBS, Make, QueueRoom, job
from tests.providers.kubernetes.conftest import H100


def hard(room: QueueRoom) -> dict[str, str]:
    found: dict[str, str] = room.admin.get(f"{room.path('resourcequotas')}/gpuaas")["spec"]["hard"]
    return found


def drifted(room: QueueRoom) -> set[tuple[str, str]]:
    """Of what the step `quota` writes."""
    return {(each.object, each.path) for each in room.driver.drift(room.spec) if each.step == "quota"}


def test_its_quota_is_that_of_the_workspace(room: QueueRoom) -> None:
    quotas = room.quotas
    assert quotas[GPU] == "2"
    assert {name: amount for name, amount in hard(room).items() if name == "pods"} == {"pods": quotas["pods"]}
    for name, amount in quotas.items():
        assert name == "pods" or hard(room)[f"requests.{name}"] == amount
    assert not drifted(room)


def test_a_third_job_waits_until_one_of_two_has_ended(room: QueueRoom) -> None:
    for name in ("one", "two"):
        room.queue_job(name)
        room.runs(name)
    room.queue_job("three")
    assert GPU in room.waits("three")
    assert "gpuaas-h100-sxm-80gb" in room.waits("three")
    room.tenant.delete(f"{room.path('jobs', JOBS)}/one", propagationPolicy="Background")
    room.runs("three")


def test_nothing_of_a_gang_starts_before_all_of_it_fits(room: QueueRoom) -> None:
    room.queue_job("one")
    room.runs("one")
    room.queue_job("gang", parallelism=2, completions=2)
    assert GPU in room.waits("gang")
    assert not (room.job("gang").get("status") or {}).get("active")
    room.tenant.delete(f"{room.path('jobs', JOBS)}/one", propagationPolicy="Background")
    until(lambda: (room.job("gang").get("status") or {}).get("active") == 2, "both of the gang run")


def test_no_other_workspace_may_use_it(room: QueueRoom, make: Make) -> None:
    other = make()
    path = f"{other.path('localqueues', queues.KUEUE)}/mine"
    body = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "LocalQueue",
        "metadata": {"name": "mine"},
        "spec": {"clusterQueue": room.spec.external_name},
    }
    other.admin.create(path.rpartition("/")[0], body)
    other.admin.create(other.path("jobs", JOBS), job("foreign", labels={queues.LABEL: "mine"}))
    assert "namespace" in other.waits("foreign")


def test_it_follows_a_resize(room: QueueRoom) -> None:
    for name in ("one", "two"):
        room.queue_job(name)
        room.runs(name)
    room.queue_job("three")
    room.waits("three")
    larger = room.carry_out(Change.RESIZE, gpus=(GpuAmount(H100.resource_name, 3, H100.selector),), vcpus=48)
    assert (larger.quotas[GPU], larger.quotas["cpu"]) == ("3", "48")
    room.runs("three")


def test_what_it_queues_stops_and_goes_on_with_the_workspace(room: QueueRoom) -> None:
    room.queue_job("one", gpus=2)
    room.runs("one")
    room.queue_job("two", gpus=2)
    room.waits("two")
    asleep = room.carry_out(Change.SUSPEND, gpus=(), vcpus=0, memory_gib=0, suspended=True)
    assert asleep.quotas["cpu"] == "0"
    assert GPU not in asleep.quotas
    assert not room.admin.items(room.path("pods"))
    assert not drifted(asleep)
    room.carry_out(Change.RESUME)
    # which of them is Kueue's choice: to it one has come back to the end of the queue
    until(
        lambda: {name for name in ("one", "two") if not room.job(name)["spec"]["suspend"]}, "one runs again"
    )
    assert len({name for name in ("one", "two") if room.job(name)["spec"]["suspend"]}) == 1


def test_a_kueue_that_is_away_keeps_nobody_from_suspending(room: QueueRoom, kueue_lab: Lab) -> None:
    kueue_lab.stop_program("kueue", kill=True)
    try:
        asleep = room.carry_out(Change.SUSPEND, gpus=(), vcpus=0, memory_gib=0, suspended=True)
        assert hard(asleep)["requests.cpu"] == "0"
        assert not drifted(asleep)
    finally:
        kueue_lab.up()
    found = until(lambda: drifted(asleep), "that it has not followed is seen")
    assert {name for name, _ in found} == {f"ClusterQueue/{room.spec.external_name}"}
    asleep.carry_out(Change.SUSPEND)
    assert not drifted(asleep)


def test_what_others_change_is_seen_and_set_right(room: QueueRoom) -> None:
    path = f"{queues.CLUSTER_QUEUES}/{room.spec.external_name}"
    room.admin.merge(path, {"spec": {"cohortName": "everybody", "stopPolicy": "Hold"}})
    local = f"{room.path('localqueues', queues.KUEUE)}/gpuaas"
    room.admin.delete(local)
    queue = f"ClusterQueue/{room.spec.external_name}"
    assert drifted(room) == {
        (queue, "spec.cohortName"),
        (queue, "spec.stopPolicy"),
        ("LocalQueue/gpuaas", ""),
    }
    room.carry_out(Change.RESIZE)
    assert not drifted(room)
    assert "cohortName" not in room.admin.get(path)["spec"]


def test_nothing_of_it_is_left_of_a_deleted_workspace(room: QueueRoom) -> None:
    room.queue_job("one", gpus=2)
    room.runs("one")
    room.queue_job("two", gpus=2)
    room.waits("two")
    room.carry_out(Change.DELETE)
    assert room.admin.find(f"{queues.CLUSTER_QUEUES}/{room.spec.external_name}") is None
    assert room.admin.find(f"/api/v1/namespaces/{room.spec.external_name}") is None


def test_a_queue_of_somebody_else_is_left_alone(room: QueueRoom) -> None:
    """Of a name that an adopted workspace has too."""
    room.carry_out(Change.DELETE)
    path = f"{queues.CLUSTER_QUEUES}/{room.spec.external_name}"
    body = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "spec": {}}
    room.admin.create(queues.CLUSTER_QUEUES, {**body, "metadata": {"name": room.spec.external_name}})
    try:
        room.carry_out(Change.DELETE)
        assert room.admin.find(path) is not None
    finally:
        room.admin.delete(path)
