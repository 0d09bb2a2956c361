"""Several tasks of a job at a simulated site: arrays, and those that run together, which start all at once or not at all.

`SandboxJob.tasks` has one entry a task: its attempt, whether that has its pod yet, and how it ended for good.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.db import transaction

from gpuaas.core import clock
from gpuaas.core.errors import Permanent, QuotaRefused
from gpuaas.core.ranges import ranges_shown, ranges_text
from gpuaas.core.rows import one_or_none
from gpuaas.providers.base import (
    DEADLINE,
    JobPhase,
    JobSpec,
    ObservedJob,
    ObservedTask,
    StepOutcome,
    tasks_cut,
)
from gpuaas.providers.base.steps import DONE
from gpuaas.providers.sandbox.commands import MISSING, owner_of, result_of, seconds_of
from gpuaas.providers.sandbox.inside import claim_missing, preempted_by, preempted_take
from gpuaas.providers.sandbox.inventory import RUNTIMES
from gpuaas.providers.sandbox.models import SandboxJob, SandboxNamespace, SandboxPod, SandboxSite
from gpuaas.providers.sandbox.pods import pod_admit, pods_end
from gpuaas.providers.sandbox.simulation import advance

End = Callable[[SandboxSite, SandboxNamespace, JobSpec], StepOutcome]
Task = dict[str, Any]
FRESH: Task = {"made": False, "outcome": "", "code": None, "reason": "", "words": ""}
EVICTED = (137, "Evicted", "the site removed it")


def start(site: SandboxSite, room: SandboxNamespace, spec: JobSpec, *, end: End) -> StepOutcome:
    """end: removes an attempt of those that run together."""
    job = one_or_none(room.jobs.filter(name=spec.name))
    if job is not None and spec.together and job.attempt != spec.attempt:
        return StepOutcome(done=False, detail=f"the attempt before: {end(site, room, spec).detail}")
    if job is not None:
        return DONE
    if spec.runtime and spec.runtime not in {each.name for each in RUNTIMES}:
        raise Permanent(f"the site offers no training runtime {spec.runtime} to jobs any more")
    job = SandboxJob(namespace=room, name=spec.name, attempt=spec.attempt, created_at=clock.now())
    job.tasks = [{**FRESH, "attempt": spec.attempt} for _ in range(spec.tasks)]
    with transaction.atomic():
        job.save(force_insert=True)
        _fill(site, room, job, spec)
        refused = spec.together and job.detail
        transaction.set_rollback(bool(refused))
    return StepOutcome(done=False, detail=job.detail) if refused else DONE


def observe(site: SandboxSite, room: SandboxNamespace, job: SandboxJob, spec: JobSpec) -> ObservedJob:
    if spec.made not in ("", _made(job, spec)):
        return ObservedJob(JobPhase.GONE)
    if not job.outcome and not room.suspended:
        _go(site, room, job, spec)
    return _seen(room, job, spec)


def _made(job: SandboxJob, spec: JobSpec) -> str:
    return str(job.pk) if spec.runtime else ""


def pod_name(job: SandboxJob, task: int) -> str:
    return f"{job.name}-{task}-{job.tasks[task]['attempt']}"


def _go(site: SandboxSite, room: SandboxNamespace, job: SandboxJob, spec: JobSpec) -> None:
    """What the site's controller of jobs does by now."""
    pods = _pods(room, job)
    for number, task in enumerate(job.tasks):
        if not task["made"] or task["outcome"]:
            continue
        pod = pods.get(pod_name(job, number))
        if pod is None and (ended := preempted_take(room, pod_name(job, number))):
            job.preempted, task["made"] = ended, False
        else:
            _look(number, task, pod, spec)
    failed = [number for number, task in enumerate(job.tasks) if task["outcome"] == JobPhase.FAILED]
    since = spec.since if spec.attempt > 1 and spec.since is not None else job.created_at
    if spec.deadline_seconds and since + timedelta(seconds=spec.deadline_seconds) <= clock.now():
        words = f"it was not done within {spec.deadline_seconds} seconds, so the site ended it"
        _finish(site, room, job, JobPhase.FAILED, DEADLINE, words)
    elif failed and (spec.together or all(task["outcome"] for task in job.tasks)):
        first, listed = job.tasks[failed[0]], ranges_shown(ranges_text(failed))
        words = f"{len(failed)} of {spec.tasks} tasks failed: {listed}; the first: {first['words']}"
        if spec.together:
            words = f"task {listed} failed, which ends the others: {first['words']}"
        job.exit_code = first["code"]
        _finish(site, room, job, JobPhase.FAILED, first["reason"], words)
    elif all(task["outcome"] for task in job.tasks):
        job.exit_code = 0
        _finish(site, room, job, JobPhase.SUCCEEDED, "", "")
    else:
        _fill(site, room, job, spec)


