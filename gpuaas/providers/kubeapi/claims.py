"""ResourceClaims (DRA) as consumers: an allocation holds devices for as long as it exists, however many pods share it.

A claim may be allocated many times, so each allocation is a consumer of its own: `<uid of the claim>:<second>`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from gpuaas.providers.base import ObservedConsumer
from gpuaas.providers.kubeapi import names
from gpuaas.providers.kubeapi.client import Api, Object

DRA = "/apis/resource.k8s.io/v1"
CLAIMS = f"{DRA}/resourceclaims"
CLASSES = f"{DRA}/deviceclasses"
# made by the scheduler for a pod that requests an extended resource's name: that pod is the consumer
SPECIAL = "resource.kubernetes.io/extended-resource-claim"


@dataclass(frozen=True)
class Classes:
    """Device classes by name, with the one name by which each is counted; empty if a site has no DRA.

    sold: those that were sold, with the name they were sold by, regardless of later changes.
    """

    served: bool = False
    live: Mapping[str, str] = field(default_factory=dict)
    sold: Mapping[str, str] = field(default_factory=dict)

    @property
    def resources(self) -> dict[str, str]:
        return {**self.live, **self.sold}

    @property
    def aliases(self) -> dict[str, str]:
        """Other names by which pods request a class: its implicit name, if it declares its own, and a later name."""
        implicit = {names.implicit_resource(each): name for each, name in self.resources.items()}
        return implicit | {self.live[each]: name for each, name in self.sold.items() if each in self.live}

    def resource(self, device_class: str) -> str:
        return (
            self.sold.get(device_class)
            or self.live.get(device_class)
            or names.implicit_resource(device_class)
        )


def sold_in(spaces: Iterable[Object]) -> dict[str, str]:
    """Device class → the name it was sold by, from the annotations of workspaces' namespaces."""
    texts = ((each["metadata"].get("annotations") or {}).get(names.CLASSES, "") for each in spaces)
    pairs = (pair.partition("=") for text in texts for pair in text.split(",") if pair)
    return {device_class: name for device_class, _, name in pairs}


def classes_of(api: Api, sold: Mapping[str, str]) -> Classes:
    found = api.find(CLASSES)
    if found is None:
        return Classes()
    return Classes(
        served=True,
        sold=sold,
        live={
            each["metadata"]["name"]: names.resource_of(
                each["metadata"]["name"], each["spec"].get("extendedResourceName")
            )
            for each in found.get("items") or []
        },
    )


def is_claim(uid: str) -> bool:
    return ":" in uid


def consumer(claim: Object, classes: Classes, owners: Mapping[str, str]) -> ObservedConsumer | None:
    """None while the claim holds no devices of its own. `owners`: the owner of a pod, by the pod's uid."""
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
    """The annotation alone is not trusted: a tenant could have written it."""
    marked = (meta.get("annotations") or {}).get(SPECIAL) == "true"
    return marked and controller(meta) is not None


def controller(meta: Object) -> Object | None:
    """The pod that it was created for, from a template."""
    owners = meta.get("ownerReferences") or ()
    return next((each for each in owners if each.get("controller") and each["kind"] == "Pod"), None)


def reserved_for(claim: Object) -> list[Object]:
    """The pods that may use it: name and uid of each."""
    users = (claim.get("status") or {}).get("reservedFor") or []
    return [each for each in users if each.get("resource") == "pods"]


def _devices(claim: Object, allocation: Object, classes: Classes) -> dict[str, int]:
    """By the name of the class that each device was allocated from; adminAccess holds nothing."""
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
    """ "" if the devices can be reached from several nodes."""
    terms = (allocation.get("nodeSelector") or {}).get("nodeSelectorTerms") or []
    fields = [match for term in terms for match in term.get("matchFields") or ()]
    values = {value for match in fields if match["key"] == "metadata.name" for value in match["values"]}
    return values.pop() if len(values) == 1 and len(terms) == 1 else ""


def attribute(device: Object, name: str) -> str:
    """Of a published device, "" if it has none. Names of attributes may have their driver's domain as a prefix."""
    for key, value in (device.get("attributes") or {}).items():
        if key.rpartition("/")[2] == name:
            return str(next(iter(value.values()), ""))
    return ""


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text)
