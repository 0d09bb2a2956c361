"""What a cluster of bare metal consists of, by name: the steps of each change, and what each of them makes at the hub."""

import uuid
from collections.abc import Iterable, Mapping

from gpuaas.core.errors import Permanent
from gpuaas.core.ids import short
from gpuaas.providers.base import (
    ClusterChange,
    ClusterPlan,
    ClusterSpec,
    ClusterStep,
    NodePool,
    SiteObject,
)
from gpuaas.providers.base.difference import ADDON_STEP, POOL_STEP, Difference

IMAGE_SET, DEPLOYMENT, INSTALL = "ClusterImageSet", "ClusterDeployment", "AgentClusterInstall"
INFRA_ENV, NETWORK, MACHINE = "InfraEnv", "NMStateConfig", "BareMetalHost"
CONFIG_MAP = "ConfigMap"
HOST = "Host"  # a row of our inventory
CONTROL = "control"
DELETION = (
    ClusterStep("definition", "End the cluster at the hub"),
    ClusterStep("workers", "Wipe the workers and give them back"),
    ClusterStep("control-plane", "Wipe the control plane and give it back"),
    ClusterStep("artifacts", "Remove images, network settings and artifacts"),
    ClusterStep("gone", "Make sure that nothing is left"),
)

C = ClusterChange


def plan(change: ClusterChange, spec: ClusterSpec, before: ClusterSpec | None) -> ClusterPlan:
    return ClusterPlan(_steps(change, spec, before), _warnings(change, spec, before))


def _steps(change: ClusterChange, spec: ClusterSpec, before: ClusterSpec | None) -> tuple[ClusterStep, ...]:
    match change:
        case C.CREATE:
            return (
                *_addons(spec),
                _definition(spec),
                _control(spec),
                *_pools(spec.pools, spec),
                _artifacts(spec),
                ClusterStep("install", "Install the cluster"),
                ClusterStep("checks", "Check that every machine is ready"),
            )
        case C.SCALE:
            return (
                *_pools(Difference(spec, before).other_counts(), spec, Difference(spec, before).going()),
                _artifacts(spec),
                ClusterStep("checks", "Check that every machine is ready"),
            )
        case C.DELETE:
            return DELETION
    raise Permanent(
        f"clusters of bare metal have no {change}",
        detail={
            "next": "Use the cluster's own tools for upgrades (oc adm upgrade); scale it down instead of suspending it."
        },
    )


def slots(pool: NodePool) -> list[str]:
    return [f"{pool.name}-{number}" for number in range(1, pool.flavor.count + 1)]


def control_slots(spec: ClusterSpec) -> list[str]:
    return [f"{CONTROL}.{number}" for number in range(1, spec.control_plane.count + 1)]


def machine_name(spec: ClusterSpec, slot: str) -> str:
    return f"{spec.external_name}-{slot}"


def host_object(cluster_id: uuid.UUID, slot: str, uid: uuid.UUID | None = None) -> SiteObject:
    """A host of ours that a cluster holds, by what the cluster calls it: which one it gets is known when it is bound."""
    return SiteObject(HOST, f"{short(cluster_id)}-{slot}", str(uid or ""), cluster_id)


def addon_name(spec: ClusterSpec, addon: str) -> str:
    return f"{spec.external_name}-addon-{addon}"


def artifacts_name(spec: ClusterSpec) -> str:
    return f"{spec.external_name}-artifacts"


def _made(spec: ClusterSpec, kind: str, name: str) -> SiteObject:
    return SiteObject(kind, name, cluster_id=spec.id)


def _definition(spec: ClusterSpec) -> ClusterStep:
    kinds = (IMAGE_SET, DEPLOYMENT, INSTALL, INFRA_ENV)
    made = tuple(_made(spec, kind, spec.external_name) for kind in kinds)
    return ClusterStep("definition", "Define the cluster at the hub and make its boot image", made)


def _machines(spec: ClusterSpec, wanted: Iterable[str]) -> tuple[SiteObject, ...]:
    return tuple(
        made
        for slot in wanted
        for made in (
            host_object(spec.id, slot),
            *(_made(spec, kind, machine_name(spec, slot)) for kind in (NETWORK, MACHINE)),
        )
    )


def _control(spec: ClusterSpec) -> ClusterStep:
    made = _machines(spec, control_slots(spec))
    return ClusterStep("control-plane", "Bind and boot the hosts of the control plane", made)


def _pools(
    pools: Iterable[NodePool], spec: ClusterSpec, going: Mapping[str, int] | None = None
) -> tuple[ClusterStep, ...]:
    return tuple(
        ClusterStep(
            f"{POOL_STEP}{pool.name}",
            f"Drain {gone} of the pool {pool.name}, wipe them and give them back"
            if (gone := (going or {}).get(pool.name))
            else f"Bind and boot the hosts of the pool {pool.name}",
            _machines(spec, slots(pool)),
        )
        for pool in pools
    )


def _addons(spec: ClusterSpec) -> tuple[ClusterStep, ...]:
    return tuple(
        ClusterStep(
            f"{ADDON_STEP}{name}",
            f"Hand in the manifests of {name}",
            (_made(spec, CONFIG_MAP, addon_name(spec, name)),),
        )
        for name in spec.addons
    )


def _artifacts(spec: ClusterSpec) -> ClusterStep:
    made = (_made(spec, CONFIG_MAP, artifacts_name(spec)),)
    return ClusterStep("artifacts", "Write install-config and agent-config", made)


def _warnings(change: ClusterChange, spec: ClusterSpec, before: ClusterSpec | None) -> tuple[str, ...]:
    said = []
    if change is C.CREATE:
        said.append("Machines are installed from the ground up: it takes an hour or more.")
    if change is C.CREATE and spec.control_plane.count == 1:
        said.append("One machine holds the control plane: while it is broken, the API does not answer.")
    if change is C.SCALE:
        for name, going in Difference(spec, before).going().items():
            said.append(
                f"{going} of the pool {name} are drained and wiped: what does not move off in time ends, what lies there is lost."
            )
    return tuple(said)
