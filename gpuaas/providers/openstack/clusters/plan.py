"""The steps of each change of a cluster at an OpenStack site, and the objects that each of them makes.

Every name derives from the cluster's, and everything is in the cluster's own project.
"""

from collections.abc import Iterable, Iterator

from gpuaas.providers.base import Change, ClusterKind, ClusterSpec, NodePool, SiteObject, StepSpec
from gpuaas.providers.base.timeline import ClusterTimeline
from gpuaas.providers.openstack import names
from gpuaas.providers.openstack.clusters import addons

PROJECT, USER = "project", "user"
NETWORK, SUBNET, ROUTER, GROUP = "network", "subnet", "router", "security-group"
ADDRESS, SERVER = "floating-ip", "server"

DELETION = (
    StepSpec("access", "Revoke people's access and release the address"),
    StepSpec("servers", "Delete the machines"),
    StepSpec("volumes", "Delete volumes and images"),
    StepSpec("network", "Delete the network"),
    StepSpec("project", "Delete the project"),
    StepSpec("gone", "Verify that nothing is left"),
)


def control_name(spec: ClusterSpec, number: int) -> str:
    return f"{spec.external_name}-control-{number}"


def worker_name(spec: ClusterSpec, pool: NodePool, number: int) -> str:
    return f"{spec.external_name}-{pool.name}-{number}"


def is_meshed(spec: ClusterSpec) -> bool:
    """Whether each machine has an external address of its own, by which it is reached from other sites."""
    return spec.spans and spec.kind is ClusterKind.KUBERNETES


def mesh_name(spec: ClusterSpec) -> str:
    """The security group by which machines of one cluster reach each other across sites: all of them, or Slurm's head alone."""
    return f"{spec.external_name}-mesh"


def user_name(external_name: str) -> str:
    return names.user_name(external_name, names.PORTAL)


def has_mesh(spec: ClusterSpec) -> bool:
    """Whether a machine at this site is open for the tunnels of others."""
    return is_meshed(spec) or (spec.spans and not spec.is_burst)


class OpenStackTimeline(ClusterTimeline):
    def ground(self) -> tuple[StepSpec, ...]:
        spec = self.spec
        owner = (self.made(PROJECT), self.made(USER, user_name(spec.external_name)))
        network = [self.made(kind) for kind in (NETWORK, SUBNET, ROUTER)]
        network += [] if spec.is_burst else [self.made(GROUP)]
        network += [self.made(GROUP, mesh_name(spec))] if has_mesh(spec) else []
        return (
            StepSpec("project", "Create its project, with limits of exactly what was ordered", owner),
            StepSpec("network", "Create its network", tuple(network)),
        )

    def foundation(self) -> tuple[StepSpec, ...]:
        if self.spec.is_burst:
            return self.ground()
        kubernetes = self.spec.kind is ClusterKind.KUBERNETES
        waits = "Kubernetes' API answers" if kubernetes else "Slurm's controller answers"
        return (
            *self.ground(),
            StepSpec("endpoint", "Reserve its address", (self.made(ADDRESS),)),
            self.control("Start the head"),
            StepSpec("api", f"Wait until {waits}"),
        )

    def control(self, label: str) -> StepSpec:
        """The first head has the cluster's own address."""
        named = [control_name(self.spec, number) for number in range(1, self.spec.control_plane.count + 1)]
        return StepSpec("control-plane", label, (*self._addresses(named[1:]), *self._machines(named)))

    def pool_makes(self, pool: NodePool) -> tuple[SiteObject, ...]:
        named = [worker_name(self.spec, pool, number) for number in range(1, pool.flavor.count + 1)]
        return (*self._addresses(named), *self._machines(named))

    def addons(self) -> tuple[StepSpec, ...]:
        """Part of the first machine's user data, so no steps."""
        return ()

    def deletion(self) -> tuple[StepSpec, ...]:
        return DELETION

    def _machines(self, named: Iterable[str]) -> Iterable[SiteObject]:
        return (self.made(SERVER, name) for name in named)

    def _addresses(self, named: Iterable[str]) -> Iterable[SiteObject]:
        return (self.made(ADDRESS, name) for name in named if is_meshed(self.spec))

    def warnings(self, change: Change) -> Iterator[str]:
        grows = change in {Change.CREATE, Change.SCALE, Change.RESUME}
        if grows and self.spec.is_burst and self.spec.kind is ClusterKind.SLURM:
            yield "Workers at another site mount /home of the head through an encrypted tunnel, so its data can be read there."
        if grows and is_meshed(self.spec):
            machines = self.spec.control_plane.count + self.spec.workers
            yield f"Every machine gets its own external address, by which other sites reach it: {machines} in total here."
        if change is Change.CREATE:
            if self.spec.control_plane.count == 1:
                yield "One machine is the head: while it is upgraded or broken, nobody has access."
            if self.spec.kind is ClusterKind.SLURM and self.spec.control_plane.count > 1:
                yield "Slurm's controller runs on the first machine of the control plane; the others are not used."
            for name in addons.unknown(self.spec):
                yield f"The template has no manifest for the add-on {name}, so it is not installed."
        if change in {Change.SCALE, Change.SUSPEND}:
            for name, going in self.asked.going().items():
                yield f"{going} of the pool {name} are deleted: what runs there ends, and their disks are deleted too."
