"""What drivers observe is stored as it is."""

from dataclasses import replace

from gpuaas.providers.base import JobPhase, ObservedEnvironment, ObservedJob, ObservedTask, StepOutcome

BAD, GOOD = "a\x00b\ud800c", "ab?c"


def test_what_a_driver_observes_can_be_kept() -> None:
    task = ObservedTask(1, JobPhase.FAILED, node=BAD, reason=BAD)
    job = replace(ObservedJob(JobPhase.WAITING, BAD, node=BAD), reason=BAD, tasks=(task,))
    assert job.phase is JobPhase.WAITING
    assert (job.detail, job.node, job.reason, job.tasks[0].node, job.tasks[0].reason) == (GOOD,) * 5
    assert StepOutcome(done=False, detail=BAD).detail == GOOD
    assert ObservedEnvironment(exists=True, detail=BAD).detail == GOOD
