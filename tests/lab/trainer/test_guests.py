"""Jobs of the portal that name a training runtime and are guests: they leave within their notice, and may come back."""

from dataclasses import replace

from deploy.lab.trainer import Lab
from gpuaas.providers.base import Change, JobPhase
from tests.lab.fixtures import carry_out, until
from tests.lab.trainer.conftest import TrainingRoom
from tests.lab.trainer.test_portal_jobs import at, nothing_left, room, seen, started

__all__ = ["room"]


def test_a_guest_leaves_within_its_notice_and_may_come_back(room: TrainingRoom) -> None:
    spec = started(room, grace_seconds=120, priority="low")
    first = seen(room, spec, JobPhase.RUNNING)
    pods = room.pods_of(spec.name)
    assert {each["spec"]["terminationGracePeriodSeconds"] for each in pods} == {120}
    carry_out(room.driver.jobs, Change.SUSPEND, spec)
    carry_out(room.driver.jobs, Change.CREATE, spec)
    assert seen(room, spec, JobPhase.RUNNING).made not in ("", first.made)
    carry_out(room.driver.jobs, Change.DELETE, replace(spec, grace_seconds=0))
    nothing_left(room, spec)


def test_one_that_comes_back_waits_until_the_runtime_of_its_last_stay_is_gone(
    room: TrainingRoom, trainer_lab: Lab
) -> None:
    spec = started(room)
    seen(room, spec, JobPhase.RUNNING)
    runtime = at(room, "trainingruntimes", spec.name)
    until(lambda: room.admin.get(runtime)["metadata"].get("finalizers"), "Trainer has taken note of its use")
    trainer_lab.stop_program("trainer", kill=True)
    try:
        carry_out(room.driver.jobs, Change.SUSPEND, spec)
        waits = room.driver.jobs.perform(Change.CREATE, spec, "start")
        assert (waits.done, "still deleting the training runtime" in waits.detail) == (False, True)
    finally:
        trainer_lab.up()
    carry_out(room.driver.jobs, Change.CREATE, spec)
    seen(room, spec, JobPhase.RUNNING)
    carry_out(room.driver.jobs, Change.DELETE, spec)
    nothing_left(room, spec)
