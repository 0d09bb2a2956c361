"""Jobs in the namespace of a workspace: each is one Job of Kubernetes, which starts its attempts and ends it at its deadline.
Those of several tasks: tasks.py; those that name a training runtime: trainjobs.py.

Its pods carry no label of the portal's: the guards admit none on what a controller makes. They are found by their owner,
which no member can claim.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from gpuaas.core.errors import NotFound, Permanent, QuotaRefused
from gpuaas.providers.base import (
    DEADLINE,
    FILES_AT,
    Change,
    JobPhase,
    Jobs,
    JobSpec,
    ObservedJob,
    StepOutcome,
    StepSpec,
)
from gpuaas.providers.base.steps import DONE
from gpuaas.providers.kubeapi import demand, ending, names, pods, queues, release, spot, training
from gpuaas.providers.kubeapi.client import Object
from gpuaas.providers.kubernetes import inside, launcher, tasks, trainjobs
from gpuaas.providers.kubernetes.attempts import (
    CONTAINER,
    OWNER,
    condition_of,
    exit_code,
    failure_of,
    in_order,
    is_of,
    late_in_words,
    phase_of,
    pods_named,
)

START, STOP = StepSpec("start", "Create the job"), StepSpec("stop", "End what runs of it, and remove it")
STEPS = {Change.CREATE: (START,)} | dict.fromkeys((Change.SUSPEND, Change.DELETE), (STOP,))
BATCH = "/apis/batch/v1"
# what the site ends for others, it starts again by itself, and counts it as no attempt
_PREEMPTED_IS_NO_FAILURE = {
    "rules": [{"action": "Ignore", "onPodConditions": [{"type": spot.DISRUPTED, "status": "True"}]}]
}
ENDED_SEEN = "50"  # pods of many tasks, of those that failed and of those that succeeded
GUARDS_LEARN = timedelta(seconds=30)  # so late they may know what has changed of a workspace
_ENDING, _LEAVING = "the attempt before is ending", "the site is still deleting a job of this name"
TIDIED = 100  # more tasks than these leave nothing at the site of what succeeded


class KubernetesJobs(inside.Inside[JobSpec], Jobs):
    changes = STEPS

    def deeds(self) -> Mapping[StepSpec, Callable[[JobSpec], StepOutcome]]:
        return {START: self._start, STOP: self._stop}

    def observe(self, spec: JobSpec) -> ObservedJob:
        here = inside.is_there(self._api, spec.workspace)
        if spec.runtime and here:
            return self._observe_trained(spec)
        job = self._job(spec) if here else None
        if job is None or "deletionTimestamp" in job["metadata"]:
            return ObservedJob(JobPhase.GONE)
        if job["spec"].get("suspend") and queues.LABEL in job["metadata"]["labels"]:
            words = queues.waits_for(self._api, job)
            return ObservedJob(JobPhase.WAITING, words, attempt=spec.attempt if spec.together else 1)
        attempts = self._pods(job) if spec.tasks == 1 else []
        found = seen(job, attempts, spec) if spec.tasks == 1 else self._observe_tasks(job, spec)
        if spec.tasks == 1 and found.phase is JobPhase.WAITING and not attempts:
            found = self._refused(job, found)
        return replace(found, preempted=self._preempted(spec, attempts)) if spec.notice_seconds else found

    def _preempted(self, spec: JobSpec, live: list[Object]) -> str:
        """The pod of it that was ended last for a buyer."""
        ended = spot.preemptions(self._api, spec.workspace.external_name, live, pods_named(spec))
        return ended[-1][1] if ended else ""

    def _observe_trained(self, spec: JobSpec) -> ObservedJob:
        made = trainjobs.found(self._api, spec).newest()
        train, waits = made.train, ObservedJob(JobPhase.WAITING, "the site starts it", attempt=spec.attempt)
        if train is None or "deletionTimestamp" in train["metadata"]:
            return ObservedJob(JobPhase.GONE)
        if made.attempt != spec.attempt:
            return replace(waits, detail=_ENDING)
        if train["spec"].get("suspend") and queues.LABEL in train["metadata"]["labels"]:
            return replace(waits, detail=queues.waits_for(self._api, train))
        if made.job is None and (over := trainjobs.ended(train, spec)) is not None:
            return over
        if spec.made and made.uid != spec.made:  # Trainer and JobSet make anew what a member has removed
            return ObservedJob(JobPhase.GONE)
        if made.job is None:
            return self._refused(train, waits, trainjobs.REFUSED)
        found = replace(self._observe_live(made.job, spec), made=made.uid)
        if found.phase in (JobPhase.WAITING, JobPhase.RUNNING) and trainjobs.is_late(spec):
            words = late_in_words(spec)
            return replace(found, phase=JobPhase.FAILED, detail=words, reason=DEADLINE, hopeless=False)
        return found

    def _observe_tasks(self, job: Object, spec: JobSpec) -> ObservedJob:
        if spec.together and _attempt_of(job) != spec.attempt:
            return ObservedJob(JobPhase.WAITING, _ENDING, attempt=spec.attempt)
        return self._observe_live(job, spec)

    def _observe_live(self, job: Object, spec: JobSpec) -> ObservedJob:
        """Never all pods, which may be thousands."""
        live = self._pods(job, fieldSelector=",".join(f"status.phase!={each}" for each in demand.FINISHED))
        ended = [
            pod
            for phase in demand.FINISHED
            for pod in self._some(job, limit=ENDED_SEEN, fieldSelector=f"status.phase={phase}")
        ]
        found = tasks.seen(job, tasks.Pods(live, in_order(ended)), spec)
        waits = found.phase is JobPhase.WAITING and len(live) < spec.at_once
        return self._refused(job, found) if waits else found

    def log(self, spec: JobSpec, *, lines: int, task: int = 0) -> str:
        job, one = self._job(spec), f",{tasks.INDEX}={task}" if spec.tasks > 1 else ""
        attempts = self._pods(job, one) if job is not None else []
        if not attempts:
            raise NotFound("no attempt of it is at the site, so there is no log")
        path = f"{inside.path(spec.workspace, 'pods')}/{attempts[-1]['metadata']['name']}/log"
        container = training.NODE if spec.runtime else CONTAINER
        return self._api.text(
            path, most=inside.LOG_BYTES, last=True, tailLines=str(lines), container=container
        )

    def _job(self, spec: JobSpec) -> Object | None:
        """The portal's own: a member may have made one of its name, and cannot give it the label."""
        if spec.runtime:
            made = trainjobs.found(self._api, spec).newest()
            return made.job if spec.made in ("", made.uid) else None
        found = self._api.find(_path(spec))
        return found if found is not None and _is_ours(found, spec) else None

    def tidy(self, spec: JobSpec) -> None:
        """The site removes none that it has not counted."""
        if spec.tasks > TIDIED:
            self._api.delete(
                inside.path(spec.workspace, "pods"),
                labelSelector=f"{OWNER}={tasks.job_name(spec)}",
                fieldSelector="status.phase=Succeeded",
            )

    def _pods(self, job: Object, further: str = "", **select: str) -> list[Object]:
        """Of its attempts, oldest first. further: of the selector of labels."""
        meta = job["metadata"]
        collection = f"/api/v1/namespaces/{meta['namespace']}/pods"
        found = self._api.items(collection, labelSelector=f"{OWNER}={meta['name']}{further}", **select)
        return in_order(pod for pod in found if is_of(pod, meta["uid"]))

    def _some(self, job: Object, **select: str) -> list[Object]:
        """Not more than the first page of them."""
        meta = job["metadata"]
        collection = f"/api/v1/namespaces/{meta['namespace']}/pods"
        page = self._api.get(collection, labelSelector=f"{OWNER}={meta['name']}", **select)
        return [pod for pod in page.get("items") or [] if is_of(pod, meta["uid"])]

    def _refused(self, job: Object, found: ObservedJob, reason: str = "FailedCreate") -> ObservedJob:
        """`found`, with why the site makes no pod of it, as its controller has written last, if it makes none."""
        meta = job["metadata"]
        select = f"involvedObject.uid={meta['uid']},reason={reason}"
        events = self._api.items(f"/api/v1/namespaces/{meta['namespace']}/events", fieldSelector=select)
        last = max(events, key=lambda each: str(each.get("lastTimestamp") or ""), default=None)
        if last is None:
            return found
        detail = pods.refusal_in_words(str(last["message"]))
        return replace(found, detail=detail, hopeless=found.hopeless or _is_for_good(job, last))

    def _start_trained(self, spec: JobSpec) -> StepOutcome:
        made = trainjobs.found(self._api, spec)
        if made.train is not None and made.attempt == spec.attempt:
            leaves = "deletionTimestamp" in made.train["metadata"]
            return StepOutcome(done=not leaves, detail=_LEAVING if leaves else "")
        ended = trainjobs.end(self._api, spec)
        if not ended.done:
            return StepOutcome(done=False, detail=f"the attempt before: {ended.detail}")
        trainjobs.name_require(self._api, spec)
        if why := trainjobs.runtime_leaves(self._api, spec) or self._not_yet(spec):
            return StepOutcome(done=False, detail=why)
        trainjobs.start(self._api, spec, chooses_users=self._chooses_users)
        return DONE

    def _start(self, spec: JobSpec) -> StepOutcome:
        if spec.runtime:
            return self._start_trained(spec)
        job = self._job(spec)
        if job is None and self._api.find(_path(spec)) is not None:
            raise Permanent(f"the namespace has another Job of the name {spec.name}: remove it there")
        if job is None:
            if spec.together and (why := self._not_yet(spec)):
                return StepOutcome(done=False, detail=why)
            made = job_of(spec, chooses_users=self._chooses_users)
            made["metadata"]["labels"] |= queues.labels_in(
                self._api, spec.workspace.external_name, spec.priority
            )
            inside.create(self._api, inside.path(spec.workspace, "jobs", BATCH), made)
        elif spec.together and _attempt_of(job) != spec.attempt:
            ended = self._end(spec, job)
            return StepOutcome(done=False, detail=f"the attempt before: {ended.detail}")
        elif "deletionTimestamp" in job["metadata"]:
            return StepOutcome(done=False, detail=_LEAVING)
        if spec.launcher and (job := job or self._job(spec)) is not None:
            launcher.secret_ensure(self._api, spec, job)
        if spec.files and (job := job or self._job(spec)) is not None:
            inside.apply(
                self._api, inside.path(spec.workspace, "secrets"), inside.secret_of(spec, job, spec.files)
            )
        return DONE

    def _not_yet(self, spec: JobSpec) -> str:
        """Why its tasks cannot start together now, in words. Their names are there before them."""
        quota = self._api.find(f"{inside.path(spec.workspace, 'resourcequotas')}/{names.QUOTA}") or {}
        if short := tasks.short_of(quota.get("status") or {}, spec):
            return short
        try:
            inside.apply(self._api, inside.path(spec.workspace, "services"), tasks.service_of(spec))
        except QuotaRefused as error:
            return error.message
        return ""

    def _stop(self, spec: JobSpec) -> StepOutcome:
        job = None if spec.runtime else self._job(spec)
        if spec.runtime:
            ended = trainjobs.end(self._api, spec)
        elif job is not None:
            ended = self._end(spec, job)
        else:
            ended = StepOutcome(done=True, detail="nothing of it is left")
        if ended.done and spec.runtime:
            trainjobs.runtime_end(self._api, spec)
        if ended.done and spec.together:
            self._api.delete(f"{inside.path(spec.workspace, 'services')}/{spec.name}")
        if ended.done and spec.launcher:
            launcher.secret_delete(self._api, spec)
        if ended.done and spec.files:
            self._api.delete(f"{inside.path(spec.workspace, 'secrets')}/{spec.name}")
        return ended

    def _end(self, spec: JobSpec, job: Object) -> StepOutcome:
        """The site removes it after its pods: that it is gone proves that they are."""
        if "deletionTimestamp" not in job["metadata"]:
            uid = {"uid": job["metadata"]["uid"]}
            self._api.delete(_path(spec), {"propagationPolicy": "Foreground", "preconditions": uid})
        if ending.is_overdue(job, besides=timedelta(seconds=spec.grace_seconds)):
            self._force(spec, job)
        live = [pod for pod in self._pods(job) if phase_of(pod) not in demand.FINISHED]
        for pod in live:
            ending.end(self._api, inside.path(spec.workspace, "pods"), pod, seconds=inside.grace_of(spec))
        if self._job(spec) is not None:
            words = ending.in_words(live) if live else "the site is removing it"
            return StepOutcome(done=False, detail=words)
        return StepOutcome(done=True, detail="nothing of it is left")

    def _force(self, spec: JobSpec, job: Object) -> None:
        """The site waits for finalizers of the tenant's: on the Job, or on a pod of it, also on one that has finished or whose labels
        were changed. Those of the Job come first: once the pods are gone, the site changes them too."""
        release.let_go(self._api, inside.path(spec.workspace, "jobs", BATCH), [job])
        pods_at, uid = inside.path(spec.workspace, "pods"), job["metadata"]["uid"]
        for pod in self._api.items(pods_at):
            if is_of(pod, uid):
                ending.end(self._api, pods_at, pod, seconds=inside.grace_of(spec))


