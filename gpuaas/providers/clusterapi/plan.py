"""The steps of each change, and what each of them makes by a name of ours; controllers name the rest, which the sweep finds."""

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
from gpuaas.providers.clusterapi.manifests import addon_name
from gpuaas.providers.clusterapi.settings import settings_read

ORDER, NETWORK, CONTROL, API, CHECKS = "order", "network", "control-plane", "api", "checks"
DELETION = (
    ClusterStep("access", "Take people's access away"),
    ClusterStep("workers", "Remove the workers"),
    ClusterStep("control-plane", "Remove the control plane"),
    ClusterStep("network", "Remove the network and the address"),
    ClusterStep("gone", "Make sure that nothing is left"),
)

C = ClusterChange


def plan(change: ClusterChange, spec: ClusterSpec, before: ClusterSpec | None) -> ClusterPlan:
    return ClusterPlan(_steps(change, spec, before), _warnings(change, spec, before))


def _steps(change: ClusterChange, spec: ClusterSpec, before: ClusterSpec | None) -> tuple[ClusterStep, ...]:
    match change:
        case C.CREATE:
            return (*_foundation(spec), *_pools(spec.pools), *_addons(spec), _checks())
        case C.SCALE:
            return (*_pools(Difference(spec, before).other_counts()), _checks())
        case C.UPGRADE:
            return (*_releases(spec, before), _checks())
        case C.SUSPEND:
            return _pools(spec.pools, "Put away the pool")
        case C.RESUME:
            return (*_pools(spec.pools), _checks())
        case C.DELETE:
            return DELETION


def _foundation(spec: ClusterSpec) -> tuple[ClusterStep, ...]:
    name = spec.external_name
    made = (_made(spec, "Namespace", name), _made(spec, "Cluster", name))
    return (
        ClusterStep(ORDER, "Order the cluster", made),
        ClusterStep(NETWORK, "Make the network and the address"),
        ClusterStep(CONTROL, "Start the control plane", (_made(spec, "Secret", f"{name}-kubeconfig"),)),
        ClusterStep(API, "Wait until the API answers"),
    )


def _made(spec: ClusterSpec, kind: str, name: str) -> SiteObject:
    return SiteObject(kind, name, cluster_id=spec.id)


def _pools(pools: Iterable[NodePool], label: str = "Bring workers of the pool") -> tuple[ClusterStep, ...]:
    return tuple(ClusterStep(f"{POOL_STEP}{pool.name}", f"{label} {pool.name}") for pool in pools)


def _addons(spec: ClusterSpec) -> tuple[ClusterStep, ...]:
    known = settings_read(spec.settings).addons
    steps = []
    for name in spec.addons:
        made: tuple[SiteObject, ...] = ()
        if name in known and known[name].manifests:
            kinds = ("ConfigMap", "ClusterResourceSet")
            made = tuple(_made(spec, kind, addon_name(spec, name)) for kind in kinds)
        steps.append(ClusterStep(f"{ADDON_STEP}{name}", f"Install {name}", made))
    return tuple(steps)


def _checks() -> ClusterStep:
    return ClusterStep(CHECKS, "Check that every machine is ready")


def _releases(spec: ClusterSpec, before: ClusterSpec | None) -> tuple[ClusterStep, ...]:
    """The control plane first; Cluster API sees to it that no worker is newer."""
    asked = Difference(spec, before)
    control = ClusterStep(CONTROL, f"Bring the control plane to {spec.release}")
    pools = (
        ClusterStep(f"{POOL_STEP}{pool.name}", f"Bring to {pool.release}: the pool {pool.name}")
        for pool in asked.other_releases()
    )
    return (*((control,) if asked.control_moves() else ()), *pools)


def _warnings(change: ClusterChange, spec: ClusterSpec, before: ClusterSpec | None) -> tuple[str, ...]:
    said = []
    if change is C.CREATE and spec.control_plane.count == 1:
        said.append("One machine holds the control plane: while it is broken, the API does not answer.")
    asked = Difference(spec, before)
    if change is C.SCALE:
        for name, going in asked.going().items():
            said.append(f"{going} of the pool {name} are drained and removed: what runs there ends.")
    for pool in spec.pools:
        was = asked.was(pool.name)
        if pool.release == spec.release:
            continue
        if change is C.UPGRADE and was is not None and was.release == pool.release:
            said.append(
                f"The pool {pool.name} is held back at {pool.release}: the control plane goes no further "
                "until the pool has followed."
            )
        elif change in {C.CREATE, C.UPGRADE}:
            said.append(
                f"The pool {pool.name} cannot go to {pool.release}: a cluster of this kind brings pools only to "
                f"{spec.release}, the release of its control plane, or leaves them where they are."
            )
    return tuple(said)
