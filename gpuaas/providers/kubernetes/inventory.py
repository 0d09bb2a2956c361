"""What a site has: from the nodes' labels (NFD, GFD), its ResourceSlices (DRA), and the pods on them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gpuaas.providers.base import DeviceKind, Inventory, ObservedNode, ObservedPool
from gpuaas.providers.kubernetes import kinds, names, pods
from gpuaas.providers.kubernetes.client import Api, Object
from gpuaas.providers.kubernetes.quantities import gib, quantity, whole

GPU = "nvidia.com/gpu"
SHARED = "nvidia.com/gpu.shared"
MIG_PREFIX = "nvidia.com/mig-"
PRODUCT = "nvidia.com/gpu.product"
DRA = "/apis/resource.k8s.io/v1"


@dataclass(frozen=True)
class Found:
    """Devices of one kind on one node, by the name that the site counts them."""

    node: str
    kind: DeviceKind
    resource_name: str
    capacity: int
    allocated: int
    labels: Mapping[str, str] = field(default_factory=dict)


def take(api: Api, *, pool_label: str) -> Inventory:
    version = str(api.get("/version")["gitVersion"])
    nodes = api.items("/api/v1/nodes")
    labels = {node["metadata"]["name"]: node["metadata"].get("labels") or {} for node in nodes}
    held = _held(api.items("/api/v1/pods"))
    found = [each for node in nodes for each in _plugin_devices(node, held)]
    found += _dra_devices(api, labels)
    return Inventory(
        server_version=version,
        pools=tuple(_pools(found, pool_label)),
        nodes=tuple(observed for node in nodes for observed in _observed(node, found)),
    )


def _held(all_pods: Iterable[Object]) -> Counter[tuple[str, str]]:
    """(node, resource) → devices that pods hold."""
    held: Counter[tuple[str, str]] = Counter()
    for pod in filter(pods.holds_devices, all_pods):
        for resource, count in pods.devices(pod).items():
            held[pod["spec"]["nodeName"], resource] += count
    return held


def _plugin_devices(node: Object, held: Counter[tuple[str, str]]) -> Iterator[Found]:
    name, labels = node["metadata"]["name"], node["metadata"].get("labels") or {}
    for resource, amount in (node["status"].get("allocatable") or {}).items():
        kind = kind_on_node(resource, labels)
        if kind is not None and whole(amount) > 0:
            yield Found(name, kind, resource, whole(amount), held[name, resource], labels)


def kind_on_node(resource: str, labels: Mapping[str, str]) -> DeviceKind | None:
    """None for what is no GPU that we know to name."""
    product = labels.get(PRODUCT, "")
    if not product:
        return None
    compute = kinds.compute_capability(labels)
    memory = _number(labels.get("nvidia.com/gpu.memory"))
    if resource.startswith(MIG_PREFIX):
        profile = resource.removeprefix(MIG_PREFIX)
        product = labels.get(f"{resource}.product", f"{product}-MIG-{profile}")
        return kinds.kind(product, memory_mib=memory, mig_profile=profile, compute=compute)
    if resource not in (GPU, SHARED):
        return None
    sliced = labels.get("nvidia.com/gpu.sharing-strategy", "none") not in ("none", "")
    shared = resource == SHARED or (
        product.endswith("-SHARED") or (sliced and _number(labels.get("nvidia.com/gpu.replicas")) > 1)
    )
    return kinds.kind(product, memory_mib=memory, sharing="shared" if shared else "whole", compute=compute)


def _dra_devices(api: Api, labels: Mapping[str, Mapping[str, str]]) -> Iterator[Found]:
    slices = api.items_if_known(f"{DRA}/resourceslices")
    classes = api.items_if_known(f"{DRA}/deviceclasses")
    if not slices or not classes:
        return
    taken = _claimed(api.items_if_known(f"{DRA}/resourceclaims"))
    per_node: dict[tuple[str, str], list[tuple[str, Object]]] = {}
    for each in slices:
        spec = each["spec"]
        node = spec.get("nodeName", "")
        for device in spec.get("devices") or []:
            product = _attribute(device, "productName")
            if node in labels and product and _attribute(device, "type") in ("", "gpu"):
                key = f"{spec['driver']}/{spec['pool']['name']}/{device['name']}"
                per_node.setdefault((node, product), []).append((key, device))
    for (node, product), devices in per_node.items():
        chosen = _class_of(product, classes)
        if chosen is None:
            continue
        allocated = sum(key in taken for key, _ in devices)
        resource = names.resource_of(chosen["metadata"]["name"], chosen["spec"].get("extendedResourceName"))
        yield Found(node, _dra_kind(product, devices[0][1]), resource, len(devices), allocated, labels[node])


def _dra_kind(product: str, device: Object) -> DeviceKind:
    memory = ((device.get("capacity") or {}).get("memory") or {}).get("value", "0")
    compute = ".".join(_attribute(device, "cudaComputeCapability").split(".")[:2])
    mib = int(quantity(memory) / 1024**2)
    return kinds.kind(product, memory_mib=mib, sharing="dra", compute=compute)


def _attribute(device: Object, name: str) -> str:
    """Attributes may carry their driver's domain in front."""
    for key, value in (device.get("attributes") or {}).items():
        if key.rpartition("/")[2] == name:
            return str(next(iter(value.values()), ""))
    return ""


