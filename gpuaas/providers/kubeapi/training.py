"""JobSets, and TrainJobs of Kubeflow Trainer, at a site that serves them: members' own, inside what their workspace bought.

A TrainJob makes a JobSet of its name, a JobSet makes Jobs, and these make the pods.
"""

from collections.abc import Collection

from gpuaas.providers.kubeapi import bounds
from gpuaas.providers.kubeapi.client import Object

JOBSET_GROUP, TRAINER_GROUP = "jobset.x-k8s.io", "trainer.kubeflow.org"
JOBSET, TRAINER = f"/apis/{JOBSET_GROUP}/v1alpha2", f"/apis/{TRAINER_GROUP}/v1alpha1"
# those that make others first; with a place for the namespace
MAKERS = (f"{TRAINER}/{{}}/trainjobs", f"{JOBSET}/{{}}/jobsets")
KINDS = ("TrainJob", "JobSet")
NAME_LABEL = "jobset.sigs.k8s.io/jobset-name"


def makers(served: Collection[str]) -> tuple[str, ...]:
    """Those that a site of these versions of groups has: of others an account of before has no rights, and is refused even so."""
    return tuple(path for path in MAKERS if path.removeprefix("/apis/").partition("/{}")[0] in served)


def unserved(served: Collection[str]) -> frozenset[str]:
    """The keys of a quota that a site of these versions of groups would never count, since it does not serve their kinds."""
    groups = {version.partition("/")[0] for version in served}
    return frozenset(
        bound.key for bound in bounds.BOUNDS if bound.only_where_served and bound.group not in groups
    )


def is_made(found: Object) -> bool:
    """By one of them, which scales and pauses it itself."""
    owners = found["metadata"].get("ownerReferences") or []
    return any(owner.get("controller") and owner["kind"] in KINDS for owner in owners)


def set_of(meta: Object) -> str:
    """The JobSet of a pod that a Job of one has made; "" of any other. Both names are members' to choose, in their own workspace."""
    name = str((meta.get("labels") or {}).get(NAME_LABEL, ""))
    job = next((each["name"] for each in meta.get("ownerReferences") or () if each.get("controller")), "")
    return name if name and job.startswith(f"{name}-") else ""
