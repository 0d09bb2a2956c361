"""Suspends and resumes a namespace: it is closed to pods, and workloads are scaled down and remembered.

The annotation on the namespace, by which the guards refuse every pod, is set before the quota, since it has no races.
A workload's former size is stored in its own annotation, in the same change that scales it down, so a crash loses
nothing. The guards protect the annotation; even a forged one brings back no more than the quota admits.
A tenant's changes in the meantime take precedence: a workload that was scaled up or deleted is left alone.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from gpuaas.core.clock import now
from gpuaas.core.errors import GpuaasError, Permanent, Unavailable
from gpuaas.providers.base import StepOutcome, StepSpec, WorkspaceSpec
from gpuaas.providers.kubeapi import ending, names, namespaces, queues, served, training
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.providers.kubeapi.ensure import STEPS as ENSURE_STEPS
from gpuaas.providers.kubeapi.ensure import Ensure

SUSPEND_STEPS = (
    StepSpec("namespace", "Close the namespace to pods"),
    StepSpec("quota", "Set the quota to zero"),
    StepSpec("confirm", "Wait until the site enforces the quota"),
    StepSpec("workloads", "Scale the workloads down"),
    StepSpec("pods", "Wait until nothing runs"),
)
RESUME_STEPS = (*ENSURE_STEPS, StepSpec("workloads", "Restart the workloads"))

# number of replicas before; when a Job or CronJob was paused
REPLICAS = f"{names.DOMAIN}/replicas-before-suspension"
PAUSED = f"{names.DOMAIN}/paused-by-suspension"
JOBS = "/apis/batch/v1/{}/jobs"
PAUSABLE = ("/apis/batch/v1/{}/cronjobs", JOBS)
SCALABLE = (
    "/apis/apps/v1/{}/deployments",
    "/apis/apps/v1/{}/statefulsets",
    "/apis/apps/v1/{}/replicasets",
    "/api/v1/{}/replicationcontrollers",
)
OWNER_LABEL = "batch.kubernetes.io/job-name"
# how long a paused Job may take to end its own pods: a pod that we delete would count as the Job's failure
JOB_PATIENCE = timedelta(seconds=30)
CONFLICTS_MAX = 3

Edit = Callable[[Object], Object | None]


@dataclass(frozen=True)
class Suspend:
    api: Api
    spec: WorkspaceSpec
    ensure: Ensure

    def run(self, step: str) -> StepOutcome:
        """A namespace that does not exist, or is being deleted, counts as suspended."""
        if step not in {each.key for each in SUSPEND_STEPS}:
            raise Permanent(f"the Kubernetes driver has no step {step!r}")
        found = namespaces.only_ours(self.api, self.spec.external_name, self.spec.id)
        if found is None or namespaces.is_terminating(found):
            return StepOutcome(done=True, detail="nothing of it is at the site")
        own: Mapping[str, Callable[[], StepOutcome]] = {"workloads": self._workloads, "pods": self._pods}
        return own[step]() if step in own else self.ensure.run(step)

    def _workloads(self) -> StepOutcome:
        """One that is not to be scaled down does not delay the end of the pods: it can make no new ones."""
        changed = [*self._change(_pausable(self.api), _pause), *self._change(SCALABLE, _scale_away)]
        return StepOutcome(done=True, detail=_summary(changed, "scaled down"))

    def _pods(self) -> StepOutcome:
        collection = f"/api/v1/{_space(self.spec)}/pods"
        patient, refused = self._jobs_that_end_their_own(), ""
        for pod in ending.live(self.api, collection):
            job = (pod["metadata"].get("labels") or {}).get(OWNER_LABEL)
            if job not in patient or "deletionTimestamp" in pod["metadata"]:
                try:
                    ending.end(self.api, collection, pod, seconds=ending.SUSPEND_GRACE_SECONDS)
                except GpuaasError as error:  # the others end all the same
                    refused = f"; {pod['metadata']['name']} was refused: {error.message}"
        left = ending.live(self.api, collection)
        if left:
            return StepOutcome(done=False, detail=ending.in_words(left) + refused)
        return StepOutcome(done=True, detail="nothing is running any more")

    def _jobs_that_end_their_own(self) -> set[str]:
        space = _space(self.spec)
        kinds = training.makers(served.group_versions(self.api))
        makers = [each for kind in kinds for each in self.api.items(kind.format(space))]
        also = any(map(_paused_lately, makers))
        jobs = self.api.items(JOBS.format(space))
        return {
            job["metadata"]["name"] for job in jobs if _paused_lately(job) or (also and training.is_made(job))
        }

    def _change(self, kinds: tuple[str, ...], change: Edit) -> Iterator[tuple[str, bool]]:
        return _changes(self.api, _space(self.spec), kinds, change, force=True)


@dataclass(frozen=True)
class Resume:
    api: Api
    spec: WorkspaceSpec
    ensure: Ensure

    def run(self, step: str) -> StepOutcome:
        return self._workloads() if step == "workloads" else self.ensure.run(step)

    def _workloads(self) -> StepOutcome:
        confirmed = self.ensure.run("confirm")
        if not confirmed.done:
            return confirmed
        space = _space(self.spec)
        changed = [
            *_changes(self.api, space, SCALABLE, _scale_back),
            *_changes(self.api, space, _pausable(self.api), _go_on),
        ]
        return StepOutcome(done=True, detail=_summary(changed, "restarted"))


def _pausable(api: Api) -> tuple[str, ...]:
    """Those that make others first."""
    return (*training.makers(served.group_versions(api)), *PAUSABLE)


def _changes(
    api: Api, space: str, kinds: tuple[str, ...], change: Edit, *, force: bool = False
) -> Iterator[tuple[str, bool]]:
    """Name and success of each workload that had to change. One that the site refuses does not block the others.

    force: one that is changed by others each time is changed in whatever version it is."""
    for kind in kinds:
        collection = kind.format(space)
        for each in api.items(collection):
            try:
                if _change_one(api, collection, each, change, force=force):
                    yield each["metadata"]["name"], True
            except Permanent:
                yield each["metadata"]["name"], False


def _change_one(api: Api, collection: str, listed: Object, change: Edit, *, force: bool) -> bool:
    """Change exactly the version that was read, so that a tenant's concurrent change is noticed."""
    name = listed["metadata"]["name"]
    found: Object | None = listed
    for _ in range(CONFLICTS_MAX):
        wanted = change(found) if found is not None else None
        if found is None or wanted is None:
            return False
        wanted["metadata"]["resourceVersion"] = found["metadata"]["resourceVersion"]
        try:
            api.merge(f"{collection}/{name}", wanted)
        except Unavailable:
            found = next(iter(api.items(collection, fieldSelector=f"metadata.name={name}")), None)
        else:
            return True
    if not force:
        raise Unavailable(f"{name} keeps being changed by others", retry_after=1)
    wanted = change(found) if found is not None else None
    if wanted is None:
        return False
    try:
        api.merge(f"{collection}/{name}", wanted)
    except Unavailable as error:
        raise Permanent(error.message) from error
    return True


