"""Machines that Nova could not place because others were faster: whether it is worth creating them again.

Of placements at the same moment several choose the same device; Nova gives up on those that lose, though others are free.
"""

from collections.abc import Sequence

from gpuaas.providers.openstack import flavors
from gpuaas.providers.openstack.classes import Classes
from gpuaas.providers.openstack.client import Cloud, Object

TRY = "gpuaas-try"  # in a machine's metadata: how often it was created before
MOST = 8
NO_HOST = ("No valid host", "NoValidHost", "Exceeded maximum number of retries")


def tries_of(server: Object) -> int:
    text = str((server.get("metadata") or {}).get(TRY) or "")
    return int(text) if text.isdigit() else 0


def next_try(lost: Sequence[Object]) -> dict[str, str]:
    """The mark of the machine that replaces these."""
    return {TRY: str(max(map(tries_of, lost)) + 1)} if lost else {}


def is_lost(server: Object) -> bool:
    """It never had a host, and may be created again under the same order."""
    message = str((server.get("fault") or {}).get("message") or "")
    unplaced = server["status"] == "ERROR" and not server.get("OS-SRV-USG:launched_at")
    return unplaced and any(words in message for words in NO_HOST) and tries_of(server) < MOST


def with_room(cloud: Cloud, lost: Sequence[Object], classes: Classes) -> set[str]:
    """Ids of those that a host could take now; a call for each flavor."""
    by_flavor: dict[str, bool] = {}
    for row in lost:
        name = str(row["flavor"]["original_name"])
        if name not in by_flavor:
            by_flavor[name] = has_room(cloud, row, classes)
    return {row["id"] for row in lost if by_flavor[str(row["flavor"]["original_name"])]}


def has_room(cloud: Cloud, server: Object, classes: Classes) -> bool:
    """Whether a host could take it now, as far as Placement knows."""
    flavor = server["flavor"]
    plain = {"VCPU": flavor["vcpus"], "MEMORY_MB": flavor["ram"], "DISK_GB": flavor["disk"]}
    asked = flavors.gpus_of(flavor.get("extra_specs") or {}, classes)
    together = {name: count for name, count in asked.items() if classes.is_gpu(name)}
    apart = [classes.of(name) for name, count in asked.items() if name not in together for _ in range(count)]
    if not all(map(classes.is_gpu, apart)):
        return True  # of an alias that nobody knows
    query = {
        "resources": ",".join(f"{name}:{count}" for name, count in {**plain, **together}.items() if count)
    }
    query |= {f"resources{number}": f"{name}:1" for number, name in enumerate(apart, 1)}
    found = cloud.get("placement", "/allocation_candidates", **query, group_policy="none", limit=1)
    return bool(found["allocation_requests"])