# -- what is there -------------------------------------------------------------------------------------------------


def seen(job: Object, attempts: list[Object], spec: JobSpec) -> ObservedJob:
    """attempts: its pods, oldest first. Pure."""
    failed = int((job.get("status") or {}).get("failed") or 0)
    newest = attempts[-1] if attempts else None
    facts: dict[str, Any] = {"node": newest["spec"].get("nodeName", "") if newest else ""}
    codes = map(exit_code, reversed(attempts))
    facts["exit_code"] = next((code for code in codes if code is not None), None)
    if condition_of(job, "Complete"):
        return ObservedJob(JobPhase.SUCCEEDED, attempt=failed + 1, **{**facts, "exit_code": 0})
    if condition := condition_of(job, "Failed"):
        reason, words = failure_of(condition, attempts, spec)
        return ObservedJob(
            JobPhase.FAILED,
            detail=words,
            reason=reason,
            attempt=min(max(failed, 1), spec.retries + 1),
            **facts,
        )
    facts["attempt"] = min(failed + 1, spec.retries + 1)
    if newest is None or phase_of(newest) in demand.FINISHED:
        words = "the site starts it again after a pause" if failed else "the site starts it"
        return ObservedJob(JobPhase.WAITING, detail=words, **facts)
    container = inside.container_of(newest, CONTAINER)
    waits = inside.waiting_of(container)
    if "running" in (container.get("state") or {}):
        return ObservedJob(JobPhase.RUNNING, **facts)
    reason = str(waits.get("reason", ""))
    words = inside.waits_for(waits, spec) if waits else pods.consumer(newest).waiting_for
    return ObservedJob(
        JobPhase.WAITING,
        detail=words or "it starts",
        reason=reason,
        hopeless=reason in inside.HOPELESS,
        **facts,
    )


