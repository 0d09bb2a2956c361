"""Jobs that name a training runtime: a TrainJob of Kubeflow Trainer, which makes a JobSet of its name, and that the Job of its tasks.

The TrainJob is of a copy of the site's runtime that the job has for itself: nothing of a TrainJob says when its tasks end, who
starts them again or as whom they run, and its overrides are named differently in each version of Trainer. None of what it makes can carry
a label of ours, so that is found by its owners, which the guards let no member name.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from gpuaas.core import clock
from gpuaas.core.errors import Permanent
from gpuaas.core.ranges import ranges_text
from gpuaas.providers.base import JobPhase, JobSpec, ObservedJob, StepOutcome
from gpuaas.providers.kubeapi import ending, names, queues, release, training
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.providers.kubernetes import inside, tasks
from gpuaas.providers.kubernetes.attempts import condition_of
from gpuaas.providers.kubernetes.preflight.training import QUEUED, version

REFUSED = "TrainJobResourcesCreationFailed"  # the reason of Trainer's event
LATE = timedelta(minutes=1)  # after a deadline, for the site to keep it
_KEPT = ("labels", "annotations")


@dataclass(frozen=True)
class Made:
    """train: the portal's. The others: what it made, in turn; each of them may be there alone while the site removes them."""

    train: Object | None = None
    jobset: Object | None = None
    job: Object | None = None

    @property
    def attempt(self) -> int:
        labels = self.train["metadata"]["labels"] if self.train is not None else {}
        return int(labels.get(names.ATTEMPT, "1"))

    @property
    def uid(self) -> str:
        """Of the Job with the tasks, "" without one."""
        return str(self.job["metadata"]["uid"]) if self.job is not None else ""

    def newest(self) -> "Made":
        """Without what an earlier one of its name made, which the site is still removing."""
        jobset = self.jobset if _is_by(self.jobset, self.train) else None
        return Made(self.train, jobset, self.job if _is_by(self.job, jobset) else None)


def found(api: Api, spec: JobSpec) -> Made:
    """Nothing of a TrainJob or a JobSet of its name that a member has made, nor of what these make."""
    train, jobset = (api.find(_path(spec, kind)) for kind in ("TrainJob", "JobSet"))
    if train is not None and not _is_ours(train, spec):
        return Made()
    if jobset is not None and _owned(jobset, "TrainJob", spec.name) is None:
        return Made(train)
    return Made(train, jobset, _owned(api.find(_path(spec, "Job")), "JobSet", spec.name))


def name_require(api: Api, spec: JobSpec) -> None:
    """Once nothing of it is there. Raises Permanent where a member has something of its name."""
    for kind in ("TrainJob", "JobSet"):
        if api.find(_path(spec, kind)) is not None:
            raise Permanent(f"the namespace has another {kind} of the name {spec.name}: remove it there")


def start(api: Api, spec: JobSpec, *, chooses_users: bool) -> None:
    """Raises Permanent where the site has no such runtime any more."""
    all_of_site = f"{training.TRAINER}/clustertrainingruntimes"
    rows = api.items_if_known(all_of_site, fieldSelector=f"metadata.name={spec.runtime}")
    row = next(filter(training.is_offered, rows), None)
    if row is None:
        raise Permanent(f"the site offers no training runtime {spec.runtime} to jobs any more")
    runtimes = inside.path(spec.workspace, "trainingruntimes", training.TRAINER)
    inside.apply(api, runtimes, runtime_of(spec, row, chooses_users=chooses_users))
    made = trainjob_of(spec, row, chooses_users=chooses_users)
    have = version(api, "trainer-controller-manager")
    if have is not None and have >= QUEUED:  # Kueue starts none of an older one
        made["metadata"]["labels"] |= queues.labels_in(api, spec.workspace.external_name, spec.priority)
    inside.create(api, inside.path(spec.workspace, "trainjobs", training.TRAINER), made)