def _look(number: int, task: Task, pod: SandboxPod | None, spec: JobSpec) -> None:
    """An attempt that is over: the next one of an array, or the end of the task."""
    if pod is not None and (pod.finished_at is None or pod.gone_at is not None):
        return
    code, reason, words = EVICTED if pod is None else result_of(spec, number)
    task["code"] = code
    if code and not spec.together and task["attempt"] <= spec.retries:
        task |= {"attempt": task["attempt"] + 1, "made": False}
    else:
        outcome = JobPhase.FAILED if code else JobPhase.SUCCEEDED
        task |= {"outcome": outcome.value, "reason": reason if code else "", "words": words}


def _fill(site: SandboxSite, room: SandboxNamespace, job: SandboxJob, spec: JobSpec) -> None:
    """Pods for as many tasks as may run at once, lowest numbers first."""
    busy, job.detail = sum(task["made"] and not task["outcome"] for task in job.tasks), ""
    for number, task in enumerate(job.tasks):
        if busy >= spec.at_once:
            break
        if task["made"] or task["outcome"]:
            continue
        try:
            pod_admit(site, room, _pod(job, number, spec))
        except QuotaRefused as error:
            job.detail = error.message[:300]
            break
        task["made"], busy = True, busy + 1
    job.save()
    advance(site, now=clock.now())


def _pod(job: SandboxJob, number: int, spec: JobSpec) -> SandboxPod:
    return SandboxPod(
        name=pod_name(job, number),
        owner=owner_of(job),
        run_seconds=seconds_of(spec),
        gpus=spec.gpus,
        vcpus=spec.vcpus,
        memory_gib=spec.memory_gib,
        resource_name=spec.resource_name,
    )


def _finish(
    site: SandboxSite, room: SandboxNamespace, job: SandboxJob, phase: JobPhase, reason: str, words: str
) -> None:
    pods_end(site, room.pods.filter(owner=owner_of(job), finished_at=None))
    job.outcome, job.reason, job.detail = phase.value, reason, words[:300]
    job.save()


def _pods(room: SandboxNamespace, job: SandboxJob) -> dict[str, SandboxPod]:
    return {pod.name: pod for pod in room.pods.filter(owner=owner_of(job))}


def _seen(room: SandboxNamespace, job: SandboxJob, spec: JobSpec) -> ObservedJob:
    pods, here = _pods(room, job), MISSING not in spec.image
    missing = claim_missing(room, spec)
    tasks = [
        _task(number, task, pods.get(pod_name(job, number)), starts=here and not missing)
        for number, task in enumerate(job.tasks)
    ]
    found = {
        phase: ranges_text(each.number for each in tasks if each.phase is phase)
        for phase in (JobPhase.RUNNING, JobPhase.SUCCEEDED, JobPhase.FAILED)
    }
    busy = sum(each.phase is not JobPhase.WAITING for each in tasks)
    phase, reason, detail = JobPhase.WAITING, job.reason, job.detail
    if job.outcome:
        phase = JobPhase(job.outcome)
    elif busy >= (spec.tasks if spec.together else 1):
        phase, detail = JobPhase.RUNNING, ""
    elif not here:
        reason, detail = "ImagePullBackOff", f"ImagePullBackOff: there is no image {spec.image}"
    elif missing:
        detail = f'persistentvolumeclaim "{missing}" not found'
    elif not detail:
        detail = next((pod.waiting_for for pod in pods.values() if pod.waiting_for), "it starts")
    return ObservedJob(
        phase,
        detail,
        reason,
        hopeless=phase is JobPhase.WAITING and not here,
        attempt=spec.attempt if spec.together else 1,
        exit_code=job.exit_code,
        running=found[JobPhase.RUNNING],
        succeeded=found[JobPhase.SUCCEEDED],
        failed=found[JobPhase.FAILED],
        tasks=tasks_cut(each for each in tasks if each.node or each.attempt > 1),
        made=_made(job, spec),
        preempted=max((preempted_by(room, name) for name in pods), default="") or job.preempted,
    )


def _task(number: int, task: Task, pod: SandboxPod | None, *, starts: bool) -> ObservedTask:
    phase = JobPhase(task["outcome"] or JobPhase.WAITING)
    if not task["outcome"] and starts and pod is not None and pod.scheduled_at and not pod.finished_at:
        phase = JobPhase.RUNNING
    node = pod.node_name if pod is not None else ""
    return ObservedTask(number, phase, node, task["code"], task["reason"], task["attempt"])