def _is_for_good(job: Object, refusal: Object) -> bool:
    """Whether a guard refuses its pods still: it may learn later than the portal what the workspace has bought by now."""
    made, at = job["metadata"]["creationTimestamp"], refusal.get("lastTimestamp") or ""
    if pods.GUARDED not in str(refusal["message"]) or not at:
        return False
    return datetime.fromisoformat(at) >= datetime.fromisoformat(made) + GUARDS_LEARN


def _is_ours(job: Object, spec: JobSpec) -> bool:
    return bool((job["metadata"].get("labels") or {}).get(names.JOB) == str(spec.id))


def _attempt_of(job: Object) -> int:
    return int((job["metadata"].get("labels") or {}).get(names.ATTEMPT, "1"))


# -- manifests -----------------------------------------------------------------------------------------------------


def _path(spec: JobSpec) -> str:
    return f"{inside.path(spec.workspace, 'jobs', BATCH)}/{spec.name}"


def job_of(spec: JobSpec, *, chooses_users: bool = True) -> Object:
    """One pod at a time, the next one only when the last has ended; the portal removes it, and no clock of the site's.

    Of several tasks, each has one at a time.
    """
    seconds = tasks.seconds_of(spec)
    body: Object = {
        **({"backoffLimit": spec.retries} if spec.tasks == 1 else tasks.fields_of(spec)),
        "podReplacementPolicy": "Failed",
        "template": {"spec": _pod_spec(spec, chooses_users=chooses_users)},
        **({"podFailurePolicy": _PREEMPTED_IS_NO_FAILURE} if spec.notice_seconds else {}),
        **({"activeDeadlineSeconds": seconds} if seconds else {}),
    }
    made = inside.object_of(spec, names.JOB, "batch/v1", "Job", body)
    if spec.together:
        made["metadata"]["labels"][names.ATTEMPT] = str(spec.attempt)
    return made


def _pod_spec(spec: JobSpec, *, chooses_users: bool) -> Object:
    made = inside.job_pod(spec, CONTAINER, chooses_users=chooses_users)
    if spec.files:
        made["volumes"].append({"name": "files", "secret": {"secretName": spec.name, "defaultMode": 0o440}})
        mount = {"name": "files", "mountPath": FILES_AT, "readOnly": True}
        made["containers"][0]["volumeMounts"].append(mount)
    if spec.launcher:
        made = launcher.wrap(spec, made)
    return tasks.meet(spec, made) if spec.together else made
