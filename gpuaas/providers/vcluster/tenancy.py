"""A virtual cluster's namespace is like a workspace's: the same quota, pinning, network and guards, from the same code.

Tenants have no access to it: they use the virtual cluster, whose syncer acts here with the rights of `roles.py`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from gpuaas.providers.base import ClusterRef, ClusterSpec, GpuAmount, WorkspaceRef, WorkspaceSpec
from gpuaas.providers.kubeapi.client import Object
from gpuaas.providers.vcluster import names
from gpuaas.providers.vcluster.settings import settings_read


@dataclass(frozen=True)
class Share:
    """A pool at the site: `count` workers, each a share of the quota with `gpus` GPUs."""

    pool: str
    count: int
    gpus: int
    resource_name: str
    release: str


def ref_of(ref: ClusterRef) -> WorkspaceRef:
    return WorkspaceRef(ref.id, names.space(ref.external_name))


def space_of(spec: ClusterSpec) -> WorkspaceSpec:
    """Pools without workers keep their GPU names with a count of 0, so that the namespace stays pinned to its nodes."""
    control, pools = spec.control_plane, [pool.flavor for pool in spec.pools]
    address = settings_read(spec.settings).address(spec.external_name)
    return WorkspaceSpec(
        id=spec.id,
        external_name=names.space(spec.external_name),
        project_slug=spec.project_slug,
        organization_slug=spec.organization_slug,
        gpus=tuple(_gpus(spec)),
        vcpus=control.count * control.vcpus + sum(one.vcpus * one.count for one in pools),
        memory_gib=control.count * control.memory_gib + sum(one.memory_gib * one.count for one in pools),
        storage_gib=control.count * control.disk_gib + sum(one.disk_gib * one.count for one in pools),
        members=(),
        closed=spec.closed,
        labels={names.TAG: str(spec.id)},
        annotations={names.POOLS: _written(spec), names.ADDRESS: address},
    )


def shares_of(space: Object) -> tuple[Share, ...]:
    """The last requested shares, from the namespace's annotation."""
    text = (space["metadata"].get("annotations") or {}).get(names.POOLS, "[]")
    return tuple(Share(*row) for row in json.loads(text))


def _gpus(spec: ClusterSpec) -> list[GpuAmount]:
    """Pools of the same devices on the same nodes are one amount; the same name on other nodes is refused later."""
    found: dict[tuple[str, str], GpuAmount] = {}
    for flavor in (pool.flavor for pool in spec.pools):
        key = flavor.resource_name, json.dumps(dict(flavor.selector), sort_keys=True)
        before = found[key].count if key in found else 0
        count = before + flavor.gpus * flavor.count
        found[key] = GpuAmount(
            flavor.resource_name,
            count,
            flavor.selector,
            device_class=flavor.device_class,
            also=flavor.also,
        )
    return list(found.values())


def _written(spec: ClusterSpec) -> str:
    rows = [
        [pool.name, pool.flavor.count, pool.flavor.gpus, pool.flavor.resource_name, pool.release]
        for pool in spec.pools
    ]
    return json.dumps(rows, separators=(",", ":"))


def gpus_in(hard: Mapping[str, str], resource_name: str) -> int:
    """A quota's limit for a GPU name; 0 if it has none."""
    text = hard.get(f"requests.{resource_name}", "0")
    return int(text) if text.isdigit() else 0
