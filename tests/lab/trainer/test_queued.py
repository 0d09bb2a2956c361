"""JobSets and TrainJobs that name the queue of their workspace: Kueue starts them when all of them fits."""

from collections.abc import Iterator

import pytest

from gpuaas.providers.kubeapi import queues
from gpuaas.providers.kubeapi.client import Object
from tests.lab.fixtures import until
from tests.lab.kueue.conftest import QUEUED
from tests.lab.trainer.conftest import JOBSETS, TRAINJOBS, TrainingRoom


@pytest.fixture
def room(place: TrainingRoom) -> Iterator[TrainingRoom]:
    yield place
    for path in (place.path("trainjobs", TRAINJOBS), place.path("jobsets", JOBSETS)):
        place.admin.delete(path, propagationPolicy="Background")
    until(lambda: not place.admin.items(place.path("workloads", queues.KUEUE)), "the queue is empty")
    until(lambda: not place.admin.items(place.path("pods")), "no pod is left")


def waits(room: TrainingRoom, name: str) -> None:
    def look() -> bool:
        for each in room.admin.items(room.path("workloads", queues.KUEUE)):
            conditions = (each.get("status") or {}).get("conditions") or []
            if each["metadata"]["ownerReferences"][0]["name"] == name and any(
                one["type"] == "QuotaReserved" and one["status"] == "False" for one in conditions
            ):
                return True
        return False

    until(look, f"{name} waits")


def test_a_jobset_waits_until_all_of_it_fits(room: TrainingRoom) -> None:
    room.make_set("one", marks=QUEUED)
    room.run_all("one", 1)
    room.make_set("two", marks=QUEUED, replicas=2)
    waits(room, "two")
    assert room.jobset("two")["spec"]["suspend"] is True
    room.tenant.delete(f"{room.path('jobsets', JOBSETS)}/one", propagationPolicy="Background")
    room.run_all("two", 2)


@pytest.mark.parametrize("change", [{"suspend": False}, {}])
def test_what_waits_stays_in_its_queue(room: TrainingRoom, change: Object) -> None:
    room.make_set("full", marks=QUEUED, replicas=2)
    room.run_all("full", 2)
    room.make_set("two", marks=QUEUED)
    waits(room, "two")
    label = {queues.LABEL: None}
    for name in ("full", "two"):
        path = f"{room.path('jobsets', JOBSETS)}/{name}"
        words = room.refused(lambda: room.tenant.merge(path, {"metadata": {"labels": label}}))  # noqa: B023
        assert "stays in it" in words
    if change:
        assert "leave suspend as it is" in room.refused(lambda: room.tenant.merge(path, {"spec": change}))


def test_limits_without_requests_would_be_counted_too_low(room: TrainingRoom) -> None:
    limits = {"cpu": "4", "memory": "1Gi"}
    containers = [{"name": "main", "image": "none", "resources": {"limits": limits}}]
    words = room.refused(lambda: room.make_set(marks=QUEUED, pod_spec={"containers": containers}))
    assert "not its limits" in words
    beside = [{**containers[0], "name": "beside", "restartPolicy": "Always"}]
    words = room.refused(lambda: room.make_set(marks=QUEUED, pod_spec={"initContainers": beside}))
    assert "not its limits" in words


def test_a_trainjob_of_this_version_is_never_started_by_kueue(room: TrainingRoom) -> None:
    """Kueue 0.19 writes where to run into a field that Trainer has since 2.2, so it waits; the check of the site says so."""
    room.train("queued", nodes=1, marks=QUEUED)
    until(lambda: room.admin.items(room.path("workloads", queues.KUEUE)), "Kueue knows it")
    path = f"{room.path('trainjobs', TRAINJOBS)}/queued"
    assert room.admin.get(path)["spec"]["suspend"] is True
    for change in ({"spec": {"suspend": False}}, {"metadata": {"labels": {queues.LABEL: None}}}):
        room.refused(lambda: room.tenant.merge(path, change))  # noqa: B023
    assert not room.admin.items(room.path("pods"))


def test_a_jobset_of_a_trainjob_that_names_no_queue_is_not_kueues(room: TrainingRoom) -> None:
    room.train("plain", nodes=2)
    room.run_all("plain", 2)
    assert not room.admin.items(room.path("workloads", queues.KUEUE))
