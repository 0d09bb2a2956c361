"""What a simulated cluster consists of, by name: the steps of each change, and what each of them makes."""

from collections.abc import Iterable

from gpuaas.providers.base import (
    ClusterChange,
    ClusterPlan,
    ClusterSpec,
    ClusterStep,
    NodePool,
    SiteObject,
)
from gpuaas.providers.base.difference import ADDON_STEP, POOL_STEP, Difference

NETWORK = "network"
SECURITY_GROUP = "security-group"
ADDRESS = "load-balancer"
MACHINE = "machine"
ROOM = "placement-group"
ADDON = "add-on"

C = ClusterChange


def plan(change: ClusterChange, spec: ClusterSpec, before: ClusterSpec | None) -> ClusterPlan:
    return ClusterPlan(_steps(change, spec, before), _warnings(change, spec, before))


def _steps(change: ClusterChange, spec: ClusterSpec, before: ClusterSpec | None) -> tuple[ClusterStep, ...]:
    ground = _ground(spec) if spec.is_burst else ()
    match change:
        case C.CREATE:
            return (*_foundation(spec), *_pools(spec.pools, spec), *_addons(spec), _checks())
        case C.SCALE:
            return (*ground, *_pools(Difference(spec, before).other_counts(), spec), _checks())
        case C.UPGRADE:
            return (*_releases(spec, before), _checks())
        case C.SUSPEND:
            return tuple(_pool(pool, spec, "Put away") for pool in spec.pools)
        case C.RESUME:
            return (*ground, *_pools(spec.pools, spec), _checks())
        case C.DELETE:
            return tuple(step for step in DELETION if step.key in GROUND) if spec.is_burst else DELETION


DELETION = (
    ClusterStep("access", "Take people's access away"),
    ClusterStep("addons", "Remove the add-ons"),
    ClusterStep("workers", "Remove the workers"),
    ClusterStep("control-plane", "Remove the control plane"),
    ClusterStep("network", "Remove the network and the address"),
    ClusterStep("gone", "Make sure that nothing is left"),
)


GROUND = {"workers", "network", "gone"}  # of the deletion, what there is at a burst site


def control_name(spec: ClusterSpec, number: int) -> str:
    return f"{spec.external_name}-control-{number}"


def worker_name(spec: ClusterSpec, pool: NodePool, number: int) -> str:
    return f"{spec.external_name}-{pool.name}-{number}"


def room_name(spec: ClusterSpec, pool: NodePool) -> str:
    return f"{spec.external_name}-{pool.name}"


def made(spec: ClusterSpec, kind: str, name: str) -> SiteObject:
    return SiteObject(kind, name, cluster_id=spec.id)


def _ground(spec: ClusterSpec) -> tuple[ClusterStep, ...]:
    """What workers stand on."""
    name = spec.external_name
    network = (made(spec, NETWORK, name), made(spec, SECURITY_GROUP, name))
    return (ClusterStep("network", "Make the network", network),)


def _foundation(spec: ClusterSpec) -> tuple[ClusterStep, ...]:
    if spec.is_burst:
        return _ground(spec)
    name = spec.external_name
    return (
        *_ground(spec),
        ClusterStep("endpoint", "Reserve the address of the API", (made(spec, ADDRESS, name),)),
        _control(spec, "Start the control plane"),
        ClusterStep("api", "Wait until the API answers"),
    )


def _control(spec: ClusterSpec, label: str) -> ClusterStep:
    numbers = range(1, spec.control_plane.count + 1)
    machines = tuple(made(spec, MACHINE, control_name(spec, number)) for number in numbers)
    return ClusterStep("control-plane", label, machines)


def _pools(pools: Iterable[NodePool], spec: ClusterSpec) -> tuple[ClusterStep, ...]:
    return tuple(_pool(pool, spec, "Bring workers of") for pool in pools)


def _pool(pool: NodePool, spec: ClusterSpec, verb: str) -> ClusterStep:
    workers = [made(spec, MACHINE, worker_name(spec, pool, each)) for each in range(1, pool.flavor.count + 1)]
    room = [made(spec, ROOM, room_name(spec, pool))] if workers else []
    return ClusterStep(f"{POOL_STEP}{pool.name}", f"{verb} the pool {pool.name}", (*room, *workers))


def _addons(spec: ClusterSpec) -> tuple[ClusterStep, ...]:
    return tuple(
        ClusterStep(
            f"{ADDON_STEP}{name}",
            f"Install {name}",
            (made(spec, ADDON, f"{spec.external_name}-{name}"),),
        )
        for name in spec.addons
    )


def _checks() -> ClusterStep:
    return ClusterStep("checks", "Check that every machine is ready")


def _releases(spec: ClusterSpec, before: ClusterSpec | None) -> tuple[ClusterStep, ...]:
    asked = Difference(spec, before)
    control = (_control(spec, f"Bring the control plane to {spec.release}"),) if asked.control_moves() else ()
    pools = (_pool(pool, spec, f"Bring to {pool.release}:") for pool in asked.other_releases())
    return (*control, *pools)


def _warnings(change: ClusterChange, spec: ClusterSpec, before: ClusterSpec | None) -> tuple[str, ...]:
    said = []
    if change is C.CREATE and spec.control_plane.count == 1:
        said.append(
            "One machine holds the control plane: while it is upgraded or broken, the API does not answer."
        )
    if change is C.SCALE:
        for name, going in Difference(spec, before).going().items():
            said.append(f"{going} of the pool {name} are drained and removed: what runs there ends.")
    return tuple(said)