def end(api: Api, spec: JobSpec) -> StepOutcome:
    """The TrainJob goes first, and at once: one that waited for what it has made would make that anew."""
    made = found(api, spec)
    for kind, each in (("TrainJob", made.train), ("JobSet", made.jobset), ("Job", made.job)):
        if each is not None and ending.is_overdue(each, besides=timedelta(seconds=spec.grace_seconds)):
            release.let_go(api, _path(spec, kind).rpartition("/")[0], [each])
    if made.train is not None and "deletionTimestamp" not in made.train["metadata"]:
        uid = {"uid": made.train["metadata"]["uid"]}
        api.delete(_path(spec, "TrainJob"), {"propagationPolicy": "Background", "preconditions": uid})
    live = list(_pods(api, spec, made))
    for pod in live:
        ending.end(api, inside.path(spec.workspace, "pods"), pod, seconds=inside.grace_of(spec))
    if live:
        return StepOutcome(done=False, detail=ending.in_words(live))
    if made != Made():
        return StepOutcome(done=False, detail="the site is removing it")
    return StepOutcome(done=True, detail="nothing of it is left")


def runtime_end(api: Api, spec: JobSpec) -> None:
    """Of the copy. It holds nothing, so nobody waits until Trainer lets it go, which it does when it is there."""
    path = _copy_path(spec)
    row = api.find(path)
    if row is not None and _is_ours(row, spec) and "deletionTimestamp" not in row["metadata"]:
        api.delete(path, {"preconditions": {"uid": row["metadata"]["uid"]}})


def runtime_leaves(api: Api, spec: JobSpec) -> str:
    """Why none can be made yet, in words: that of a guest which was here before would be gone under the next TrainJob."""
    row = api.find(_copy_path(spec))
    leaves = row is not None and "deletionTimestamp" in row["metadata"]
    return "the site is still deleting the training runtime of its last stay" if leaves else ""


def ended(train: Object, spec: JobSpec) -> ObservedJob | None:
    """By its own word, where nothing is left of what it made."""
    if condition_of(train, "Complete"):
        everyone = ranges_text(range(spec.tasks))
        return ObservedJob(JobPhase.SUCCEEDED, attempt=spec.attempt, exit_code=0, succeeded=everyone)
    if condition := condition_of(train, "Failed"):
        words, reason = str(condition.get("message", ""))[:300], str(condition.get("reason", ""))
        return ObservedJob(JobPhase.FAILED, words, reason, attempt=spec.attempt)
    return None


def is_late(spec: JobSpec) -> bool:
    """The site's clock began anew where a member has removed what Trainer made."""
    if spec.deadline_seconds is None or spec.since is None:
        return False
    return clock.now() > spec.since + timedelta(seconds=spec.deadline_seconds) + LATE


# -- manifests -----------------------------------------------------------------------------------------------------


def runtime_of(spec: JobSpec, row: Object, *, chooses_users: bool) -> Object:
    """The site's runtime with one job, which the site ends as it ends any other of the portal's: at its deadline, and at the first
    failure. Its pods are those of other jobs, in what the runtime has besides."""
    template = row["spec"]["template"]
    (only,) = template["spec"]["replicatedJobs"]
    theirs, meta = only["template"]["spec"]["template"], template.get("metadata") or {}
    seconds = tasks.seconds_of(spec)
    body = {
        **tasks.fields_of(spec),
        "podReplacementPolicy": "Failed",
        "template": {**_meta_of(theirs), "spec": _pod_of(spec, theirs["spec"], chooses_users=chooses_users)},
        **({"activeDeadlineSeconds": seconds} if seconds else {}),
    }
    step = {
        "name": training.NODE,
        "replicas": 1,
        "template": {**_meta_of(only["template"]), "spec": body},
    }
    made = {**_meta_of({"metadata": meta}), "spec": {"replicatedJobs": [step]}}
    return _object(spec, "TrainingRuntime", {**row["spec"], "template": made})


