"""Several tasks of a job: an Indexed Job, whose pods know their numbers; those that run together find one another by a service.

An array is tried again by the site, each task for itself. Of tasks that run together the first failure fails the Job, which ends
the others also while the portal is away; the next attempt is a new Job, which the portal makes once the old one is gone.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from gpuaas.core import clock
from gpuaas.core.ranges import ranges_read, ranges_shown, ranges_text
from gpuaas.providers.base import DEADLINE, JobPhase, JobSpec, ObservedJob, ObservedTask, tasks_cut
from gpuaas.providers.kubeapi import bounds, names, pods, training
from gpuaas.providers.kubeapi.client import Object
from gpuaas.providers.kubeapi.quantities import quantity
from gpuaas.providers.kubernetes import inside, launcher
from gpuaas.providers.kubernetes.attempts import (
    OWNER,
    condition_of,
    container_of,
    exit_code,
    failure_of,
    phase_of,
    state_of,
    terminated,
)

INDEX = "batch.kubernetes.io/job-completion-index"  # a label and an annotation of each pod
FAILURES = "batch.kubernetes.io/job-index-failure-count"
PORT = 29500  # what torch expects


# -- manifests -----------------------------------------------------------------------------------------------------


def job_name(spec: JobSpec) -> str:
    """Of the Job that has its pods: JobSet names the first one of a TrainJob so."""
    return f"{spec.name}-{training.NODE}-0" if spec.runtime else spec.name


def fields_of(spec: JobSpec) -> Object:
    """Of the Job, in place of `backoffLimit`."""
    retries = {"backoffLimit": 0} if spec.together else {"backoffLimitPerIndex": spec.retries}
    return {
        "completionMode": "Indexed",
        "completions": spec.tasks,
        "parallelism": spec.at_once,
        **retries,
    }


def seconds_of(spec: JobSpec) -> int | None:
    """Until the deadline of all attempts together: a later one has what the earlier ones have left."""
    if spec.deadline_seconds is None or spec.since is None or spec.attempt == 1:
        return spec.deadline_seconds
    ends_at = spec.since + timedelta(seconds=spec.deadline_seconds)
    return max(int((ends_at - clock.now()).total_seconds()), 1)


def meet(spec: JobSpec, pod: Object) -> Object:
    """The pod, so that all of them find one another; what the order itself sets counts more."""
    container = pod["containers"][0]
    own = {each["name"] for each in container["env"]}
    given = [each for each in variables_of(spec) if each["name"] not in own]
    # theirs come first, so that the order's can refer to them
    return {**pod, "subdomain": spec.name, "containers": [{**container, "env": [*given, *container["env"]]}]}


def variables_of(spec: JobSpec) -> list[Object]:
    """Read by torchrun (PET_…), by torch without it (RANK, WORLD_SIZE: one process a task) and by mpirun --host (HOSTS)."""
    slots, number = max(spec.gpus, 1), {"fieldRef": {"fieldPath": f"metadata.annotations['{INDEX}']"}}
    hosts = [f"{job_name(spec)}-{each}.{spec.name}" for each in range(spec.tasks)]
    fixed = {
        "MASTER_ADDR": hosts[0],
        "MASTER_PORT": str(PORT),
        "NNODES": str(spec.tasks),
        "HOSTS": ",".join(f"{host}:{slots}" for host in hosts),
        "PET_MASTER_ADDR": hosts[0],
        "PET_MASTER_PORT": str(PORT),
        "PET_NNODES": str(spec.tasks),
        "PET_NPROC_PER_NODE": str(slots),
        **({"WORLD_SIZE": str(spec.tasks)} if slots == 1 else {}),
        **(launcher.variables_of() if spec.launcher else {}),
    }
    numbered = ("NODE_RANK", "PET_NODE_RANK", *(("RANK",) if slots == 1 else ()))
    found = [
        *({"name": name, "value": value} for name, value in fixed.items()),
        *({"name": name, "valueFrom": number} for name in numbered),
    ]
    # those are Trainer's, which refuses another's
    return [each for each in found if not spec.runtime or not str(each["name"]).startswith("PET_")]


def service_of(spec: JobSpec) -> Object:
    """Without an address: it gives each pod a name, before it is ready too."""
    body = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {OWNER: job_name(spec)}}
    return inside.object_of(spec, names.JOB, "v1", "Service", body)


def short_of(quota: Object, spec: JobSpec) -> str:
    """What the namespace's quota has too little of for all tasks at this moment, in words; "" if they fit.

    quota: status of a ResourceQuota.
    """
    hard, used = quota.get("hard") or {}, quota.get("used") or {}
    wanted = {
        "requests.cpu": f"{spec.vcpus * spec.tasks}",
        "requests.memory": f"{spec.memory_gib * spec.tasks}Gi",
    }
    wanted |= {"pods": str(spec.tasks), "count/pods": str(spec.tasks)}
    if spec.gpus:
        wanted |= dict.fromkeys(names.quota_keys(spec.resource_name), str(spec.gpus * spec.tasks))
    for key, asked in wanted.items():
        taken = used.get(key, "0")
        if key in hard and quantity(taken) + quantity(asked) > quantity(hard[key]):
            words = f"the workspace's quota is used up: its {spec.tasks} tasks ask for {key}={asked}, used {taken}, quota {hard[key]}"
            return f"{words}. {bounds.remedy_of(key)}".removesuffix(". ")
    return ""


# -- what is there -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pods:
    """Of a job of several tasks, oldest first: those that have not ended, and some of those that have."""

    live: list[Object]
    ended: list[Object]

    @property
    def running(self) -> list[Object]:
        return [pod for pod in self.live if "running" in state_of(pod)]

    @property
    def failed(self) -> list[Object]:
        """By themselves, the first one first: what the site ends of them, it removes."""
        found = [
            each
            for each in self.ended
            if phase_of(each) == "Failed" and "deletionTimestamp" not in each["metadata"]
        ]
        return sorted(found, key=lambda pod: str(terminated(pod).get("finishedAt") or ""))

    def of_tasks(self, count: int) -> "Pods":
        """Without those whose numbers a member has changed to none of a task."""
        numbered = [
            [pod for pod in pods if (number := _noted(pod, INDEX)) is not None and number < count]
            for pods in (self.live, self.ended)
        ]
        return Pods(*numbered)


def seen(job: Object, found: Pods, spec: JobSpec) -> ObservedJob:
    """Pure."""
    found = found.of_tasks(spec.tasks)
    status, alone = job.get("status") or {}, not spec.together
    failed = _indexes(status, "failedIndexes") if alone else ranges_text(map(number_of, found.failed))
    facts: dict[str, Any] = {
        "succeeded": _indexes(status, "completedIndexes"),
        "failed": failed,
        "running": ranges_text(map(number_of, found.running)),
        "attempt": 1 if alone else spec.attempt,
    }
    facts["tasks"] = _details(found, facts, spec)
    if condition_of(job, "Complete"):
        return ObservedJob(JobPhase.SUCCEEDED, exit_code=0, **facts)
    if condition := condition_of(job, "Failed"):
        numbers = ranges_read(failed)
        first = (
            [pod for pod in found.failed if number_of(pod) == min(numbers)]
            if alone and numbers
            else found.failed[:1]
        )
        reason, words = failure_of(condition, first, spec)
        if not alone and not first and reason != DEADLINE:
            reason, words = "Evicted", "the site removed one of its tasks, which ends the others"
        detail = words if reason == DEADLINE else _failed_in_words(words, failed, spec)
        code = exit_code(first[-1]) if first else None
        return ObservedJob(JobPhase.FAILED, detail, reason, exit_code=code, **facts)
    busy = len(found.running) + len(ranges_read(facts["succeeded"])) + len(ranges_read(failed))
    if busy >= (1 if alone or failed else spec.tasks):
        return ObservedJob(JobPhase.RUNNING, **facts)
    return _waiting(found, spec, facts)


def _waiting(found: Pods, spec: JobSpec, facts: Mapping[str, Any]) -> ObservedJob:
    """For what, by the first pod that does; by one for which there is no hope before."""
    idle = [pod for pod in found.live if "running" not in state_of(pod)]
    waits = [(pod, inside.waiting_of(container_of(pod))) for pod in idle]
    waits.sort(key=lambda each: each[1].get("reason") not in inside.HOPELESS)
    words, reason = "the site starts it", ""
    if waits:
        pod, waiting = waits[0]
        words = inside.waits_for(waiting, spec) if waiting else pods.consumer(pod).waiting_for or "it starts"
        words, reason = f"task {number_of(pod)}: {words}", str(waiting.get("reason", ""))
    if found.running:
        words = f"{len(found.running)} of its {spec.tasks} tasks wait for the others; {words}"
    return ObservedJob(JobPhase.WAITING, words, reason, reason in inside.HOPELESS, **facts)


def _failed_in_words(words: str, failed: str, spec: JobSpec) -> str:
    if not failed:
        return words
    if spec.together:
        return f"task {ranges_shown(failed)} failed, which ends the others: {words}"
    return (
        f"{len(ranges_read(failed))} of {spec.tasks} tasks failed: {ranges_shown(failed)}; the first: {words}"
    )


def _details(found: Pods, facts: Mapping[str, Any], spec: JobSpec) -> tuple[ObservedTask, ...]:
    """Of the newest pod of each task."""
    newest = {number_of(pod): pod for pod in (*found.ended, *found.live)}
    over = {
        **dict.fromkeys(ranges_read(facts["running"]), JobPhase.RUNNING),
        **dict.fromkeys(ranges_read(facts["succeeded"]), JobPhase.SUCCEEDED),
        **dict.fromkeys(ranges_read(facts["failed"]), JobPhase.FAILED),
    }
    return tasks_cut(
        ObservedTask(
            number=number,
            phase=over.get(number, JobPhase.WAITING),
            node=pod["spec"].get("nodeName", ""),
            exit_code=exit_code(pod),
            reason=str((pod.get("status") or {}).get("reason") or terminated(pod).get("reason") or ""),
            attempt=spec.attempt if spec.together else (_noted(pod, FAILURES) or 0) + 1,
        )
        for number, pod in newest.items()
    )


def _indexes(status: Object, key: str) -> str:
    """In our ranges: Kubernetes writes two that follow each other as `0,1`."""
    return ranges_text(ranges_read(str(status.get(key) or "")))


def number_of(pod: Object) -> int:
    return _noted(pod, INDEX) or 0


def _noted(pod: Object, key: str) -> int | None:
    """Members can write there whatever they like."""
    text = str((pod["metadata"].get("annotations") or {}).get(key, ""))
    return int(text) if re.fullmatch(r"[0-9]{1,6}", text) else None
