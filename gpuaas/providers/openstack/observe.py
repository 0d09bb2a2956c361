"""Observes one project: the enforced limits, their use, and its machines."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from gpuaas.providers.base import ObservedConsumer, ObservedWorkspace, UseState, WorkspaceRef
from gpuaas.providers.openstack import limits, projects, servers, volumes
from gpuaas.providers.openstack.classes import Classes
from gpuaas.providers.openstack.client import Cloud, Object
from gpuaas.providers.openstack.machine_cache import MachineCache

PLAIN = {"class:VCPU": "cpu", "class:MEMORY_MB": "memory"}


def observe(
    cloud: Cloud, ref: WorkspaceRef, classes: Classes, cache: MachineCache, *, domain: str
) -> ObservedWorkspace:
    """The project's use is Placement's own sum, and machines cost no further calls; actions
    of changed machines are read only if this process meters the site."""
    project = projects.marked_project(cloud, ref.external_name, ref.id, domain=domain)
    if project is None:
        return ObservedWorkspace(exists=False)
    hard = {name: row["resource_limit"] for name, row in limits.project_limits(cloud, project["id"]).items()}
    used = {
        **dict.fromkeys(_amounts(hard, classes), 0),
        **_amounts(limits.used(cloud, project["id"]), classes),
    }
    storage, stored = volumes.storage(cloud, project["id"])
    return ObservedWorkspace(
        exists=True,
        hard={**storage, **_amounts(hard, classes)},
        used={**stored, **used},
        consumers=_consumers(cloud, project["id"], classes, cache, used),
        volumes=volumes.observed(cloud, project["id"]) if stored["storage"] else (),
        all_classes=True,
    )


def _consumers(
    cloud: Cloud, project_id: str, classes: Classes, cache: MachineCache, used: Mapping[str, int]
) -> tuple[ObservedConsumer, ...]:
    """If Placement counts more than the machines are known to hold, each is read again: a port may have added devices."""
    machines = servers.of_project(cloud, project_id)
    if not cache.is_metered:
        return tuple(_plain(machine, classes) for machine in machines)
    looks = cache.looks(cloud, machines, classes)
    known: Counter[str] = Counter()
    for look in looks:
        known.update(look.now.gpus if look.now.state is not UseState.SHELVED else {})
    if any(count > known[name] for name, count in used.items() if classes.is_gpu(name)):
        for machine in machines:
            cache.forget(machine["id"])
        looks = cache.looks(cloud, machines, classes)
    return tuple(look.now for look in looks)


def _plain(machine: Object, classes: Classes) -> ObservedConsumer:
    is_shelved = machine["status"] in servers.DEVICELESS
    found = servers.consumer(machine, classes)
    return replace(found, state=UseState.SHELVED) if is_shelved else found


def _amounts(given: Mapping[str, int], classes: Classes) -> dict[str, int]:
    """By GPU class, `cpu` (cores) and `memory` (GiB, rounded up)."""
    found: dict[str, int] = {}
    for key, amount in given.items():
        name = PLAIN.get(key, key.removeprefix("class:"))
        if key in PLAIN:
            found[name] = -(-amount // 1024) if name == "memory" else amount
        elif classes.is_gpu(name):
            found[name] = amount
    return found
