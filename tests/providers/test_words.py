"""What drivers observe is stored as it is."""

from dataclasses import replace

from gpuaas.core import clock
from gpuaas.providers.base import (
    JobPhase,
    ObservedEnvironment,
    ObservedJob,
    ObservedTask,
    ObservedVolume,
    StepOutcome,
)

BAD, GOOD = "a\x00b\ud800c", "ab?c"


def test_what_a_driver_observes_can_be_kept() -> None:
    task = ObservedTask(1, JobPhase.FAILED, node=BAD, reason=BAD)
    job = replace(ObservedJob(JobPhase.WAITING, BAD, node=BAD), reason=BAD, tasks=(task,))
    assert job.phase is JobPhase.WAITING
    assert (job.detail, job.node, job.reason, job.tasks[0].node, job.tasks[0].reason) == (GOOD,) * 5
    assert StepOutcome(done=False, detail=BAD).detail == GOOD
    volume = ObservedVolume(BAD, 1, BAD, bound=True, created_at=clock.now())
    assert (volume.name, volume.storage_class) == (GOOD, GOOD)
    assert ObservedEnvironment(exists=True, detail=BAD).detail == GOOD
