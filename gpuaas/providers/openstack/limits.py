"""Hard limits of a project: Keystone's unified limits, which Nova enforces, and Neutron's and Cinder's own quotas.

A class with a registered default would be open to every project, so each project gets its own limit for every class that may
be a GPU, "0" for what was not bought.
"""

from collections.abc import Mapping

from gpuaas.core.errors import Permanent
from gpuaas.providers.base import StepOutcome, WorkspaceSpec
from gpuaas.providers.openstack import names, volume_types, volumes
from gpuaas.providers.openstack.classes import Classes
from gpuaas.providers.openstack.client import Cloud, Object
from gpuaas.providers.openstack.flavors import MIB_PER_GIB

# so that one tenant cannot fill the site's tables; no sharing with other tenants, whose ports on our network would block
# its deletion, and no address pools
NETWORK = {
    "network": 5,
    "subnet": 10,
    "router": 2,
    "port": 50,
    "security_group": 20,
    "security_group_rule": 200,
    "floatingip": 5,
    "rbac_policy": 0,
    "subnetpool": 0,
}
# Neutron recreates a project's default security group whenever it lists groups, and fails without room for it
DEFAULT_GROUP = {"security_group": 1, "security_group_rule": 4}


def wanted_limits(spec: WorkspaceSpec, registered: Mapping[str, Object], classes: Classes) -> dict[str, int]:
    """By the names of the registered limits; others stay at the site's defaults."""
    wanted = {name: 0 for name in registered if classes.is_closed(name.removeprefix("class:"))}
    for gpu in spec.gpus:
        key = names.limit_name(gpu.resource_name)
        wanted[key] = wanted.get(key, 0) + gpu.count
    machines = 0 if spec.suspended else sum(flavor.count for flavor in spec.flavors)
    return {
        **wanted,
        "servers": machines,
        "class:VCPU": spec.vcpus,
        "class:MEMORY_MB": spec.memory_gib * MIB_PER_GIB,
        "class:DISK_GB": sum(flavor.disk_gib * flavor.count for flavor in spec.flavors),
    }


def registered_limits(cloud: Cloud) -> dict[str, Object]:
    """Those that the Nova of the site's region asks for, by name: neither another region's nor those without a region."""
    return {row["resource_name"]: row for row in _registered(cloud) if is_here(cloud, row)}


def registered_elsewhere(cloud: Cloud) -> dict[str, str]:
    """By name: where it is registered, in words, if that is not in the site's region."""
    return {
        row["resource_name"]: f"in {row['region_id']}" if row["region_id"] else "without a region"
        for row in _registered(cloud)
        if not is_here(cloud, row)
    }


def _registered(cloud: Cloud) -> list[Object]:
    services = {row["id"] for row in cloud.items("identity", "/services", "services", type="compute")}
    rows = cloud.items("identity", "/registered_limits", "registered_limits")
    return [row for row in rows if row["service_id"] in services]


def is_here(cloud: Cloud, row: Object) -> bool:
    return (row["region_id"] or "") == cloud.region


def project_limits(cloud: Cloud, project_id: str) -> dict[str, Object]:
    """In the site's region, by name."""
    return {row["resource_name"]: row for row in _of_project(cloud, project_id) if is_here(cloud, row)}


def _of_project(cloud: Cloud, project_id: str) -> list[Object]:
    """In every region: one name can have a limit in each."""
    rows = cloud.items("identity", "/limits", "limits", project_id=project_id)
    return [row for row in rows if row["project_id"] == project_id]


def used(cloud: Cloud, project_id: str) -> dict[str, int]:
    """By the names of limits: Placement's own sums, in one call."""
    found: dict[str, int] = {}
    for part in cloud.get("placement", "/usages", project_id=project_id)["usages"].values():
        for name, amount in part.items():
            if name != "consumer_count":
                key = names.limit_name(name)
                found[key] = found.get(key, 0) + amount
    return found


