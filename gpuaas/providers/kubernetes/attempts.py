"""What the pods of a job say of its attempts."""

import re
from collections.abc import Iterable

from gpuaas.providers.base import DEADLINE, JobSpec
from gpuaas.providers.kubeapi import training
from gpuaas.providers.kubeapi.client import Object
from gpuaas.providers.kubernetes import inside

CONTAINER = "job"  # of a pod; Trainer has a name of its own for it
OWNER = "batch.kubernetes.io/job-name"


def pods_named(spec: JobSpec) -> str:
    """A pattern. The names of its movers begin as its own does."""
    return rf"{re.escape(spec.name)}-(\d+-)?[a-z0-9]{{5}}"


def failure_of(condition: Object, attempts: list[Object], spec: JobSpec) -> tuple[str, str]:
    """In one word, and in a sentence."""
    if condition.get("reason") == DEADLINE:
        return DEADLINE, late_in_words(spec)
    ended = next((pod for pod in reversed(attempts) if phase_of(pod) == "Failed"), None)
    if ended is None:
        return str(condition.get("reason", "")), str(condition.get("message", ""))[:300]
    if why := (ended.get("status") or {}).get("reason"):
        return str(why), str((ended["status"]).get("message") or f"the site ended it: {why}")[:300]
    last = terminated(ended)
    if last.get("reason") == "OOMKilled":
        return "OOMKilled", f"it needed more than its {spec.memory_gib} GiB of memory"
    return str(last.get("reason", "Error")), f"its command ended with exit code {last.get('exitCode')}"


def late_in_words(spec: JobSpec) -> str:
    return f"it was not done within {spec.deadline_seconds} seconds, so the site ended it"


def condition_of(job: Object, kind: str) -> Object | None:
    conditions = (job.get("status") or {}).get("conditions") or []
    return next((each for each in conditions if each["type"] == kind and each["status"] == "True"), None)


def phase_of(pod: Object) -> str:
    return str((pod.get("status") or {}).get("phase", ""))


def state_of(pod: Object) -> Object:
    """Of its container."""
    found: Object = container_of(pod).get("state") or {}
    return found


def container_of(pod: Object) -> Object:
    """Its status; empty while there is none."""
    return inside.container_of(pod, CONTAINER) or inside.container_of(pod, training.NODE)


def terminated(pod: Object) -> Object:
    found: Object = state_of(pod).get("terminated") or {}
    return found


def exit_code(pod: Object) -> int | None:
    code = terminated(pod).get("exitCode")
    return int(code) if code is not None else None


def is_of(pod: Object, uid: str) -> bool:
    """By an owner that no member can name: the guards let them name pods, and the site compares no uid with the kind."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return any(each.get("controller") and each["uid"] == uid and _is_job(each) for each in owners)


def _is_job(owner: Object) -> bool:
    return (owner["apiVersion"], owner["kind"]) == ("batch/v1", "Job")


def in_order(found: Iterable[Object]) -> list[Object]:
    """Oldest first."""
    return sorted(found, key=lambda pod: (pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]))
