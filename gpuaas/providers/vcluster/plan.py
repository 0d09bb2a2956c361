"""The steps of each change and what each of them makes, from the specs alone."""

from collections.abc import Iterable

from gpuaas.core.errors import Permanent
from gpuaas.providers.base import ClusterChange, ClusterPlan, ClusterSpec, ClusterStep, NodePool, SiteObject
from gpuaas.providers.base.difference import ADDON_STEP, POOL_STEP, Difference
from gpuaas.providers.kubernetes import manifests as workspace
from gpuaas.providers.vcluster import manifests, names
from gpuaas.providers.vcluster.settings import settings_read
from gpuaas.providers.vcluster.tenancy import space_of

SPACE, QUOTA, GUARDS, CONTROL, API, CHECKS = "space", "quota", "guards", "control-plane", "api", "checks"
SHARES, STOP = "shares", "stop"
DELETION = (
    ClusterStep("access", "Take people's and the syncer's access away"),
    ClusterStep("pods", "Stop all pods"),
    ClusterStep("namespace", "Delete the namespace"),
    ClusterStep("gone", "Make sure that nothing is left"),
)
C = ClusterChange


def plan(change: ClusterChange, spec: ClusterSpec, before: ClusterSpec | None) -> ClusterPlan:
    """Raises Permanent for what one namespace cannot hold: it is said when the cluster is ordered."""
    if spec.control_plane.count != 1:
        raise Permanent(
            "a virtual cluster has one control plane, with its data on one volume: order it with 1"
        )
    workspace.scheduling(space_of(spec))
    return ClusterPlan(_steps(change, spec, before), _warnings(change, spec, before))


def _steps(change: ClusterChange, spec: ClusterSpec, before: ClusterSpec | None) -> tuple[ClusterStep, ...]:
    match change:
        case C.CREATE:
            return (*_foundation(spec), *_pools(spec.pools, "Grant the pool"), *_addons(spec), _checks())
        case C.SCALE:
            return (
                *_pools(Difference(spec, before).other_counts(), "Bring to its size: the pool"),
                _checks(),
            )
        case C.UPGRADE:
            return (*_releases(spec, before), _checks())
        case C.SUSPEND:
            return (
                ClusterStep(SHARES, "Take the pools' shares of the quota back"),
                ClusterStep(STOP, "Stop what runs"),
            )
        case C.RESUME:
            return (*_pools(spec.pools, "Grant again: the pool"), _checks())
        case C.DELETE:
            return DELETION


def _foundation(spec: ClusterSpec) -> tuple[ClusterStep, ...]:
    name, space = spec.external_name, space_of(spec)
    guarded = [("ResourceQuota", "gpuaas"), ("LimitRange", "gpuaas")]
    guarded += [("NetworkPolicy", each["metadata"]["name"]) for each in workspace.network_policies(space)]
    control = [
        (body["kind"], body["metadata"]["name"])
        for _, body in manifests.objects(spec, settings_read(spec.settings), [])
    ]
    theirs = [("PersistentVolumeClaim", names.volume(name)), ("Secret", names.kubeconfig_secret(name))]
    return (
        ClusterStep(
            SPACE, "Create the namespace on its nodes", _made(spec, [("Namespace", space.external_name)])
        ),
        ClusterStep(QUOTA, "Write quota, limits and network rules", _made(spec, guarded)),
        ClusterStep(GUARDS, "Wait until guard rails and quota are enforced"),
        ClusterStep(CONTROL, "Start the control plane", _made(spec, [*control, *theirs])),
        ClusterStep(API, "Wait until the API answers"),
    )


def _made(spec: ClusterSpec, made: Iterable[tuple[str, str]]) -> tuple[SiteObject, ...]:
    return tuple(SiteObject(kind, name, cluster_id=spec.id) for kind, name in made)


def _pools(pools: Iterable[NodePool], label: str) -> tuple[ClusterStep, ...]:
    return tuple(ClusterStep(f"{POOL_STEP}{pool.name}", f"{label} {pool.name}") for pool in pools)


def _addons(spec: ClusterSpec) -> tuple[ClusterStep, ...]:
    """What they make is inside of the virtual cluster, and goes with it."""
    return tuple(ClusterStep(f"{ADDON_STEP}{name}", f"Install {name}") for name in spec.addons)


def _checks() -> ClusterStep:
    return ClusterStep(CHECKS, "Check that the quota gives what was ordered")


def _releases(spec: ClusterSpec, before: ClusterSpec | None) -> tuple[ClusterStep, ...]:
    asked = Difference(spec, before)
    control = ClusterStep(CONTROL, f"Bring the control plane to {spec.release}")
    moved = (control,) if asked.control_moves() else ()
    return (*moved, *_pools(asked.other_releases(), "Note the release of the pool"))


def _warnings(change: ClusterChange, spec: ClusterSpec, before: ClusterSpec | None) -> tuple[str, ...]:
    said = []
    if change is C.CREATE:
        said.append(
            "The control plane is one pod with its data on one volume: while it restarts, the API does not answer; "
            "what runs goes on."
        )
    if change is C.SCALE:
        for name, going in Difference(spec, before).going().items():
            said.append(
                f"{going} of the pool {name} are taken back: the newest pods that no longer fit are ended."
            )
    if change is C.UPGRADE and before is not None and before.release != spec.release:
        said.append(
            "The API does not answer while the control plane restarts; pods keep their nodes and go on."
        )
    if change is C.SUSPEND:
        said.append("Every pod but the control plane's is ended; what has a controller comes back on waking.")
    return tuple(said)
