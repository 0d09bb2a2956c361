"""JobSets, and TrainJobs of Kubeflow Trainer, at a site that serves them: members' own, and jobs of the portal that name a runtime,
inside what their workspace bought.

A TrainJob makes a JobSet of its name, a JobSet makes Jobs, and these make the pods.
"""

from collections.abc import Collection, Iterable

from gpuaas.providers.base import ObservedRuntime
from gpuaas.providers.kubeapi import bounds
from gpuaas.providers.kubeapi.client import Object

JOBSET_GROUP, TRAINER_GROUP = "jobset.x-k8s.io", "trainer.kubeflow.org"
JOBSET, TRAINER = f"/apis/{JOBSET_GROUP}/v1alpha2", f"/apis/{TRAINER_GROUP}/v1alpha1"
# those that make others first; with a place for the namespace
MAKERS = (f"{TRAINER}/{{}}/trainjobs", f"{JOBSET}/{{}}/jobsets")
KINDS = ("TrainJob", "JobSet")
NAME_LABEL = "jobset.sigs.k8s.io/jobset-name"
STEP = "trainer.kubeflow.org/trainjob-ancestor-step"  # a label: what of a TrainJob is said of this part of its runtime
FRAMEWORK = "trainer.kubeflow.org/framework"
NODE = "node"  # what Trainer calls the job of a program, and its container


def makers(served: Collection[str]) -> tuple[str, ...]:
    """Those that a site of these versions of groups has: of others an account of before has no rights, and is refused even so."""
    return tuple(path for path in MAKERS if path.removeprefix("/apis/").partition("/{}")[0] in served)


def unserved(served: Collection[str]) -> frozenset[str]:
    """The keys of a quota that a site of these versions of groups would never count, since it does not serve their kinds."""
    groups = {version.partition("/")[0] for version in served}
    return frozenset(
        bound.key for bound in bounds.BOUNDS if bound.only_where_served and bound.group not in groups
    )


def runtimes_of(rows: Iterable[Object]) -> tuple[ObservedRuntime, ...]:
    """Those that jobs of the portal may name, by their names."""
    found = ((row["metadata"]["name"], _framework(row)) for row in rows if is_offered(row))
    return tuple(ObservedRuntime(name, framework) for name, framework in sorted(found))


def is_offered(row: Object) -> bool:
    """Whether its pods are those of one program, one container each: an order says nothing of a launcher, an initializer or a
    container beside, which would take more of the workspace than it asks for."""
    jobs = row["spec"]["template"].get("spec", {}).get("replicatedJobs") or []
    if len(jobs) != 1:
        return False
    template = jobs[0]["template"]
    pod = template["spec"]["template"]["spec"]
    step = ((template.get("metadata") or {}).get("labels") or {}).get(STEP)
    named = [each["name"] for each in pod.get("containers") or []]
    return (step, named) == ("trainer", [NODE]) and not pod.get("initContainers")


def _framework(row: Object) -> str:
    """As its label says, or else the policy that it has."""
    policies = sorted((row["spec"].get("mlPolicy") or {}).keys() - {"numNodes"})
    return str((row["metadata"].get("labels") or {}).get(FRAMEWORK) or next(iter(policies), ""))


def is_made(found: Object) -> bool:
    """By one of them, which scales and pauses it itself."""
    owners = found["metadata"].get("ownerReferences") or []
    return any(owner.get("controller") and owner["kind"] in KINDS for owner in owners)


def set_of(meta: Object) -> str:
    """The JobSet of a pod that a Job of one has made; "" of any other. Both names are members' to choose, in their own workspace."""
    name = str((meta.get("labels") or {}).get(NAME_LABEL, ""))
    job = next((each["name"] for each in meta.get("ownerReferences") or () if each.get("controller")), "")
    return name if name and job.startswith(f"{name}-") else ""
