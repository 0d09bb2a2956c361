"""TrainJobs and JobSets of members in the life of a workspace: held by what it bought, and gone with it."""

import pytest

from deploy.lab.trainer import Lab
from gpuaas.core.errors import GpuaasError
from gpuaas.providers.base import Change
from gpuaas.providers.kubeapi import bounds, training
from gpuaas.providers.kubeapi.client import Api
from tests.lab.fixtures import until
from tests.lab.trainer.conftest import GPU, JOBSETS, TRAINJOBS, TrainingRoom, jobset, trainjob
from tests.providers.kubernetes.conftest import BOB, kubeconfig

ASLEEP = {"gpus": (), "vcpus": 0, "memory_gib": 0, "suspended": True}


def hard(room: TrainingRoom, part: str = "hard") -> dict[str, str]:
    found: dict[str, str] = room.admin.get(f"{room.path('resourcequotas')}/gpuaas")["status"][part]
    return found


def test_a_trainjob_of_two_nodes_runs_and_is_metered_as_one(room: TrainingRoom) -> None:
    room.train()
    room.run_all("train", 2)
    assert hard(room, "used")[f"requests.{GPU}"] == "2"
    used = [each for each in room.driver.observe(room.ref).consumers if each.gpus]
    assert [(each.owner, dict(each.gpus)) for each in used] == [("JobSet/train", {GPU: 1})] * 2
    room.tenant.delete(f"{room.path('trainjobs', TRAINJOBS)}/train", propagationPolicy="Background")
    until(lambda: not room.pods_of("train"), "its pods are gone")


def test_what_does_not_fit_waits_for_the_quota(room: TrainingRoom) -> None:
    room.train(nodes=3)
    room.run_all("train", 2)
    room.event_says("exceeded quota")
    assert hard(room, "used")[f"requests.{GPU}"] == "2"


def test_their_number_is_bounded(room: TrainingRoom) -> None:
    found = {bound.key for bound in bounds.BOUNDS if bound.name in ("jobsets", "trainjobs")}
    assert {key: hard(room)[key] for key in found} == dict.fromkeys(found, "200")
    room.make_set(gpus=0, suspend=True)
    room.train(suspend=True)
    until(
        lambda: [hard(room, "used")[key] for key in sorted(found)] == ["2", "1"],
        "the site counts the JobSet, the TrainJob and its JobSet",
    )
    assert not [each for each in room.driver.drift(room.spec) if each.step == "quota"]


def test_suspending_pauses_and_resuming_goes_on(room: TrainingRoom) -> None:
    room.train("one", nodes=1)
    room.make_set("two")
    for name in ("one", "two"):
        room.run_all(name, 1)
    asleep = room.carry_out(Change.SUSPEND, **ASLEEP)
    assert not asleep.admin.items(asleep.path("pods"), fieldSelector="status.phase=Running")
    for name in ("one", "two"):
        assert room.jobset(name)["spec"]["suspend"] is True
    path = f"{room.path('jobsets', JOBSETS)}/two"
    room.tenant.merge(path, {"spec": {"suspend": False}})
    room.event_says("this workspace is suspended")
    assert not room.pods_of("two")
    room.tenant.merge(path, {"spec": {"suspend": True}})
    room.carry_out(Change.RESUME)
    for name in ("one", "two"):
        room.run_all(name, 1)


def test_controllers_that_are_away_keep_nobody_from_suspending(room: TrainingRoom, trainer_lab: Lab) -> None:
    room.train("one", nodes=1)
    room.run_all("one", 1)
    for name in ("jobset", "trainer"):
        trainer_lab.stop_program(name, kill=True)
    try:
        room.carry_out(Change.SUSPEND, **ASLEEP)
        assert not room.pods_of("one")
    finally:
        trainer_lab.up()
    assert not room.pods_of("one")


def test_nothing_of_them_is_left_of_a_deleted_workspace(room: TrainingRoom) -> None:
    room.train("one", nodes=1)
    room.make_set("two")
    for name in ("one", "two"):
        room.run_all(name, 1)
    held = {"metadata": {"finalizers": ["example.com/never"]}}
    room.tenant.merge(f"{room.path('jobsets', JOBSETS)}/two", held)
    room.carry_out(Change.DELETE)
    assert room.admin.find(f"/api/v1/namespaces/{room.spec.external_name}") is None


def test_viewers_see_them_and_runtimes_are_the_sites(room: TrainingRoom) -> None:
    bob = Api(kubeconfig(room.driver, room.spec, BOB))
    runtimes = room.path("trainingruntimes", training.TRAINER)
    made = {
        room.path("trainjobs", TRAINJOBS): trainjob("bobs"),
        room.path("jobsets", JOBSETS): jobset("bobs"),
    }
    for collection, body in made.items():
        assert bob.items(collection) == []
        with pytest.raises(GpuaasError, match="cannot create"):
            bob.create(collection, body)
    runtime = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainingRuntime"}
    assert room.tenant.items(runtimes) == bob.items(runtimes) == []
    with pytest.raises(GpuaasError, match="cannot create"):
        room.tenant.create(runtimes, {**runtime, "metadata": {"name": "own"}, "spec": {}})
