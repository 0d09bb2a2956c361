"""What the cloud enforces and counts in one project, and the machines in it."""

from collections.abc import Mapping

from gpuaas.providers.base import ObservedWorkspace, WorkspaceRef
from gpuaas.providers.openstack import limits, names, projects, servers
from gpuaas.providers.openstack.client import Cloud

PLAIN = {"class:VCPU": "cpu", "class:MEMORY_MB": "memory"}


def observe(cloud: Cloud, ref: WorkspaceRef, classes: Mapping[str, str], *, domain: str) -> ObservedWorkspace:
    """`classes`: alias → resource class. The project's use is Placement's own sum, one call however many machines."""
    project = projects.marked_project(cloud, ref.external_name, ref.id, domain=domain)
    if project is None:
        return ObservedWorkspace(exists=False)
    hard = {name: row["resource_limit"] for name, row in limits.project_limits(cloud, project["id"]).items()}
    used = limits.used(cloud, project["id"])
    machines = servers.of_project(cloud, project["id"])
    return ObservedWorkspace(
        exists=True,
        hard={**_storage(cloud), **_amounts(hard)},
        used={**dict.fromkeys(_amounts(hard), 0), **_amounts(used)},
        consumers=tuple(servers.consumer(each, classes) for each in machines),
    )


def _storage(cloud: Cloud) -> dict[str, int]:
    """A site without Cinder has no disks for anybody."""
    return {} if cloud.services & {"volumev3", "block-storage"} else {"storage": 0}


def _amounts(given: Mapping[str, int]) -> dict[str, int]:
    """By GPU class, `cpu` (cores) and `memory` (GiB, rounded up)."""
    found: dict[str, int] = {}
    for key, amount in given.items():
        name = PLAIN.get(key, key.removeprefix("class:"))
        if key in PLAIN:
            found[name] = -(-amount // 1024) if name == "memory" else amount
        elif names.is_gpu_class(name):
            found[name] = amount
    return found
