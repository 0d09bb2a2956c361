"""The progress of a step: a pure function of what the management cluster shows. The condition Available alone is stale for a
second after each change, so a step is done only when generation, counts and conditions agree."""

from collections.abc import Callable, Iterable

from gpuaas.core.errors import NotFound
from gpuaas.providers.base import ClusterSpec, NodePool, StepOutcome
from gpuaas.providers.base.difference import all_ready, machines_run
from gpuaas.providers.clusterapi import conditions
from gpuaas.providers.clusterapi.manifests import version
from gpuaas.providers.clusterapi.site import Seen, is_going
from gpuaas.providers.kubeapi.client import Object

DEFERRED = "MachineDeploymentsUpgradeDeferred"
MOVING = ("RollingOut", "ScalingUp", "ScalingDown", "Remediating")
COUNTS = ("replicas", "readyReplicas", "availableReplicas", "upToDateReplicas")


def order(seen: Seen) -> StepOutcome:
    spec = seen.cluster["spec"]
    if spec.get("infrastructureRef") and spec.get("controlPlaneRef") and _is_current(seen.cluster):
        return StepOutcome(done=True, detail="the management cluster has accepted the order")
    return _waits([seen.cluster], {conditions.ORDER}, "the management cluster is processing the order")


def network(seen: Seen, infrastructure: Callable[[], Object | None]) -> StepOutcome:
    """`infrastructure`: read while the step waits, since a Cluster describes only some errors. Its provider retries all of them,
    so none of them fails the step."""
    if conditions.status_of(seen.cluster, "InfrastructureReady") == "True":
        return StepOutcome(done=True, detail=address(seen.cluster))
    found = infrastructure()
    objects = [found, seen.cluster] if found is not None else [seen.cluster]
    return _waits(objects, {conditions.NETWORK}, "the provider is creating the network")


def control_plane(seen: Seen, spec: ClusterSpec) -> StepOutcome:
    machines, wanted = seen.control_machines, spec.control_plane.count
    right = [one for one in machines if _is_right(one, spec.release)]
    counts = seen.cluster.get("status", {}).get("controlPlane") or {}
    settled = (
        len(machines) == len(right) == wanted
        and conditions.status_of(seen.cluster, "ControlPlaneInitialized") == "True"
        and conditions.status_of(seen.cluster, "ControlPlaneAvailable") == "True"
        and all(counts.get(key) == wanted for key in ("desiredReplicas", *COUNTS))
        and not any(
            conditions.status_of(one, type_) == "True" for one in seen.control_planes for type_ in MOVING
        )
    )
    if settled:
        return StepOutcome(done=True, detail=machines_run(wanted, spec.release))
    objects = [*machines, *seen.control_planes, seen.cluster]
    steps = {conditions.MACHINE, conditions.CONTROL}
    return _waits(objects, steps, f"{len(right)} of {wanted} machines run {spec.release}")


def api(seen: Seen) -> StepOutcome:
    if conditions.status_of(seen.cluster, "RemoteConnectionProbe") == "True":
        return StepOutcome(done=True, detail=f"{address(seen.cluster)} answers")
    return _waits([seen.cluster], {conditions.API}, "the API does not answer yet")


def pool(seen: Seen, pool: NodePool) -> StepOutcome:
    found, machines, wanted = seen.pool(pool.name), seen.machines_of(pool.name), pool.flavor.count
    if found is None:
        return _waits([seen.cluster], {conditions.ORDER}, f"the pool {pool.name} is being created")
    status = found.get("status", {})
    right = [one for one in machines if _is_right(one, pool.release)]
    settled = (
        found["spec"].get("replicas") == wanted == len(machines) == len(right)
        and found["spec"]["template"]["spec"].get("version") == version(pool.release)
        and status.get("observedGeneration") == found["metadata"]["generation"]
        and all(status.get(key, 0) == wanted for key in COUNTS)
        and all(conditions.status_of(found, type_) in {"False", ""} for type_ in MOVING)
    )
    if settled:
        detail = machines_run(wanted, pool.release) if wanted else "no workers"
        return StepOutcome(done=True, detail=detail)
    ready = f"{len(right)} of {wanted} machines run {pool.release}"
    return _waits([*machines, found], {conditions.MACHINE, conditions.POOL, conditions.GONE}, ready)


def checks(seen: Seen, spec: ClusterSpec) -> StepOutcome:
    """All parts together, as Cluster API counts them."""
    parts = [control_plane(seen, spec), *(pool(seen, one) for one in spec.pools)]
    if waiting := next((one for one in parts if not one.done), None):
        return waiting
    held_back = any(one.release != spec.release for one in spec.pools)
    topology = conditions.condition_of(seen.cluster, "TopologyReconciled")
    settled = (
        _is_current(seen.cluster)
        and (topology.get("status") == "True" or (held_back and topology.get("reason") == DEFERRED))
        and conditions.status_of(seen.cluster, "Available") == "True"
        and all(conditions.status_of(seen.cluster, one) == "False" for one in (*MOVING, "Deleting"))
    )
    if settled:
        total = spec.control_plane.count + sum(one.flavor.count for one in spec.pools)
        return StepOutcome(done=True, detail=all_ready(total))
    return _waits([seen.cluster], set(conditions.STEPS), "the management cluster is settling")


def answering(seen: Seen) -> None:
    """Raises NotFound if the cluster's API does not answer yet."""
    if not api(seen).done:
        raise NotFound("the cluster's API does not answer yet")


def address(cluster: Object) -> str:
    found = cluster["spec"].get("controlPlaneEndpoint") or {}
    return f"https://{found['host']}:{found['port']}" if found.get("host") else ""


def is_ready(machine: Object) -> bool:
    return conditions.status_of(machine, "Ready") == "True" and not is_going(machine)


def reason_of(machine: Object) -> str:
    """Why it is not ready; the machine's most specific condition first."""
    if is_ready(machine):
        return ""
    troubles = conditions.troubles([machine])
    return troubles[0].sentence.split(": ", 1)[1] if troubles else "it is starting"


def _is_right(machine: Object, release: str) -> bool:
    return is_ready(machine) and machine["spec"].get("version") == version(release)


def _is_current(cluster: Object) -> bool:
    observed = conditions.condition_of(cluster, "TopologyReconciled").get("observedGeneration")
    return bool(observed == cluster["metadata"]["generation"])


def _waits(objects: Iterable[Object], steps: set[str], otherwise: str) -> StepOutcome:
    """Not done, with the first trouble of these steps."""
    troubles = [one for one in conditions.troubles(objects) if one.step in steps]
    return StepOutcome(done=False, detail=f"{otherwise}: {troubles[0].sentence}" if troubles else otherwise)
