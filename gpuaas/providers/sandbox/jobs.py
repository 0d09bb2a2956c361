"""Jobs at a simulated site: a pod for each attempt, under the same quota as what the tenant makes.

What runs is make-believe (commands.py). Those of several tasks: tasks.py.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta

from gpuaas.core import clock
from gpuaas.core.errors import NotFound, QuotaRefused
from gpuaas.core.rows import one_or_none
from gpuaas.providers.base import (
    DEADLINE,
    Change,
    JobPhase,
    Jobs,
    JobSpec,
    ObservedJob,
    StepOutcome,
    StepSpec,
)
from gpuaas.providers.base.steps import DONE
from gpuaas.providers.sandbox import inside, tasks
from gpuaas.providers.sandbox.commands import MISSING, owner_of, result_of, seconds_of, words_of
from gpuaas.providers.sandbox.inside import preempted_by, preempted_take
from gpuaas.providers.sandbox.models import SandboxJob, SandboxNamespace, SandboxPod, SandboxSite
from gpuaas.providers.sandbox.movers import moves_log, moves_of, moves_result, moves_seconds
from gpuaas.providers.sandbox.pods import pod_admit, pods_end
from gpuaas.providers.sandbox.simulation import advance

Do = Callable[[SandboxSite, SandboxNamespace, JobSpec], StepOutcome]
START, STOP = StepSpec("start", "Create the job"), StepSpec("stop", "End what runs of it, and remove it")
STEPS = {Change.CREATE: (START,), Change.SUSPEND: (STOP,), Change.DELETE: (STOP,)}


class SandboxJobs(inside.Inside[JobSpec], Jobs):
    noun, changes = "job", STEPS

    def deeds(self) -> Mapping[StepSpec, Do]:
        return {START: _start, STOP: _stop}

    def observe(self, spec: JobSpec) -> ObservedJob:
        with self.place("observe", spec) as (site, room):
            job = one_or_none(room.jobs.filter(name=spec.name)) if room is not None else None
            if room is None or job is None:
                return ObservedJob(JobPhase.GONE)
            if spec.tasks > 1:
                return tasks.observe(site, room, job, spec)
            _go(site, room, job, spec)
            return _seen(room, job, spec)

    def log(self, spec: JobSpec, *, lines: int, task: int = 0) -> str:
        with self.place("log", spec) as (_, room):
            job = one_or_none(room.jobs.filter(name=spec.name)) if room is not None else None
            pod = None
            if room is not None and job is not None:
                name = tasks.pod_name(job, task) if spec.tasks > 1 else _pod_name(job)
                pod = one_or_none(room.pods.filter(name=name))
        if pod is None or pod.scheduled_at is None:
            raise NotFound("no attempt of it is at the site, so there is no log")
        attempt = pod.name.rpartition("-")[2]
        text = [
            f"{pod.scheduled_at:%Y-%m-%d %H:%M:%S} attempt {attempt} on {pod.node_name}",
            *([f"JOB_COMPLETION_INDEX={task}"] if spec.tasks > 1 else []),
            f"$ {words_of(spec)}",
        ]
        passed = int(((pod.finished_at or clock.now()) - pod.scheduled_at).total_seconds())
        if job is not None and job.moves:
            return "\n".join(moves_log(job.moves, passed, done=pod.finished_at is not None)[-lines:])
        text += [
            f"{pod.scheduled_at + timedelta(seconds=each):%H:%M:%S} at work" for each in range(1, passed + 1)
        ]
        return "\n".join(text[-lines:])


def _start(site: SandboxSite, room: SandboxNamespace, spec: JobSpec) -> StepOutcome:
    if spec.tasks > 1:
        return tasks.start(site, room, spec, end=_stop)
    job, _ = SandboxJob.objects.get_or_create(
        namespace=room, name=spec.name, defaults={"created_at": clock.now(), "moves": moves_of(spec)}
    )
    _go(site, room, job, spec)
    return DONE


def _stop(site: SandboxSite, room: SandboxNamespace, spec: JobSpec) -> StepOutcome:
    job = one_or_none(room.jobs.filter(name=spec.name))
    if job is None:
        return StepOutcome(done=True, detail="nothing of it is left")
    owner = owner_of(job)
    room.scaled_away = [each for each in room.scaled_away if each["owner"] != owner]
    room.save(update_fields=["scaled_away"])
    pods_end(site, room.pods.filter(owner=owner), most=spec.grace_seconds)
    advance(site, now=clock.now())
    if room.pods.filter(owner=owner).exists():
        return StepOutcome(done=False, detail="it is ending")
    job.delete()
    return StepOutcome(done=True, detail="nothing of it is left")


def _go(site: SandboxSite, room: SandboxNamespace, job: SandboxJob, spec: JobSpec) -> None:
    """What the site's controller of jobs does by now: the next attempt, the end, or nothing."""
    now = clock.now()
    if job.outcome or room.suspended:
        return
    pod = one_or_none(room.pods.filter(name=_pod_name(job)))
    ended = pod.finished_at if pod is not None and pod.gone_at is None else None
    due = job.created_at + timedelta(seconds=spec.deadline_seconds) if spec.deadline_seconds else None
    if due is not None and due <= (ended or now):
        words = f"it was not done within {spec.deadline_seconds} seconds, so the site ended it"
        pods_end(site, room.pods.filter(owner=owner_of(job)))
        _finish(job, JobPhase.FAILED, DEADLINE, words)
        return
    again = not job.made
    if ended is not None:
        again = _ended(job, spec, *(moves_result(job.moves) if job.moves else result_of(spec)))
    elif pod is None and job.made and (at := preempted_take(room, _pod_name(job))):
        job.preempted, job.made, again = at, False, True
    elif pod is None and job.made:
        again = _ended(job, spec, 137, "Evicted", "the site removed it")
    if again:
        _attempt(site, room, job, spec)


