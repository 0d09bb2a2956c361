"""The namespace of a virtual cluster is a workspace's: the same quota, pinning, network and guards, from the same code.

Nobody of the tenant is in it: people enter the virtual cluster, and its syncer is what acts here, with the rights of `roles.py`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from gpuaas.providers.base import ClusterRef, ClusterSpec, GpuAmount, WorkspaceRef, WorkspaceSpec
from gpuaas.providers.kubernetes.client import Object
from gpuaas.providers.vcluster import names
from gpuaas.providers.vcluster.settings import settings_read


@dataclass(frozen=True)
class Share:
    """What a pool is at the site: `count` workers, each a share of the quota of so many GPUs."""

    pool: str
    count: int
    gpus: int
    resource_name: str
    release: str


def ref_of(ref: ClusterRef) -> WorkspaceRef:
    return WorkspaceRef(ref.id, names.space(ref.external_name))


def space_of(spec: ClusterSpec) -> WorkspaceSpec:
    """GPUs of no worker stay named, with none, so that the namespace stays on its nodes."""
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
    """As they were asked for last, by the namespace's own record."""
    text = (space["metadata"].get("annotations") or {}).get(names.POOLS, "[]")
    return tuple(Share(*row) for row in json.loads(text))


def _gpus(spec: ClusterSpec) -> list[GpuAmount]:
    """Pools of the same devices on the same nodes are one amount; of the same name on others, the site refuses them."""
    found: dict[tuple[str, str], GpuAmount] = {}
    for flavor in (pool.flavor for pool in spec.pools):
        key = flavor.resource_name, json.dumps(dict(flavor.selector), sort_keys=True)
        before = found[key].count if key in found else 0
        count = before + flavor.gpus * flavor.count
        found[key] = GpuAmount(flavor.resource_name, count, flavor.selector)
    return list(found.values())


def _written(spec: ClusterSpec) -> str:
    rows = [
        [pool.name, pool.flavor.count, pool.flavor.gpus, pool.flavor.resource_name, pool.release]
        for pool in spec.pools
    ]
    return json.dumps(rows, separators=(",", ":"))


def gpus_in(hard: Mapping[str, str], resource_name: str) -> int:
    """What a quota lets be used of a GPU name; 0 where it does not name it."""
    text = hard.get(f"requests.{resource_name}", "0")
    return int(text) if text.isdigit() else 0