def apply(
    cloud: Cloud,
    spec: WorkspaceSpec,
    project_id: str,
    classes: Classes,
    network: Mapping[str, int] = NETWORK,
) -> None:
    """Each limit is changed in place or created. Raises Permanent for a bought resource without a registered limit."""
    registered, there = registered_limits(cloud), project_limits(cloud, project_id)
    missing = []
    for name, amount in wanted_limits(spec, registered, classes).items():
        if name not in registered:
            missing.append(name)
            continue
        limit_write(cloud, registered[name], project_id, amount, there.get(name))
    for name, row in there.items():
        if classes.is_left(name.removeprefix("class:")) and not row["resource_limit"]:
            cloud.delete("identity", f"/limits/{row['id']}")  # from before it was known that it is no GPU
    _require_registered(missing, spec)
    network_write(cloud, project_id, network)
    volumes.quota_write(cloud, project_id, spec)
    volume_types.open_bought(cloud, project_id, spec)


def network_write(cloud: Cloud, project_id: str, quota: Mapping[str, int]) -> None:
    """With force: existing objects beyond the quota stay, but no more can be created."""
    cloud.put("network", f"/quotas/{project_id}", {"quota": {**quota, "force": True}})


def network_read(cloud: Cloud, project_id: str) -> dict[str, int]:
    found: dict[str, int] = cloud.get("network", f"/quotas/{project_id}")["quota"]
    return found


def limit_write(
    cloud: Cloud, registered: Object, project_id: str, amount: int, there: Object | None = None
) -> None:
    """`there`: the project's present limit. Keystone ignores a change to 0 and answers 200 with the old value, so that limit
    is recreated; in between the registered default applies, which is 0 for GPUs."""
    if there is not None:
        if there["resource_limit"] == amount:
            return
        change = {"limit": {"resource_limit": amount}}
        answer = cloud.patch("identity", f"/limits/{there['id']}", change)
        if answer["limit"]["resource_limit"] == amount:
            return
        cloud.delete("identity", f"/limits/{there['id']}")
    body = {
        "service_id": registered["service_id"],
        "region_id": registered["region_id"],
        "resource_name": registered["resource_name"],
        "resource_limit": amount,
        "project_id": project_id,
    }
    cloud.post("identity", "/limits", {"limits": [body]})


def confirmed(cloud: Cloud, spec: WorkspaceSpec, project_id: str, classes: Classes) -> StepOutcome:
    registered, there = registered_limits(cloud), project_limits(cloud, project_id)
    wanted = wanted_limits(spec, registered, classes)
    wrong = [
        name
        for name, amount in wanted.items()
        if name in registered and (name not in there or there[name]["resource_limit"] != amount)
    ]
    if missing := volumes.quota_missing(cloud, project_id, spec):
        # the limit of a type with more in it than may be follows what its owner deletes, and no other step sets it
        volumes.quota_insist(cloud, project_id, spec)
    wrong += missing
    if wrong:
        return StepOutcome(
            done=False, detail=f"these limits are not in force at the site yet: {', '.join(sorted(wrong))}"
        )
    return StepOutcome(done=True, detail=f"{len(wanted)} limits in force")


def close(cloud: Cloud, project_id: str) -> None:
    """Set all limits to 0, so that nothing can be created, not even with a token that is still cached. Repeatable. What somebody
    has set for the project in another region goes with it."""
    rows = _of_project(cloud, project_id)
    for row in rows:
        limit_write(cloud, row, project_id, 0, row)
    there = {row["resource_name"] for row in rows if is_here(cloud, row)}
    for name, registered in registered_limits(cloud).items():
        if name not in there:
            limit_write(cloud, registered, project_id, 0)
    network_write(cloud, project_id, {**dict.fromkeys(NETWORK, 0), **DEFAULT_GROUP})
    volumes.quota_write(cloud, project_id, None)


def delete(cloud: Cloud, project_id: str) -> None:
    for row in _of_project(cloud, project_id):
        cloud.delete("identity", f"/limits/{row['id']}")
    cloud.delete("network", f"/quotas/{project_id}")
    volume_types.forget(cloud, project_id)
    volumes.quota_delete(cloud, project_id)


def _require_registered(missing: list[str], spec: WorkspaceSpec) -> None:
    bought = {names.limit_name(gpu.resource_name) for gpu in spec.gpus if gpu.count}
    if open_ends := sorted(bought & set(missing)):
        raise Permanent(
            f"the site has no registered limit for {', '.join(open_ends)}, so Nova would not limit it; "
            "an operator of the cloud must register one (default 0)"
        )
