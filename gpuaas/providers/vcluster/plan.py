"""The steps of each change of a virtual cluster, and the objects that each of them makes."""

from collections.abc import Iterable, Iterator

from gpuaas.core.errors import Permanent
from gpuaas.providers.base import Change, NodePool, SiteObject, StepSpec
from gpuaas.providers.base.timeline import ClusterTimeline
from gpuaas.providers.kubeapi import manifests as workspace
from gpuaas.providers.vcluster import manifests, names
from gpuaas.providers.vcluster.settings import settings_read
from gpuaas.providers.vcluster.tenancy import space_of

SPACE, QUOTA, GUARDS, CONTROL, API, CHECKS = "space", "quota", "guards", "control-plane", "api", "checks"
SHARES, STOP = "shares", "stop"
DELETION = (
    StepSpec("access", "Revoke people's and the syncer's access"),
    StepSpec("pods", "Stop all pods"),
    StepSpec("namespace", "Delete the namespace"),
    StepSpec("gone", "Verify that nothing is left"),
)
SUSPENSION = (
    StepSpec(SHARES, "Remove the pools' shares of the quota"),
    StepSpec(STOP, "Stop all pods"),
)
POOL_VERBS = {
    Change.CREATE: "Grant the quota of",
    Change.SCALE: "Resize the quota of",
    Change.UPGRADE: "Record the release of",
    Change.RESUME: "Grant again the quota of",
}


class VirtualTimeline(ClusterTimeline):
    """Objects of add-ons are inside the virtual cluster, and are deleted with it."""

    checks = StepSpec(CHECKS, "Check that the quota matches the order")

    def steps(self, change: Change) -> tuple[StepSpec, ...]:
        """Raises Permanent for what one namespace cannot hold, already when the cluster is ordered."""
        if self.spec.control_plane.count != 1:
            raise Permanent(
                "a virtual cluster has one control plane, with its data on one volume: order it with a count of 1"
            )
        workspace.scheduling(space_of(self.spec))
        return SUSPENSION if change is Change.SUSPEND else super().steps(change)

    def foundation(self) -> tuple[StepSpec, ...]:
        spec, name, space = self.spec, self.spec.external_name, space_of(self.spec)
        guarded = [("ResourceQuota", "gpuaas"), ("LimitRange", "gpuaas")]
        guarded += [("NetworkPolicy", each["metadata"]["name"]) for each in workspace.network_policies(space)]
        control = [
            (body["kind"], body["metadata"]["name"])
            for _, body in manifests.objects(spec, settings_read(spec.settings), [])
        ]
        theirs = [("PersistentVolumeClaim", names.volume(name)), ("Secret", names.kubeconfig_secret(name))]
        named = self.made("Namespace", space.external_name)
        return (
            StepSpec(SPACE, "Create the namespace on its node pools", (named,)),
            StepSpec(QUOTA, "Write quota, limits and network rules", self._all(guarded)),
            StepSpec(GUARDS, "Wait until guardrails and quota are enforced"),
            StepSpec(CONTROL, "Start the control plane", self._all([*control, *theirs])),
            StepSpec(API, "Wait until the API answers"),
        )

    def _all(self, named: Iterable[tuple[str, str]]) -> tuple[SiteObject, ...]:
        return tuple(self.made(kind, name) for kind, name in named)

    def control(self, label: str) -> StepSpec:
        return StepSpec(CONTROL, label)

    def pool_label(self, change: Change, pool: NodePool) -> str:
        return f"{POOL_VERBS[change]} the pool {pool.name}"

    def deletion(self) -> tuple[StepSpec, ...]:
        return DELETION

    def warnings(self, change: Change) -> Iterator[str]:
        if change is Change.CREATE:
            yield (
                "The control plane is one pod with its data on one volume: while it restarts, the API does not answer; "
                "pods keep running."
            )
        if change is Change.SCALE:
            for name, going in self.asked.going().items():
                yield (
                    f"{going} workers of the pool {name} are removed: the newest pods that no longer fit are ended."
                )
        if change is Change.UPGRADE and self.before is not None and self.before.release != self.spec.release:
            yield (
                "The API does not answer while the control plane restarts; pods keep running on their nodes."
            )
        if change is Change.SUSPEND:
            yield (
                "All pods but the control plane's are ended; those with a controller come back when the cluster is resumed."
            )
