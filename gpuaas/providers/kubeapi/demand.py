"""What pods request and how much of it waits, by pool.

Heads of k3s clusters run this very file (gpuaas/providers/openstack/clusters/k3s_queue.py), so beside `quantities` it imports the
standard library alone.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuaas.providers.kubeapi.quantities import whole

Object = dict[str, Any]
NO_ALIASES: Mapping[str, str] = {}
FINISHED = ("Succeeded", "Failed")


def is_device(resource: str) -> bool:
    """Extended resources have a domain in their name; cpu, memory and their like have none."""
    return "/" in resource


def devices(pod: Object, aliases: Mapping[str, str] = NO_ALIASES) -> dict[str, int]:
    """What the scheduler reserves: the sum over containers and sidecars, or, if larger, the largest init container plus the
    sidecars started before it. `aliases`: other names of a resource."""
    spec = pod["spec"]
    total: dict[str, int] = {}
    largest: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    for container in spec.get("containers") or ():
        _add(total, _asked(container))
    for container in spec.get("initContainers") or ():
        asked = _asked(container)
        if container.get("restartPolicy") == "Always":
            _add(sidecars, asked)
            asked = {}
        for name in asked.keys() | sidecars.keys():
            largest[name] = max(largest.get(name, 0), asked.get(name, 0) + sidecars.get(name, 0))
    _add(total, sidecars)
    for name, count in (
        *largest.items(),
        *_asked(spec).items(),
    ):  # the pod's own resources, where it states any
        total[name] = max(total.get(name, 0), count)
    named: dict[str, int] = {}
    for name, count in total.items():
        if count:
            _add(named, {aliases.get(name, name): count})
    return named


@dataclass(frozen=True)
class Workers:
    """A pool of workers with `gpus` of `resource` each. labels: those that a worker is known to get before there is one."""

    pool: str
    resource: str
    gpus: int
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Load:
    """`used` and `pending` devices; `queued`: how many pods wait."""

    used: int = 0
    pending: int = 0
    queued: int = 0


def count(
    pods: Iterable[Object],
    labels: Mapping[str, Mapping[str, str]],
    places: Mapping[str, str],
    pools: Iterable[Workers],
) -> dict[str, Load]:
    """Pure. `labels` of nodes by name, `places`: the pool of a node. A waiting pod counts at the first pool on whose nodes it could
    run; a pool without nodes fits every pod that it has the devices for, unless the labels that are known forbid it. Finished pods
    and pods with scheduling gates do not count."""
    ordered = list(pools)
    found = {each.pool: Load() for each in ordered}
    for pod in pods:
        asked, node = devices(pod), pod["spec"].get("nodeName", "")
        if (pod.get("status") or {}).get("phase") in FINISHED:
            continue
        if node:
            pool = next((one for one in ordered if one.pool == places.get(node)), None)
            if pool is not None:
                found[pool.pool].used += asked.get(pool.resource, 0)
            continue
        pool = next((one for one in ordered if _fits(pod, asked, one, labels, places)), None)
        if pool is not None and not pod["spec"].get("schedulingGates"):
            found[pool.pool].pending += asked[pool.resource]
            found[pool.pool].queued += 1
    return found


def _fits(
    pod: Object,
    asked: Mapping[str, int],
    pool: Workers,
    labels: Mapping[str, Mapping[str, str]],
    places: Mapping[str, str],
) -> bool:
    """By the pod's own selector and its devices; affinity is ignored."""
    if not 0 < asked.get(pool.resource, 0) <= pool.gpus:
        return False
    wanted = (pod["spec"].get("nodeSelector") or {}).items()
    known = [labels[node] for node, name in places.items() if name == pool.pool and node in labels]
    if not known:
        return all(pool.labels.get(name, value) == value for name, value in wanted)
    return any(wanted <= one.items() for one in known)


def _asked(container: Object) -> dict[str, int]:
    """Of a container, or of a pod as a whole."""
    resources = container.get("resources")
    if not resources:
        return {}
    asked: Mapping[str, str] = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {name: whole(amount) for name, amount in asked.items() if is_device(name)}


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount
