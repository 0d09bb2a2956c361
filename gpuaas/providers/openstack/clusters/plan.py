"""What a cluster at an OpenStack site consists of, by name: the steps of each change, and what each of them makes.

Every name follows from the cluster's own, and everything is in a project of the cluster's own.
"""

from collections.abc import Iterable

from gpuaas.providers.base import (
    ClusterChange,
    ClusterKind,
    ClusterPlan,
    ClusterSpec,
    ClusterStep,
    NodePool,
    SiteObject,
)
from gpuaas.providers.base.difference import POOL_STEP, Difference
from gpuaas.providers.openstack import names
from gpuaas.providers.openstack.clusters import addons

PROJECT, USER = "project", "user"
NETWORK, SUBNET, ROUTER, GROUP = "network", "subnet", "router", "security-group"
ADDRESS, SERVER = "floating-ip", "server"

C = ClusterChange

DELETION = (
    ClusterStep("access", "Take people's access and the address away"),
    ClusterStep("servers", "Delete the machines"),
    ClusterStep("volumes", "Delete volumes and images"),
    ClusterStep("network", "Delete the network"),
    ClusterStep("project", "Delete the project"),
    ClusterStep("gone", "Prove that nothing is left"),
)


def plan(change: ClusterChange, spec: ClusterSpec, before: ClusterSpec | None) -> ClusterPlan:
    return ClusterPlan(_steps(change, spec, before), tuple(_warnings(change, spec, before)))


def control_name(spec: ClusterSpec, number: int) -> str:
    return f"{spec.external_name}-control-{number}"


def worker_name(spec: ClusterSpec, pool: NodePool, number: int) -> str:
    return f"{spec.external_name}-{pool.name}-{number}"


def mesh_name(spec: ClusterSpec) -> str:
    """Of the security group by which machines of one cluster reach each other from site to site."""
    return f"{spec.external_name}-mesh"


def user_name(external_name: str) -> str:
    return names.user_name(external_name, names.PORTAL)


def _steps(change: ClusterChange, spec: ClusterSpec, before: ClusterSpec | None) -> tuple[ClusterStep, ...]:
    ground = _ground(spec) if spec.is_burst else ()
    match change:
        case C.CREATE:
            return (*_foundation(spec), *_pools(spec.pools, spec), _checks())
        case C.SCALE:
            return (*ground, *_pools(Difference(spec, before).other_counts(), spec), _checks())
        case C.UPGRADE:
            return (*_releases(spec, before), _checks())
        case C.SUSPEND:
            return tuple(_pool(pool, spec, "Put away") for pool in spec.pools)
        case C.RESUME:
            return (*ground, *_pools(spec.pools, spec), _checks())
        case C.DELETE:
            return DELETION


def _made(spec: ClusterSpec, kind: str, name: str = "") -> SiteObject:
    return SiteObject(kind, name or spec.external_name, cluster_id=spec.id)


def _ground(spec: ClusterSpec) -> tuple[ClusterStep, ...]:
    """What machines stand on."""
    owner = (_made(spec, PROJECT), _made(spec, USER, user_name(spec.external_name)))
    network = [_made(spec, kind) for kind in (NETWORK, SUBNET, ROUTER)]
    network += [] if spec.is_burst else [_made(spec, GROUP)]
    network += [_made(spec, GROUP, mesh_name(spec))] if spec.spans else []
    return (
        ClusterStep("project", "Make its project, with limits of exactly what was ordered", owner),
        ClusterStep("network", "Make its network", tuple(network)),
    )


def _foundation(spec: ClusterSpec) -> tuple[ClusterStep, ...]:
    if spec.is_burst:
        return _ground(spec)
    waits = "Kubernetes' API answers" if spec.kind is ClusterKind.KUBERNETES else "Slurm's controller answers"
    return (
        *_ground(spec),
        ClusterStep("endpoint", "Reserve its address", (_made(spec, ADDRESS),)),
        _control(spec, "Start the head"),
        ClusterStep("api", f"Wait until {waits}"),
    )


def _control(spec: ClusterSpec, label: str) -> ClusterStep:
    named = [control_name(spec, number) for number in range(1, spec.control_plane.count + 1)]
    return ClusterStep("control-plane", label, (*_addresses(spec, named[1:]), *_machines(spec, named)))


def _machines(spec: ClusterSpec, named: Iterable[str]) -> Iterable[SiteObject]:
    return (_made(spec, SERVER, name) for name in named)


def _addresses(spec: ClusterSpec, named: Iterable[str]) -> Iterable[SiteObject]:
    """The first head has the cluster's own."""
    return (_made(spec, ADDRESS, name) for name in named if spec.spans)


def _pools(pools: Iterable[NodePool], spec: ClusterSpec) -> tuple[ClusterStep, ...]:
    return tuple(_pool(pool, spec, "Bring workers of") for pool in pools)


def _pool(pool: NodePool, spec: ClusterSpec, verb: str) -> ClusterStep:
    named = [worker_name(spec, pool, number) for number in range(1, pool.flavor.count + 1)]
    made = (*_addresses(spec, named), *_machines(spec, named))
    return ClusterStep(f"{POOL_STEP}{pool.name}", f"{verb} the pool {pool.name}", made)


def _checks() -> ClusterStep:
    return ClusterStep("checks", "Check that every machine is ready")


def _releases(spec: ClusterSpec, before: ClusterSpec | None) -> tuple[ClusterStep, ...]:
    asked = Difference(spec, before)
    control = (_control(spec, f"Bring the control plane to {spec.release}"),) if asked.control_moves() else ()
    pools = (_pool(pool, spec, f"Bring to {pool.release}:") for pool in asked.other_releases())
    return (*control, *pools)


def _warnings(change: ClusterChange, spec: ClusterSpec, before: ClusterSpec | None) -> Iterable[str]:
    if change in {C.CREATE, C.SCALE, C.RESUME} and spec.spans:
        machines = spec.control_plane.count + spec.workers
        yield f"Every machine has an address of its own outside, by which other sites reach it: {machines} in all here."
    if change is C.CREATE:
        if spec.control_plane.count == 1:
            yield "One machine is the head: while it is upgraded or broken, nobody gets in."
        if spec.kind is ClusterKind.SLURM and spec.control_plane.count > 1:
            yield "Slurm's controller runs on the first machine of the control plane; the others only hold their place."
        for name in addons.unknown(spec):
            yield f"The template has no manifest for the add-on {name}, so nothing is installed for it."
    if change in {C.SCALE, C.SUSPEND}:
        for name, going in Difference(spec, before).going().items():
            yield f"{going} of the pool {name} are deleted: what runs there ends, and their disks go."