def _scale_away(found: Object) -> Object | None:
    if _is_owned(found) or not found["spec"].get("replicas"):
        return None
    size = {REPLICAS: str(found["spec"]["replicas"])}
    return {"metadata": {"annotations": size}, "spec": {"replicas": 0}}


def _scale_back(found: Object) -> Object | None:
    size = _annotation(found, REPLICAS)
    if size is None:
        return None
    change: Object = {"metadata": {"annotations": {REPLICAS: None}}}
    if not found["spec"].get("replicas") and size.isascii() and size.isdigit() and int(size) < 2**31:
        change["spec"] = {"replicas": int(size)}
    return change


def _pause(found: Object) -> Object | None:
    if found["spec"].get("suspend") or _has_finished(found) or training.is_made(found):
        return None
    return {"metadata": {"annotations": {PAUSED: now().isoformat()}}, "spec": {"suspend": True}}


def _go_on(found: Object) -> Object | None:
    if _annotation(found, PAUSED) is None:
        return None
    change: Object = {"metadata": {"annotations": {PAUSED: None}}}
    # Kueue starts what waits in its queue
    return (
        change
        if queues.LABEL in (found["metadata"].get("labels") or {})
        else {**change, "spec": {"suspend": False}}
    )


def _annotation(found: Object, key: str) -> str | None:
    value: str | None = (found["metadata"].get("annotations") or {}).get(key)
    return value


def _is_owned(found: Object) -> bool:
    """A Deployment scales its ReplicaSets itself."""
    owners: list[dict[str, Any]] = found["metadata"].get("ownerReferences") or []
    return any(owner.get("controller") and owner["kind"] == "Deployment" for owner in owners)


def _has_finished(job: Object) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or []
    return any(
        each["type"] in ("Complete", "Completed", "Failed") and each["status"] == "True"
        for each in conditions
    )


def _paused_lately(job: Object) -> bool:
    try:
        return datetime.fromisoformat(_annotation(job, PAUSED) or "") + JOB_PATIENCE > now()
    except (ValueError, TypeError):  # written by a tenant
        return False


def _summary(changed: list[tuple[str, bool]], what: str) -> str:
    refused = [name for name, fine in changed if not fine]
    count = len(changed) - len(refused)
    words = f"{count} {'workload' if count == 1 else 'workloads'} {what}"
    return f"{words}; the site refused to change {', '.join(refused)}" if refused else words


def _space(spec: WorkspaceSpec) -> str:
    return f"namespaces/{spec.external_name}"
