"""The steps of each change of a simulated cluster, and the objects that each of them makes."""

from collections.abc import Iterator

from gpuaas.providers.base import Change, ClusterSpec, NodePool, SiteObject, StepSpec
from gpuaas.providers.base.timeline import ClusterTimeline

NETWORK = "network"
SECURITY_GROUP = "security-group"
ADDRESS = "load-balancer"
MACHINE = "machine"
ROOM = "placement-group"
ADDON = "add-on"

DELETION = (
    StepSpec("access", "Revoke people's access"),
    StepSpec("addons", "Remove the add-ons"),
    StepSpec("workers", "Remove the workers"),
    StepSpec("control-plane", "Remove the control plane"),
    StepSpec("network", "Remove the network and the address"),
    StepSpec("gone", "Verify that nothing is left"),
)


GROUND = {"workers", "network", "gone"}  # steps of the deletion at a burst site


def control_name(spec: ClusterSpec, number: int) -> str:
    return f"{spec.external_name}-control-{number}"


def worker_name(spec: ClusterSpec, pool: NodePool, number: int) -> str:
    return f"{spec.external_name}-{pool.name}-{number}"


def room_name(spec: ClusterSpec, pool: NodePool) -> str:
    return f"{spec.external_name}-{pool.name}"


class SandboxTimeline(ClusterTimeline):
    def ground(self) -> tuple[StepSpec, ...]:
        made = (self.made(NETWORK), self.made(SECURITY_GROUP))
        return (StepSpec("network", "Create the network", made),)

    def foundation(self) -> tuple[StepSpec, ...]:
        if self.spec.is_burst:
            return self.ground()
        return (
            *self.ground(),
            StepSpec("endpoint", "Reserve the address of the API", (self.made(ADDRESS),)),
            self.control("Start the control plane"),
            StepSpec("api", "Wait until the API answers"),
        )

    def control(self, label: str) -> StepSpec:
        numbers = range(1, self.spec.control_plane.count + 1)
        machines = tuple(self.made(MACHINE, control_name(self.spec, number)) for number in numbers)
        return StepSpec("control-plane", label, machines)

    def pool_makes(self, pool: NodePool) -> tuple[SiteObject, ...]:
        numbers = range(1, pool.flavor.count + 1)
        workers = [self.made(MACHINE, worker_name(self.spec, pool, number)) for number in numbers]
        return (*([self.made(ROOM, room_name(self.spec, pool))] if workers else []), *workers)

    def addon_makes(self, name: str) -> tuple[SiteObject, ...]:
        return (self.made(ADDON, f"{self.spec.external_name}-{name}"),)

    def deletion(self) -> tuple[StepSpec, ...]:
        return tuple(step for step in DELETION if step.key in GROUND) if self.spec.is_burst else DELETION

    def warnings(self, change: Change) -> Iterator[str]:
        if change is Change.CREATE and self.spec.control_plane.count == 1:
            yield "One machine holds the control plane: while it is upgraded or broken, the API does not answer."
        if change is Change.SCALE:
            for name, going in self.asked.going().items():
                yield f"{going} of the pool {name} are drained and removed: what runs there ends."
