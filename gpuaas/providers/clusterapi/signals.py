"""The load of a workload cluster, from pods that request GPUs: placed on a pool's nodes, or waiting."""

from collections.abc import Iterable, Mapping

from gpuaas.providers.base import ClusterSpec, PoolSignals
from gpuaas.providers.clusterapi import site
from gpuaas.providers.clusterapi.site import Seen
from gpuaas.providers.kubeapi import demand
from gpuaas.providers.kubeapi.client import Api, Object


def read(workload: Api, seen: Seen, spec: ClusterSpec) -> tuple[PoolSignals, ...]:
    labels = {one["metadata"]["name"]: _labels(one) for one in workload.items("/api/v1/nodes")}
    places = pools_of_nodes(seen.machines)
    pools = [demand.Workers(pool.name, pool.flavor.resource_name, pool.flavor.gpus) for pool in spec.pools]
    found = demand.count(workload.items("/api/v1/pods"), labels, places, pools)
    return tuple(PoolSignals(pool, one.used, one.pending, one.queued) for pool, one in found.items())


def pools_of_nodes(machines: Iterable[Object]) -> dict[str, str]:
    found = {}
    for machine in machines:
        if name := ((machine.get("status") or {}).get("nodeRef") or {}).get("name"):
            found[str(name)] = site.pool_of(machine)
    return found


def _labels(node: Object) -> Mapping[str, str]:
    return node["metadata"].get("labels") or {}
