"""Nova's servers as consumers of GPUs."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from gpuaas.core import clock
from gpuaas.providers.base import ObservedConsumer, UseState
from gpuaas.providers.openstack import flavors
from gpuaas.providers.openstack.classes import Classes
from gpuaas.providers.openstack.client import Cloud, Object

# states in which Nova has released the devices
DEVICELESS = frozenset({"SHELVED_OFFLOADED", "DELETED", "SOFT_DELETED"})
UNHEARD_AFTER = timedelta(minutes=2)


def of_project(cloud: Cloud, project_id: str) -> list[Object]:
    """With details, whoever created them."""
    return cloud.items("compute", "/servers/detail", "servers", all_tenants="1", project_id=project_id)


def remove(cloud: Cloud, server: Object) -> None:
    """Delete once; again only if its host missed the request, which Nova does not repeat by itself."""
    path, deleting = f"/servers/{server['id']}", server.get("OS-EXT-STS:task_state") == "deleting"
    if server["status"] == "SOFT_DELETED":
        cloud.post("compute", f"{path}/action", {"forceDelete": None})
    elif not deleting:
        cloud.delete("compute", path)
    elif instant(server["updated"]) + UNHEARD_AFTER < clock.now():
        cloud.post("compute", f"{path}/action", {"os-resetState": {"state": "error"}})
        cloud.delete("compute", path)


def consumer(server: Object, classes: Classes) -> ObservedConsumer:
    launched = server.get("OS-SRV-USG:launched_at")
    ended = server.get("OS-SRV-USG:terminated_at")
    return ObservedConsumer(
        uid=server["id"],
        name=server["name"],
        phase=_phase(server),
        node=server.get("OS-EXT-SRV-ATTR:host") or "",
        gpus=gpus_of(server, classes),
        created_at=instant(server["created"]),
        started_at=instant(launched) if launched else None,
        ended_at=instant(ended) if ended else None,
        state=UseState.SHELVED if server["status"] in DEVICELESS else UseState.RUNNING,
        waiting_for=_waiting_for(server, gpus_of(server, classes)),
    )


def gpus_of(server: Object, classes: Classes) -> dict[str, int]:
    """The devices that its flavor requests, by resource class; an unknown alias counts under its own name."""
    asked = flavors.gpus_of((server.get("flavor") or {}).get("extra_specs") or {}, classes)
    found: dict[str, int] = {}
    for name, count in asked.items():
        key = classes.of(name)
        found[key] = found.get(key, 0) + count
    return found


def holds_devices(server: Object) -> bool:
    """True also for stopped ones and those in ERROR: allocations stay until deletion or offloading."""
    return server["status"] not in DEVICELESS and bool(server.get("OS-EXT-SRV-ATTR:host"))


def _phase(server: Object) -> str:
    task = server.get("OS-EXT-STS:task_state")
    return f"{server['status']} ({task})" if task else str(server["status"])


def _waiting_for(server: Object, gpus: Mapping[str, int]) -> str:
    if server["status"] == "ERROR":
        return reason_in_words(str((server.get("fault") or {}).get("message") or ""), gpus)
    if server["status"] == "BUILD":
        return (
            "Nova is looking for a host"
            if not server.get("OS-EXT-SRV-ATTR:host")
            else "the host is starting it"
        )
    return ""


def reason_in_words(message: str, gpus: Mapping[str, int] | None = None) -> str:
    """Why a machine could not be created; `gpus`: those that it requested."""
    if "No valid host" in message or "NoValidHost" in message:
        asked = " and ".join(f"{count} free {name}" for name, count in sorted((gpus or {}).items()))
        return (
            f"no host has {asked or 'room'}, along with the vCPUs and memory: delete it and try again later"
        )
    if "Exceeded maximum number of retries" in message:
        return "no host with room could create it, for example because others were faster: delete it and try again later"
    return message[:300] or "Nova gives no reason"


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text if text.endswith("Z") or "+" in text else f"{text}+00:00")
