"""The steps of each change of a bare-metal cluster, and the objects that each of them makes at the hub."""

import uuid
from collections.abc import Iterable, Iterator

from gpuaas.core.errors import Permanent
from gpuaas.core.ids import short
from gpuaas.providers.base import Change, ClusterSpec, NodePool, SiteObject, StepSpec
from gpuaas.providers.base.difference import ADDON_STEP
from gpuaas.providers.base.timeline import ClusterTimeline

IMAGE_SET, DEPLOYMENT, INSTALL = "ClusterImageSet", "ClusterDeployment", "AgentClusterInstall"
INFRA_ENV, NETWORK, MACHINE = "InfraEnv", "NMStateConfig", "BareMetalHost"
CONFIG_MAP = "ConfigMap"
HOST = "Host"  # a row of our inventory
CONTROL = "control"
DELETION = (
    StepSpec("definition", "End the cluster at the hub"),
    StepSpec("workers", "Wipe the workers and return them"),
    StepSpec("control-plane", "Wipe the control plane and return it"),
    StepSpec("artifacts", "Remove images, network settings and artifacts"),
    StepSpec("gone", "Verify that nothing is left"),
)


def slots(pool: NodePool) -> list[str]:
    return [f"{pool.name}-{number}" for number in range(1, pool.flavor.count + 1)]


def control_slots(spec: ClusterSpec) -> list[str]:
    return [f"{CONTROL}.{number}" for number in range(1, spec.control_plane.count + 1)]


def machine_name(spec: ClusterSpec, slot: str) -> str:
    return f"{spec.external_name}-{slot}"


def host_object(cluster_id: uuid.UUID, slot: str, uid: uuid.UUID | None = None) -> SiteObject:
    """A host that a cluster holds, by the cluster's slot: which host it is becomes known when it is bound."""
    return SiteObject(HOST, f"{short(cluster_id)}-{slot}", str(uid or ""), cluster_id)


def addon_name(spec: ClusterSpec, addon: str) -> str:
    return f"{spec.external_name}-addon-{addon}"


def artifacts_name(spec: ClusterSpec) -> str:
    return f"{spec.external_name}-artifacts"


class BareMetalTimeline(ClusterTimeline):
    """Add-on manifests are uploaded before the cluster is defined: the hub reads them when it installs."""

    def steps(self, change: Change) -> tuple[StepSpec, ...]:
        match change:
            case Change.CREATE:
                pools = self.pools(change, self.spec.pools)
                install = StepSpec("install", "Install the cluster")
                return (*self.addons(), *self.foundation(), *pools, self._artifacts(), install, self.checks)
            case Change.SCALE:
                return (*self.pools(change, self.asked.other_counts()), self._artifacts(), self.checks)
            case Change.DELETE:
                return DELETION
        raise Permanent(
            f"bare-metal clusters do not support {change}",
            detail={
                "next": "Use the cluster's own tools for upgrades (oc adm upgrade); scale it down instead of suspending it."
            },
        )

    def foundation(self) -> tuple[StepSpec, ...]:
        made = tuple(map(self.made, (IMAGE_SET, DEPLOYMENT, INSTALL, INFRA_ENV)))
        return (
            StepSpec("definition", "Define the cluster at the hub and create its boot image", made),
            self.control("Bind and boot the hosts of the control plane"),
        )

    def control(self, label: str) -> StepSpec:
        return StepSpec("control-plane", label, self._machines(control_slots(self.spec)))

    def pool_label(self, change: Change, pool: NodePool) -> str:
        if change is Change.SCALE and (gone := self.asked.going().get(pool.name)):
            return f"Drain {gone} of the pool {pool.name}, wipe them and return them"
        return f"Bind and boot the hosts of the pool {pool.name}"

    def pool_makes(self, pool: NodePool) -> tuple[SiteObject, ...]:
        return self._machines(slots(pool))

    def addon(self, name: str) -> StepSpec:
        made = (self.made(CONFIG_MAP, addon_name(self.spec, name)),)
        return StepSpec(f"{ADDON_STEP}{name}", f"Upload the manifests of {name}", made)

    def deletion(self) -> tuple[StepSpec, ...]:
        return DELETION

    def warnings(self, change: Change) -> Iterator[str]:
        if change is Change.CREATE:
            yield "Machines are installed from scratch: this takes an hour or more."
        if change is Change.CREATE and self.spec.control_plane.count == 1:
            yield "One machine holds the control plane: while it is broken, the API does not answer."
        if change is Change.SCALE:
            for name, going in self.asked.going().items():
                yield (
                    f"{going} of the pool {name} are drained and wiped: work that is not moved in time ends, "
                    "and their data is lost."
                )

    def _machines(self, wanted: Iterable[str]) -> tuple[SiteObject, ...]:
        return tuple(
            made
            for slot in wanted
            for made in (
                host_object(self.spec.id, slot),
                *(self.made(kind, machine_name(self.spec, slot)) for kind in (NETWORK, MACHINE)),
            )
        )

    def _artifacts(self) -> StepSpec:
        made = (self.made(CONFIG_MAP, artifacts_name(self.spec)),)
        return StepSpec("artifacts", "Write install-config and agent-config", made)