def _class_of(product: str, classes: Iterable[Object]) -> Object | None:
    """The class whose selector names the product: only such a class sells one model and nothing else."""
    for each in classes:
        selectors = each["spec"].get("selectors") or []
        text = " ".join((selector.get("cel") or {}).get("expression", "") for selector in selectors)
        if f"'{product}'" in text or f'"{product}"' in text:
            return each
    return None


def _claimed(claims: Iterable[Object]) -> set[str]:
    found = set()
    for claim in claims:
        allocation = (claim.get("status") or {}).get("allocation") or {}
        for result in (allocation.get("devices") or {}).get("results") or []:
            found.add(f"{result['driver']}/{result['pool']}/{result['device']}")
    return found


def _pools(found: Sequence[Found], pool_label: str) -> Iterator[ObservedPool]:
    """One per kind. The operator's pool label brings pods to it; without one, the product's label."""
    by_kind: dict[str, list[Found]] = {}
    for each in found:
        by_kind.setdefault(each.kind.slug, []).append(each)
    for slug in sorted(by_kind):
        members = by_kind[slug]
        resource = Counter(each.resource_name for each in members).most_common(1)[0][0]
        others = [each for each in found if each.resource_name == resource and each.kind.slug != slug]
        yield ObservedPool(
            kind=members[0].kind,
            resource_name=resource,
            selector=_selector(members, others, (pool_label, PRODUCT)),
        )


def _selector(members: Sequence[Found], others: Sequence[Found], labels: Iterable[str]) -> dict[str, str]:
    """The first label on which all members agree and that none of `others`, which go by the same name, has too."""
    for label in labels:
        values = {each.labels.get(label, "") for each in members}
        taken = {each.labels.get(label, "") for each in others}
        if len(values) == 1 and "" not in values and not values & taken:
            return {label: values.pop()}
    return {}


def _observed(node: Object, found: Iterable[Found]) -> Iterator[ObservedNode]:
    meta, status = node["metadata"], node["status"]
    ready = next((c for c in status.get("conditions") or [] if c["type"] == "Ready"), {"status": "Unknown"})
    is_ready = ready["status"] == "True"
    allocatable = status.get("allocatable") or {}
    here: list[Found | None] = [each for each in found if each.node == meta["name"]]
    for each in here or [None]:
        yield ObservedNode(
            name=meta["name"],
            kind_slug=each.kind.slug if each else "",
            capacity=each.capacity if each else 0,
            allocated=each.allocated if each else 0,
            vcpus=int(quantity(allocatable.get("cpu", "0"))),
            memory_gib=gib(allocatable.get("memory", "0")),
            ready=is_ready,
            cordoned=bool(node["spec"].get("unschedulable")),
            reason="" if is_ready else f"{ready.get('reason', '')}: {ready.get('message', '')}".strip(": "),
        )


def _number(text: str | None) -> int:
    return int(text) if text and text.isdigit() else 0
