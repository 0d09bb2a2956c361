"""Jobs in the namespace of a workspace: each is one Job of Kubernetes, which starts its attempts and ends it at its deadline.

Its pods carry no label of the portal's: the guards admit none on what a controller makes. They are found by their owner,
which no member can claim.
"""

from collections.abc import Callable, Mapping
from typing import Any

from gpuaas.core.errors import NotFound, Permanent
from gpuaas.providers.base import (
    Change,
    JobPhase,
    Jobs,
    JobSpec,
    ObservedJob,
    StepOutcome,
    StepSpec,
)
from gpuaas.providers.base.steps import DONE
from gpuaas.providers.kubeapi import demand, ending, names, pods, release
from gpuaas.providers.kubeapi.client import Object
from gpuaas.providers.kubernetes import inside

START, STOP = StepSpec("start", "Create the job"), StepSpec("stop", "End what runs of it, and remove it")
STEPS = {Change.CREATE: (START,)} | dict.fromkeys((Change.SUSPEND, Change.DELETE), (STOP,))
CONTAINER = "job"
BATCH = "/apis/batch/v1"
OWNER = "batch.kubernetes.io/job-name"
DEADLINE = "DeadlineExceeded"


class KubernetesJobs(inside.Inside[JobSpec], Jobs):
    changes = STEPS

    def deeds(self) -> Mapping[StepSpec, Callable[[JobSpec], StepOutcome]]:
        return {START: self._start, STOP: self._stop}

    def observe(self, spec: JobSpec) -> ObservedJob:
        job = self._job(spec) if inside.is_there(self._api, spec.workspace) else None
        if job is None or "deletionTimestamp" in job["metadata"]:
            return ObservedJob(JobPhase.GONE)
        attempts = self._pods(job)
        found = seen(job, attempts, spec)
        if found.phase is JobPhase.WAITING and not attempts and (why := self._refusal(job)):
            return ObservedJob(JobPhase.WAITING, detail=why, attempt=found.attempt)
        return found

    def log(self, spec: JobSpec, *, lines: int) -> str:
        job = self._job(spec)
        attempts = self._pods(job) if job is not None else []
        if not attempts:
            raise NotFound("no attempt of it is at the site, so there is no log")
        path = f"{inside.path(spec.workspace, 'pods')}/{attempts[-1]['metadata']['name']}/log"
        return self._api.text(path, most=inside.LOG_BYTES, tailLines=str(lines), container=CONTAINER)

    def _job(self, spec: JobSpec) -> Object | None:
        """The portal's own: a member may have made one of its name, and cannot give it the label."""
        found = self._api.find(_path(spec))
        return found if found is not None and _is_ours(found, spec) else None

    def _pods(self, job: Object) -> list[Object]:
        """Of its attempts, oldest first."""
        meta = job["metadata"]
        collection = f"/api/v1/namespaces/{meta['namespace']}/pods"
        found = self._api.items(collection, labelSelector=f"{OWNER}={meta['name']}")
        return sorted(
            (pod for pod in found if _is_of(pod, meta["uid"])),
            key=lambda pod: (pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]),
        )

    def _refusal(self, job: Object) -> str:
        """Why the site makes no pod of it, as its controller has written last; "" for no reason."""
        meta = job["metadata"]
        select = f"involvedObject.uid={meta['uid']},reason=FailedCreate"
        events = self._api.items(f"/api/v1/namespaces/{meta['namespace']}/events", fieldSelector=select)
        last = max(events, key=lambda each: str(each.get("lastTimestamp") or ""), default=None)
        return pods.refusal_in_words(str(last["message"])) if last else ""

    def _start(self, spec: JobSpec) -> StepOutcome:
        job = self._job(spec)
        if job is None and self._api.find(_path(spec)) is not None:
            raise Permanent(f"the namespace has another Job of the name {spec.name}: remove it there")
        if job is None:
            inside.create(
                self._api,
                inside.path(spec.workspace, "jobs", BATCH),
                job_of(spec, chooses_users=self._chooses_users),
            )
        elif "deletionTimestamp" in job["metadata"]:
            return StepOutcome(done=False, detail="the site is still deleting a job of this name")
        return DONE

    def _stop(self, spec: JobSpec) -> StepOutcome:
        """The site removes it after its pods: that it is gone proves that they are."""
        job = self._job(spec)
        if job is None:
            return StepOutcome(done=True, detail="nothing of it is left")
        if "deletionTimestamp" not in job["metadata"]:
            uid = {"uid": job["metadata"]["uid"]}
            self._api.delete(_path(spec), {"propagationPolicy": "Foreground", "preconditions": uid})
        live = [pod for pod in self._pods(job) if _phase(pod) not in demand.FINISHED]
        for pod in live:
            ending.end(self._api, inside.path(spec.workspace, "pods"), pod, seconds=release.GRACE_SECONDS)
        if self._job(spec) is not None:
            words = ending.in_words(live) if live else "the site is removing it"
            return StepOutcome(done=False, detail=words)
        return StepOutcome(done=True, detail="nothing of it is left")