def _attempt(site: SandboxSite, room: SandboxNamespace, job: SandboxJob, spec: JobSpec) -> None:
    if missing := inside.claim_missing(room, spec):
        job.detail = f'persistentvolumeclaim "{missing}" not found'
        job.save(update_fields=["detail"])
        return
    seconds = moves_seconds(job.moves) if job.moves else seconds_of(spec)
    wanted = SandboxPod(name=_pod_name(job), owner=owner_of(job), run_seconds=seconds)
    wanted.gpus, wanted.vcpus, wanted.memory_gib = spec.gpus, spec.vcpus, spec.memory_gib
    wanted.resource_name = spec.resource_name
    try:
        pod_admit(site, room, wanted)
        job.made, job.detail = True, ""
    except QuotaRefused as error:
        job.detail = error.message[:300]
    job.save()
    advance(site, now=clock.now())


def _ended(job: SandboxJob, spec: JobSpec, code: int, reason: str, words: str) -> bool:
    """The attempt is over; whether another one begins."""
    job.exit_code = code
    if code and job.attempt <= spec.retries:
        job.attempt, job.made = job.attempt + 1, False
        job.save()
        return True
    if code:
        _finish(job, JobPhase.FAILED, reason, words)
    else:
        _finish(job, JobPhase.SUCCEEDED, "", "")
    return False


def _finish(job: SandboxJob, phase: JobPhase, reason: str, words: str) -> None:
    job.outcome, job.reason, job.detail = phase.value, reason, words
    job.save()


def _seen(room: SandboxNamespace, job: SandboxJob, spec: JobSpec) -> ObservedJob:
    pod = one_or_none(room.pods.filter(name=_pod_name(job)))
    node = pod.node_name if pod is not None else ""
    phase, detail, reason = JobPhase.WAITING, job.detail or "it starts", job.reason
    if job.outcome:
        phase, detail = JobPhase(job.outcome), job.detail
    elif pod is not None and pod.scheduled_at is None:
        detail = pod.waiting_for or "it starts"
    elif pod is not None and MISSING in spec.image:
        reason, detail = "ImagePullBackOff", f"ImagePullBackOff: there is no image {spec.image}"
    elif pod is not None:
        phase, detail = JobPhase.RUNNING, ""
    hopeless = phase is JobPhase.WAITING and reason == "ImagePullBackOff"
    ended = preempted_by(room, _pod_name(job)) or job.preempted
    return ObservedJob(phase, detail, reason, hopeless, job.attempt, job.exit_code, node, preempted=ended)


def _pod_name(job: SandboxJob) -> str:
    return f"{job.name}-{job.attempt}"
