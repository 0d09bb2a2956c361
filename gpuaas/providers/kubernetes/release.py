"""The steps that take a namespace away: people, then pods (that is when the meter stops), then the rest."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gpuaas.core.errors import NotFound, Permanent
from gpuaas.providers.base import StepOutcome, StepSpec, WorkspaceRef
from gpuaas.providers.kubernetes import access, ending, namespaces, stuck
from gpuaas.providers.kubernetes.client import Api, Object

STEPS = (
    StepSpec("access", "End everybody's access"),
    StepSpec("pods", "Stop all pods"),
    StepSpec("namespace", "Delete the namespace"),
    StepSpec("gone", "Prove that nothing is left"),
)
# owners first: each of them would replace the pods that we delete
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
# what else a tenant can write, and so hold up by a finalizer
HELD_UP = (
    "/api/v1/{}/configmaps",
    "/api/v1/{}/secrets",
    "/api/v1/{}/services",
    "/api/v1/{}/persistentvolumeclaims",
    "/apis/autoscaling/v2/{}/horizontalpodautoscalers",
    "/apis/policy/v1/{}/poddisruptionbudgets",
)


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
        if step not in steps:
            raise Permanent(f"the Kubernetes driver has no step {step!r}")
        found = self._found()
        if found is None:
            return StepOutcome(done=True, detail="nothing is left of it at the site")
        return steps[step](found)

    def _found(self) -> Object | None:
        return namespaces.only_ours(self.api, self.ref.external_name, self.ref.id)

    def _access(self, _found: Object) -> StepOutcome:
        access.remove_members(self.api, self.ref.external_name)
        return StepOutcome(done=True)

    def _pods(self, _found: Object) -> StepOutcome:
        space = f"namespaces/{self.ref.external_name}"
        for owner in OWNERS:
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

    def _namespace(self, found: Object) -> StepOutcome:
        """By its uid: never one that somebody made anew under the same name."""
        if not namespaces.is_terminating(found):
            self._delete(found)
        return StepOutcome(done=True)

    def _delete(self, found: Object) -> None:
        precondition = {"preconditions": {"uid": found["metadata"]["uid"]}}
        self.api.delete(namespaces.path(self.ref.external_name), precondition)

    def _gone(self, found: Object) -> StepOutcome:
        if not namespaces.is_terminating(found):
            raise NotFound("nobody has asked the site to delete the namespace: do that step again")
        if not ending.is_overdue(found):
            return StepOutcome(done=False, detail=stuck.GOING)
        self._unhold()
        return StepOutcome(done=False, detail=stuck.explain(self.api, found))

    def _unhold(self) -> None:
        """Finalizers of the tenant's own making; those of Kubernetes' parts are theirs to take off."""
        space = f"namespaces/{self.ref.external_name}"
        for collection in (*OWNERS, *HELD_UP):
            for each in self.api.items(collection.format(space)):
                held = each["metadata"].get("finalizers") or []
                kept = [name for name in held if _is_of_kubernetes(name)]
                if kept != held:
                    change = {"metadata": {"uid": each["metadata"]["uid"], "finalizers": kept}}
                    self.api.merge(f"{collection.format(space)}/{each['metadata']['name']}", change)


def _is_of_kubernetes(finalizer: str) -> bool:
    domain = finalizer.split("/", 1)[0]
    return f".{domain}".endswith(".kubernetes.io") or finalizer in ("foregroundDeletion", "orphan")