# -- what is there -------------------------------------------------------------------------------------------------


def seen(job: Object, attempts: list[Object], spec: JobSpec) -> ObservedJob:
    """attempts: its pods, oldest first. Pure."""
    failed = int((job.get("status") or {}).get("failed") or 0)
    newest = attempts[-1] if attempts else None
    facts: dict[str, Any] = {"node": newest["spec"].get("nodeName", "") if newest else ""}
    facts["exit_code"] = next(filter(_is_known, map(_exit_code, reversed(attempts))), None)
    if _condition(job, "Complete"):
        return ObservedJob(JobPhase.SUCCEEDED, attempt=failed + 1, **{**facts, "exit_code": 0})
    if condition := _condition(job, "Failed"):
        reason, words = _failure(condition, attempts, spec)
        return ObservedJob(
            JobPhase.FAILED,
            detail=words,
            reason=reason,
            attempt=min(max(failed, 1), spec.retries + 1),
            **facts,
        )
    facts["attempt"] = min(failed + 1, spec.retries + 1)
    if newest is None or _phase(newest) in demand.FINISHED:
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


def _failure(condition: Object, attempts: list[Object], spec: JobSpec) -> tuple[str, str]:
    """In one word, and in a sentence."""
    if condition.get("reason") == DEADLINE:
        return DEADLINE, f"it was not done within {spec.deadline_seconds} seconds, so the site ended it"
    ended = next((pod for pod in reversed(attempts) if _phase(pod) == "Failed"), None)
    if ended is None:
        return str(condition.get("reason", "")), str(condition.get("message", ""))[:300]
    if why := (ended.get("status") or {}).get("reason"):
        return str(why), str((ended["status"]).get("message") or f"the site ended it: {why}")[:300]
    last = _terminated(ended)
    if last.get("reason") == "OOMKilled":
        return "OOMKilled", f"it needed more than its {spec.memory_gib} GiB of memory"
    return str(last.get("reason", "Error")), f"its command ended with exit code {last.get('exitCode')}"


def _condition(job: Object, kind: str) -> Object | None:
    conditions = (job.get("status") or {}).get("conditions") or []
    return next((each for each in conditions if each["type"] == kind and each["status"] == "True"), None)


def _phase(pod: Object) -> str:
    return str((pod.get("status") or {}).get("phase", ""))


def _terminated(pod: Object) -> Object:
    found: Object = (inside.container_of(pod, CONTAINER).get("state") or {}).get("terminated") or {}
    return found


def _exit_code(pod: Object) -> int | None:
    code = _terminated(pod).get("exitCode")
    return int(code) if code is not None else None


def _is_known(code: int | None) -> bool:
    return code is not None


def _is_ours(job: Object, spec: JobSpec) -> bool:
    return bool((job["metadata"].get("labels") or {}).get(names.JOB) == str(spec.id))


def _is_of(pod: Object, uid: str) -> bool:
    owners = pod["metadata"].get("ownerReferences") or ()
    return any(each.get("controller") and each["uid"] == uid for each in owners)


# -- manifests -----------------------------------------------------------------------------------------------------


def _path(spec: JobSpec) -> str:
    return f"{inside.path(spec.workspace, 'jobs', BATCH)}/{spec.name}"


def job_of(spec: JobSpec, *, chooses_users: bool = True) -> Object:
    """One pod at a time, the next one only when the last has ended; the portal removes it, and no clock of the site's."""
    body: Object = {
        "backoffLimit": spec.retries,
        "podReplacementPolicy": "Failed",
        "template": {"spec": _pod_spec(spec, chooses_users=chooses_users)},
        **({"activeDeadlineSeconds": spec.deadline_seconds} if spec.deadline_seconds else {}),
    }
    return inside.object_of(spec, names.JOB, "batch/v1", "Job", body)


def _pod_spec(spec: JobSpec, *, chooses_users: bool) -> Object:
    claims = {"volume": (spec.volume, spec.mount)} if spec.volume else {}
    return inside.pod_spec(
        spec, {"name": CONTAINER}, restart="Never", claims=claims, chooses_users=chooses_users
    )
