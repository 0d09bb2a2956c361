"""The load of a virtual cluster, from its own API: pods that wait for the quota exist only there."""

from collections.abc import Iterable
from dataclasses import dataclass

from gpuaas.providers.base import ClusterSpec, PoolSignals
from gpuaas.providers.kubeapi import demand
from gpuaas.providers.kubeapi.client import Object


@dataclass
class _Pool:
    name: str
    resource_name: str
    room: int
    used: int = 0
    pending: int = 0
    queued: int = 0


def signals(spec: ClusterSpec, found: Iterable[Object]) -> tuple[PoolSignals, ...]:
    """Placed GPUs count at the first pool of their name until it is full; waiting ones at the first."""
    pools = [
        _Pool(one.name, one.flavor.resource_name, one.flavor.gpus * one.flavor.count) for one in spec.pools
    ]
    for pod in found:
        if pod.get("status", {}).get("phase") in demand.FINISHED:
            continue
        placed = bool(pod["spec"].get("nodeName"))
        for resource, count in demand.devices(pod).items():
            fitting = [one for one in pools if one.resource_name == resource]
            if not fitting or not count:
                continue
            if placed:
                next((one for one in fitting if one.used + count <= one.room), fitting[-1]).used += count
            else:
                fitting[0].pending += count
                fitting[0].queued += 1
    return tuple(PoolSignals(one.name, one.used, one.pending, one.queued) for one in pools)
