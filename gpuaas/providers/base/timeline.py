"""The steps of each change of a cluster, in the order that all drivers share; a driver defines their labels and objects."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator

from gpuaas.providers.base.cluster import ClusterSpec, NodePool
from gpuaas.providers.base.difference import ADDON_STEP, POOL_STEP, Difference
from gpuaas.providers.base.steps import Change, SiteObject, StepSpec, change_unknown


class ClusterTimeline(ABC):
    """The timeline of one cluster; `before`: the spec that its site confirmed last. The site is not called."""

    checks = StepSpec("checks", "Check that every machine is ready")

    def __init__(self, spec: ClusterSpec, before: ClusterSpec | None = None) -> None:
        self.spec, self.before = spec, before
        self.asked = Difference(spec, before)

    def steps(self, change: Change) -> tuple[StepSpec, ...]:
        """Raises Permanent or Invalid for what the site cannot hold."""
        pools = self.spec.pools
        match change:
            case Change.CREATE:
                return (*self.foundation(), *self.pools(change, pools), *self.addons(), self.checks)
            case Change.SCALE:
                return (*self._ground(), *self.pools(change, self.asked.other_counts()), self.checks)
            case Change.UPGRADE:
                moved = self.pools(change, self.asked.other_releases())
                return (*self._control_moves(), *moved, self.checks)
            case Change.SUSPEND:
                return tuple(self.pools(change, pools))
            case Change.RESUME:  # an upgrade that a suspension overtook goes on
                return (*self._ground(), *self._control_moves(), *self.pools(change, pools), self.checks)
            case Change.DELETE:
                return self.deletion()
        raise change_unknown(change)

    def warnings(self, change: Change) -> Iterable[str]:  # noqa: ARG002  by default there are none
        """Sentences for the person who requests the change."""
        return ()

    def ground(self) -> tuple[StepSpec, ...]:
        """Steps that create what workers need at a burst site, which has pools only."""
        return ()

    @abstractmethod
    def foundation(self) -> tuple[StepSpec, ...]:
        """Steps before the first worker."""

    @abstractmethod
    def control(self, label: str) -> StepSpec:
        """The step of the control plane, when it is made and when it is upgraded."""

    def pool_label(self, change: Change, pool: NodePool) -> str:
        if change is Change.UPGRADE:
            return f"Upgrade the pool {pool.name} to {pool.release}"
        verb = "Remove" if change is Change.SUSPEND else "Bring up"
        return f"{verb} the workers of the pool {pool.name}"

    def pool_makes(self, pool: NodePool) -> tuple[SiteObject, ...]:  # noqa: ARG002  controllers name the rest
        return ()

    def addons(self) -> tuple[StepSpec, ...]:
        return tuple(map(self.addon, self.spec.addons))

    def addon(self, name: str) -> StepSpec:
        return StepSpec(f"{ADDON_STEP}{name}", f"Install {name}", self.addon_makes(name))

    def addon_makes(self, name: str) -> tuple[SiteObject, ...]:  # noqa: ARG002  most are inside the cluster
        return ()

    @abstractmethod
    def deletion(self) -> tuple[StepSpec, ...]: ...

    def made(self, kind: str, name: str = "") -> SiteObject:
        """Named like the cluster unless `name` is given."""
        return SiteObject(kind, name or self.spec.external_name, cluster_id=self.spec.id)

    def pools(self, change: Change, pools: Iterable[NodePool]) -> Iterator[StepSpec]:
        for pool in pools:
            label = self.pool_label(change, pool)
            yield StepSpec(f"{POOL_STEP}{pool.name}", label, self.pool_makes(pool))

    def _ground(self) -> tuple[StepSpec, ...]:
        return self.ground() if self.spec.is_burst else ()

    def _control_moves(self) -> Iterator[StepSpec]:
        if self.asked.control_moves():
            yield self.control(f"Upgrade the control plane to {self.spec.release}")
