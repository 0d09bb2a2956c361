"""The load of a workload cluster, from pods that request GPUs: placed on a pool's nodes, or waiting."""

from collections.abc import Iterable, Mapping

from gpuaas.providers.base import ClusterSpec, NodePool, PoolSignals
from gpuaas.providers.clusterapi import site
from gpuaas.providers.clusterapi.site import Seen
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.providers.kubeapi.pods import FINISHED, devices


def read(workload: Api, seen: Seen, spec: ClusterSpec) -> tuple[PoolSignals, ...]:
    labels = {one["metadata"]["name"]: _labels(one) for one in workload.items("/api/v1/nodes")}
    return count(workload.items("/api/v1/pods"), labels, pools_of_nodes(seen.machines), spec.pools)


def pools_of_nodes(machines: Iterable[Object]) -> dict[str, str]:
    found = {}
    for machine in machines:
        if name := ((machine.get("status") or {}).get("nodeRef") or {}).get("name"):
            found[str(name)] = site.pool_of(machine)
    return found


def count(
    pods: Iterable[Object],
    labels: Mapping[str, Mapping[str, str]],
    places: Mapping[str, str],
    pools: Iterable[NodePool],
) -> tuple[PoolSignals, ...]:
    """Pure. `labels` of nodes by name, `places`: the pool of a node. A waiting pod counts at the first pool on whose nodes it could
    run; a pool without nodes fits every pod that it has the GPUs for, since its labels are not known yet. Finished pods and pods
    with scheduling gates do not count."""
    ordered = list(pools)
    used, waits, queued = ({pool.name: 0 for pool in ordered} for _ in range(3))
    for pod in pods:
        asked, node = devices(pod), pod["spec"].get("nodeName", "")
        if (pod.get("status") or {}).get("phase") in FINISHED:
            continue
        if node:
            pool = next((one for one in ordered if one.name == places.get(node)), None)
            if pool is not None:
                used[pool.name] += asked.get(pool.flavor.resource_name, 0)
            continue
        pool = next((one for one in ordered if _fits(pod, asked, one, labels, places)), None)
        if pool is not None and not pod["spec"].get("schedulingGates"):
            waits[pool.name] += asked[pool.flavor.resource_name]
            queued[pool.name] += 1
    return tuple(PoolSignals(name, used[name], waits[name], queued[name]) for name in used)


def _fits(
    pod: Object,
    asked: Mapping[str, int],
    pool: NodePool,
    labels: Mapping[str, Mapping[str, str]],
    places: Mapping[str, str],
) -> bool:
    """By the pod's own selector and its GPUs; affinity is ignored."""
    if not 0 < asked.get(pool.flavor.resource_name, 0) <= pool.flavor.gpus:
        return False
    wanted = (pod["spec"].get("nodeSelector") or {}).items()
    known = [labels[node] for node, name in places.items() if name == pool.name and node in labels]
    return not known or any(wanted <= one.items() for one in known)


def _labels(node: Object) -> Mapping[str, str]:
    return node["metadata"].get("labels") or {}
