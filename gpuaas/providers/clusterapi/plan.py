"""The steps of each change, and the objects that we name ourselves; the sweep finds those that controllers name."""

from collections.abc import Iterator

from gpuaas.providers.base import Change, NodePool, SiteObject, StepSpec
from gpuaas.providers.base.timeline import ClusterTimeline
from gpuaas.providers.clusterapi.manifests import addon_name
from gpuaas.providers.clusterapi.settings import settings_read

ORDER, NETWORK, CONTROL, API, CHECKS = "order", "network", "control-plane", "api", "checks"
DELETION = (
    StepSpec("access", "Revoke people's access"),
    StepSpec("workers", "Remove the workers"),
    StepSpec("control-plane", "Remove the control plane"),
    StepSpec("network", "Remove the network and the address"),
    StepSpec("gone", "Verify that nothing is left"),
)


class ClusterApiTimeline(ClusterTimeline):
    """The control plane is upgraded first; Cluster API ensures that no worker is newer."""

    def foundation(self) -> tuple[StepSpec, ...]:
        kubeconfig = self.made("Secret", f"{self.spec.external_name}-kubeconfig")
        return (
            StepSpec(ORDER, "Order the cluster", (self.made("Namespace"), self.made("Cluster"))),
            StepSpec(NETWORK, "Create the network and the address"),
            StepSpec(CONTROL, "Start the control plane", (kubeconfig,)),
            StepSpec(API, "Wait until the API answers"),
        )

    def control(self, label: str) -> StepSpec:
        return StepSpec(CONTROL, label)

    def addon_makes(self, name: str) -> tuple[SiteObject, ...]:
        known = settings_read(self.spec.settings).addons
        if name not in known or not known[name].manifests:
            return ()
        kinds = ("ConfigMap", "ClusterResourceSet")
        return tuple(self.made(kind, addon_name(self.spec, name)) for kind in kinds)

    def deletion(self) -> tuple[StepSpec, ...]:
        return DELETION

    def warnings(self, change: Change) -> Iterator[str]:
        if change is Change.CREATE and self.spec.control_plane.count == 1:
            yield "One machine holds the control plane: while it is broken, the API does not answer."
        if change is Change.SCALE:
            for name, going in self.asked.going().items():
                yield f"{going} of the pool {name} are drained and removed: what runs there ends."
        if change is Change.UPGRADE:
            yield from self._replacements()
        for pool in self.spec.pools:
            if pool.release != self.spec.release:
                yield from self._behind(change, pool)

    def _replacements(self) -> Iterator[str]:
        control = self.spec.control_plane
        if self.asked.control_moves():
            yield (
                "The control plane has one machine more while it is upgraded, beyond what is reserved: the cloud needs "
                f"room for {control.vcpus} vCPU and {control.memory_gib} GiB, or the upgrade waits for it."
            )
        for pool in self.asked.other_releases():
            if pool.flavor.count:
                rest = "there is none meanwhile" if pool.flavor.count == 1 else "one is missing meanwhile"
                yield (
                    f"The workers of the pool {pool.name} are drained and replaced one after the other, never with more "
                    f"than are reserved: {rest}."
                )

    def _behind(self, change: Change, pool: NodePool) -> Iterator[str]:
        was = self.asked.was(pool.name)
        if change is Change.UPGRADE and was is not None and was.release == pool.release:
            yield (
                f"The pool {pool.name} stays at {pool.release}: the control plane cannot be upgraded further "
                "until the pool is."
            )
        elif change in {Change.CREATE, Change.UPGRADE}:
            yield (
                f"The pool {pool.name} cannot be set to {pool.release}: pools of such a cluster either move to "
                f"{self.spec.release}, the release of its control plane, or stay at theirs."
            )
