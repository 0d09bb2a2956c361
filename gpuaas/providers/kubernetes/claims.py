"""ResourceClaims (DRA) as consumers: devices are held over the life of an allocation, however many pods share it.

A claim may be allocated many times, so that each allocation is a consumer of its own: `<uid of the claim>:<second>`.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from gpuaas.providers.base import ObservedConsumer
from gpuaas.providers.kubernetes import names
from gpuaas.providers.kubernetes.client import Api, Object

DRA = "/apis/resource.k8s.io/v1"
CLAIMS = f"{DRA}/resourceclaims"
CLASSES = f"{DRA}/deviceclasses"
# made by the scheduler for a pod that asks by an extended resource's name: that pod is the consumer
SPECIAL = "resource.kubernetes.io/extended-resource-claim"


@dataclass(frozen=True)
class Classes:
    """Device classes by name, with the one name by which each is counted; empty where a site has no DRA."""

    served: bool = False
    resources: Mapping[str, str] = field(default_factory=dict)

    @property
    def aliases(self) -> dict[str, str]:
        """Other names by which pods ask for a class: its implicit one, where it has a name of its own."""
        return {names.implicit_resource(each): name for each, name in self.resources.items()}

    def resource(self, device_class: str) -> str:
        return self.resources.get(device_class) or names.implicit_resource(device_class)


def classes_of(api: Api) -> Classes:
    found = api.find(CLASSES)
    if found is None:
        return Classes()
    return Classes(
        served=True,
        resources={
            each["metadata"]["name"]: names.resource_of(
                each["metadata"]["name"], each["spec"].get("extendedResourceName")
            )
            for each in found.get("items") or []
        },
    )


def is_claim(uid: str) -> bool:
    return ":" in uid


def consumer(claim: Object, classes: Classes, owners: Mapping[str, str]) -> ObservedConsumer | None:
    """None while it has no devices of its own. `owners`: what made a pod, by the pod's uid."""
    meta, status = claim["metadata"], claim.get("status") or {}
    allocation = status.get("allocation")
    if not allocation or is_special(meta):
        return None
    started = _instant(allocation.get("allocationTimestamp") or meta["creationTimestamp"])
    pod = controller(meta)
    return ObservedConsumer(
        uid=f"{meta['uid']}:{int(started.timestamp())}",
        name=pod["name"] if pod else meta["name"],
        phase="Allocated",
        node=_node(allocation),
        gpus=_devices(claim, allocation, classes),
        created_at=_instant(meta["creationTimestamp"]),
        started_at=started,
        ended_at=None,
        owner=(owners.get(pod["uid"]) or f"Pod/{pod['name']}") if pod else f"ResourceClaim/{meta['name']}",
    )


def is_special(meta: Object) -> bool:
    """The annotation alone is not believed: a tenant could have written it."""
    marked = (meta.get("annotations") or {}).get(SPECIAL) == "true"
    return marked and controller(meta) is not None


def controller(meta: Object) -> Object | None:
    """The pod that it was made for, from a template."""
    owners = meta.get("ownerReferences") or ()
    return next((each for each in owners if each.get("controller") and each["kind"] == "Pod"), None)


def reserved_for(claim: Object) -> list[Object]:
    """The pods that may use it: name and uid of each."""
    users = (claim.get("status") or {}).get("reservedFor") or []
    return [each for each in users if each.get("resource") == "pods"]


def _devices(claim: Object, allocation: Object, classes: Classes) -> dict[str, int]:
    """By the name of the class that each device was allocated from; what is only looked at (adminAccess) is not held."""
    asked = _requested(claim)
    counted: Counter[str] = Counter()
    for result in (allocation.get("devices") or {}).get("results") or ():
        device_class = asked.get(result["request"], "")
        if device_class and not result.get("adminAccess"):
            counted[classes.resource(device_class)] += 1
    return dict(counted)


def _requested(claim: Object) -> dict[str, str]:
    """Request → device class; an alternative of `firstAvailable` is `request/alternative`."""
    found: dict[str, str] = {}
    for request in ((claim.get("spec") or {}).get("devices") or {}).get("requests") or ():
        if exactly := request.get("exactly"):
            found[request["name"]] = exactly.get("deviceClassName", "")
        for each in request.get("firstAvailable") or ():
            found[f"{request['name']}/{each['name']}"] = each.get("deviceClassName", "")
    return found


def _node(allocation: Object) -> str:
    """ "" where the devices can be reached from several nodes."""
    terms = (allocation.get("nodeSelector") or {}).get("nodeSelectorTerms") or []
    fields = [match for term in terms for match in term.get("matchFields") or ()]
    values = {value for match in fields if match["key"] == "metadata.name" for value in match["values"]}
    return values.pop() if len(values) == 1 and len(terms) == 1 else ""


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text)
