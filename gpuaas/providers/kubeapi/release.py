"""The steps that delete a namespace: access, then pods (when the meter stops), then the rest."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from gpuaas.core.errors import NotFound, Unauthorized, Unavailable
from gpuaas.providers.base import StepOutcome, StepSpec, WorkspaceRef, step_require
from gpuaas.providers.kubeapi import access, ending, namespaces, queues, served, training, why_terminating
from gpuaas.providers.kubeapi.client import Api, Object

STEPS = (
    StepSpec("access", "Revoke everybody's access"),
    StepSpec("pods", "Stop all pods"),
    StepSpec("namespace", "Delete the namespace"),
    StepSpec("gone", "Verify that nothing is left"),
)
# owners first: they would replace the pods that we delete
OWNERS = (
    "/apis/batch/v1/{}/cronjobs",
    "/apis/batch/v1/{}/jobs",
    "/apis/apps/v1/{}/deployments",
    "/apis/apps/v1/{}/statefulsets",
    "/apis/apps/v1/{}/daemonsets",
    "/apis/apps/v1/{}/replicasets",
    "/api/v1/{}/replicationcontrollers",
)
GRACE_SECONDS = 30
# other kinds that a tenant can write, and so block with a finalizer
HELD_UP = (
    "/api/v1/{}/configmaps",
    "/api/v1/{}/secrets",
    "/api/v1/{}/services",
    "/api/v1/{}/serviceaccounts",
    "/api/v1/{}/persistentvolumeclaims",
    "/apis/autoscaling/v2/{}/horizontalpodautoscalers",
    "/apis/policy/v1/{}/poddisruptionbudgets",
)
# the same of kinds that not every site serves, or whose right an operator may not have given yet
HELD_UP_SOMEWHERE = (
    "/apis/coordination.k8s.io/v1/{}/leases",
    "/apis/resource.k8s.io/v1/{}/resourceclaims",
    "/apis/resource.k8s.io/v1/{}/resourceclaimtemplates",
    "/apis/route.openshift.io/v1/{}/routes",
    # of jobs, which Trainer keeps while it is away, and whose webhook then refuses this until it is back or removed
    "/apis/trainer.kubeflow.org/v1alpha1/{}/trainingruntimes",
)
# finalizers that Kubernetes removes itself, by kind: on others, and under other names, they are somebody's invention
OF_GARBAGE_COLLECTOR = ("foregroundDeletion", "orphan")
OF_KUBERNETES: Mapping[str, tuple[str, ...]] = {
    "persistentvolumeclaims": (
        "kubernetes.io/pvc-protection",
        "snapshot.storage.kubernetes.io/pvc-as-source-protection",
        "provisioner.storage.kubernetes.io/cloning-protection",
    ),
    "resourceclaims": ("resource.kubernetes.io/delete-protection",),
}
LOAD_BALANCER = "service.kubernetes.io/load-balancer-cleanup"


@dataclass(frozen=True)
class Release:
    api: Api
    ref: WorkspaceRef

    def run(self, step: str) -> StepOutcome:
        steps: Mapping[str, Callable[[Object], StepOutcome]] = {
            "access": self._access,
            "pods": self._pods,
            "namespace": self._namespace,
            "gone": self._gone,
        }
        do = step_require(steps, step)
        found = self._found()
        if found is None:
            return queues.removed(self.api, self.ref)
        return do(found)

    def _found(self) -> Object | None:
        return namespaces.only_ours(self.api, self.ref.external_name, self.ref.id)

    def _access(self, _found: Object) -> StepOutcome:
        access.remove_members(self.api, self.ref.external_name)
        return StepOutcome(done=True)

    def _pods(self, _found: Object) -> StepOutcome:
        space = f"namespaces/{self.ref.external_name}"
        for owner in self._owners():
            self.api.delete(owner.format(space), propagationPolicy="Background")
        pods = f"/api/v1/{space}/pods"
        if any("deletionTimestamp" not in pod["metadata"] for pod in self.api.items(pods)):
            self.api.delete(pods, gracePeriodSeconds=str(GRACE_SECONDS))
        left = self.api.items(pods)
        for pod in left:
            ending.end(self.api, pods, pod, seconds=GRACE_SECONDS)
        if left:
            return StepOutcome(done=False, detail=ending.in_words(left))
        return StepOutcome(done=True, detail="no pod is left")

    def _owners(self) -> tuple[str, ...]:
        return (*training.makers(served.group_versions(self.api)), *OWNERS)

    def _namespace(self, found: Object) -> StepOutcome:
        """By its uid: never a new namespace of the same name."""
        if not namespaces.is_terminating(found):
            self._delete(found)
        return StepOutcome(done=True)

    def _delete(self, found: Object) -> None:
        precondition = {"preconditions": {"uid": found["metadata"]["uid"]}}
        self.api.delete(namespaces.path(self.ref.external_name), precondition)

    def _gone(self, found: Object) -> StepOutcome:
        if not namespaces.is_terminating(found):
            raise NotFound("the namespace's deletion has not been requested: that step is repeated")
        if not ending.is_overdue(found):
            return StepOutcome(done=False, detail=why_terminating.GOING)
        self._unhold()
        return StepOutcome(done=False, detail=why_terminating.explain(self.api, found))

    def _unhold(self) -> None:
        """Remove the tenant's finalizers; those of Kubernetes are left to its controllers."""
        space = f"namespaces/{self.ref.external_name}"
        for collection in (*self._owners(), *HELD_UP):
            let_go(self.api, collection.format(space), self.api.items(collection.format(space)))
        workloads = queues.workloads(self.api, self.ref.external_name)
        let_go(self.api, f"{queues.KUEUE}/{space}/workloads", workloads)
        for collection in (each.format(space) for each in HELD_UP_SOMEWHERE):
            with suppress(NotFound, Unauthorized, Unavailable):
                let_go(self.api, collection, self.api.items(collection))


def let_go(api: Api, collection: str, found: list[Object]) -> None:
    """Without finalizers but those of Kubernetes."""
    for each in found:
        held = each["metadata"].get("finalizers") or []
        own = [name for name in held if _is_of_kubernetes(name, collection.rpartition("/")[2], each)]
        if own != held:
            change = {"metadata": {"uid": each["metadata"]["uid"], "finalizers": own}}
            api.merge(f"{collection}/{each['metadata']['name']}", change)


def _is_of_kubernetes(finalizer: str, kind: str, found: Object) -> bool:
    """By kind and whole name: a tenant may write any finalizer on any object, those with Kubernetes' domain too."""
    balances = kind == "services" and found["spec"].get("type") == "LoadBalancer"
    return (
        finalizer in OF_GARBAGE_COLLECTOR
        or finalizer in OF_KUBERNETES.get(kind, ())
        or (balances and finalizer == LOAD_BALANCER)
    )