def _pod_of(spec: JobSpec, theirs: Object, *, chooses_users: bool) -> Object:
    """What is the TrainJob's to say is left to it."""
    ours = inside.job_pod(spec, training.NODE, chooses_users=chooses_users)
    container = theirs["containers"][0]
    own = {name: ours["containers"][0][name] for name in ("securityContext", "volumeMounts")}
    taken = {each["mountPath"] for each in own["volumeMounts"]}
    beside = [each for each in container.get("volumeMounts") or [] if each["mountPath"] not in taken]
    known = {each["name"] for each in ours["volumes"]}
    volumes = [each for each in theirs.get("volumes") or [] if each["name"] not in known]
    container = {**container, **own, "volumeMounts": [*beside, *own["volumeMounts"]]}
    return {**theirs, **ours, "containers": [container], "volumes": [*volumes, *ours["volumes"]]}


def trainjob_of(spec: JobSpec, row: Object, *, chooses_users: bool) -> Object:
    """Of the copy; without a command it runs the runtime's."""
    (container,) = inside.job_pod(spec, training.NODE, chooses_users=chooses_users)["containers"]
    own = set(spec.variables)
    given = [each for each in tasks.variables_of(spec) if each["name"] not in own]
    torch = (row["spec"].get("mlPolicy") or {}).get("torch")
    automatic = torch is not None and torch.get("numProcPerNode", "auto") == "auto"
    trainer = {
        "image": spec.image,
        "numNodes": spec.tasks,
        "resourcesPerNode": container["resources"],
        # theirs come first, so that the order's can refer to them
        "env": [*given, *container["env"]],
        **{name: container[name] for name in ("command", "args") if name in container},
        # Trainer itself would count the vCPUs where the name of a GPU is none that it knows
        **({"numProcPerNode": max(spec.gpus, 1)} if automatic else {}),
    }
    ref = {"apiGroup": training.TRAINER_GROUP, "kind": "TrainingRuntime", "name": spec.name}
    made = _object(spec, "TrainJob", {"runtimeRef": ref, "trainer": trainer})
    made["metadata"]["labels"][names.ATTEMPT] = str(spec.attempt)
    return made


def _object(spec: JobSpec, kind: str, body: Object) -> Object:
    return inside.object_of(spec, names.JOB, f"{training.TRAINER_GROUP}/v1alpha1", kind, body)


def _meta_of(template: Object) -> Object:
    meta = template.get("metadata") or {}
    kept = {name: meta[name] for name in _KEPT if meta.get(name)}
    return {"metadata": kept} if kept else {}


# -- whose it is ---------------------------------------------------------------------------------------------------


def _path(spec: JobSpec, kind: str) -> str:
    plural, group, name = {
        "TrainJob": ("trainjobs", training.TRAINER, spec.name),
        "JobSet": ("jobsets", training.JOBSET, spec.name),
        "Job": ("jobs", "/apis/batch/v1", tasks.job_name(spec)),
    }[kind]
    return f"{inside.path(spec.workspace, plural, group)}/{name}"


def _copy_path(spec: JobSpec) -> str:
    return f"{inside.path(spec.workspace, 'trainingruntimes', training.TRAINER)}/{spec.name}"


def _is_ours(row: Object, spec: JobSpec) -> bool:
    return bool((row["metadata"].get("labels") or {}).get(names.JOB) == str(spec.id))


def _controller(row: Object) -> Object:
    owners = row["metadata"].get("ownerReferences") or []
    return next((each for each in owners if each.get("controller")), {})


def _owned(row: Object | None, kind: str, name: str) -> Object | None:
    """By any one of that name, also one that is gone."""
    owner = _controller(row) if row is not None else {}
    return row if (owner.get("kind"), owner.get("name")) == (kind, name) else None


def _is_by(row: Object | None, owner: Object | None) -> bool:
    return row is not None and owner is not None and _controller(row)["uid"] == owner["metadata"]["uid"]


def _pods(api: Api, spec: JobSpec, made: Made) -> Iterator[Object]:
    """Of its Job, also of one that is gone; none of a Job of that name which is not its. Their labels are members' to change."""
    job, name = None if made.job is not None else api.find(_path(spec, "Job")), tasks.job_name(spec)
    theirs = job["metadata"]["uid"] if job is not None else ""
    for pod in api.items(inside.path(spec.workspace, "pods")):
        if _owned(pod, "Job", name) is not None and _controller(pod)["uid"] != theirs:
            yield pod
