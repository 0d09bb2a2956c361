"""Reads devices from ResourceSlices: which slices are current, where each device is, and its kind."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from gpuaas.providers import kinds
from gpuaas.providers.base import DeviceKind, Unknown
from gpuaas.providers.kubeapi.claims import attribute
from gpuaas.providers.kubeapi.client import Object
from gpuaas.providers.kubeapi.names import ARCH_LABEL
from gpuaas.providers.kubeapi.quantities import quantity
from gpuaas.providers.kubernetes.inventory.nodes import BARRING
from gpuaas.providers.kubernetes.inventory.pools import agreed_labels

Key = tuple[str, str, str]  # driver, pool, device
Labels = Mapping[str, Mapping[str, str]]  # by node


@dataclass(frozen=True)
class Device:
    """`place`: its node, or its DRA pool's name if several nodes reach it. `sick`: it cannot be allocated."""

    key: Key
    place: str
    labels: Mapping[str, str]
    kind: DeviceKind
    sick: bool
    body: Object

    @property
    def pool(self) -> tuple[str, str]:
        return self.key[:2]


def current(slices: Iterable[Object]) -> dict[tuple[str, str], list[Object]]:
    """(driver, pool) → its slices of the newest generation: older ones are about to be deleted."""
    found: dict[tuple[str, str], list[Object]] = {}
    for each in slices:
        found.setdefault((each["spec"]["driver"], each["spec"]["pool"]["name"]), []).append(each)
    return {
        key: [row for row in rows if _generation(row) == max(map(_generation, rows))]
        for key, rows in found.items()
    }


def devices_of(
    pool: tuple[str, str], rows: list[Object], labels: Labels, rules: Iterable[Object]
) -> Iterator[Device]:
    """The GPUs of a pool. While some of its slices are missing the scheduler allocates none of them."""
    incomplete = len(rows) < int(rows[0]["spec"]["pool"].get("resourceSliceCount", 1))
    barring = list(rules)
    for row in rows:
        for body in row["spec"].get("devices") or []:
            where = _where(row["spec"], body, labels)
            shared = agreed_labels([labels[node] for node in where])
            kind = kind_of(body, arch=shared.get(ARCH_LABEL, ""))
            if kind is None or not where:
                continue
            key = (*pool, body["name"])
            yield Device(
                key=key,
                place=where[0] if len(where) == 1 else pool[1],
                labels=shared,
                kind=kind,
                sick=incomplete or _tainted(body) or any(_barred(key, rule) for rule in barring),
                body=body,
            )


def kind_of(device: Object, *, arch: str = "") -> DeviceKind | None:
    """None for anything but a GPU: network cards, channels, and the passthrough duplicate of a card."""
    sort = attribute(device, "type").lower()
    product = _product(device)
    if not product or not (sort in ("", "mig") or "gpu" in sort):
        return None
    part = attribute(device, "partitionProfile")
    memory = ((device.get("capacity") or {}) | _undomained(device)).get("memory", {}).get("value", "0")
    return kinds.kind(
        f"{product} {part}" if part else product,
        memory_mib=int(quantity(memory) / 1024**2),
        mig_profile=attribute(device, "profile") if sort == "mig" else "",
        compute=".".join(attribute(device, "cudaComputeCapability").split(".")[:2]),
        ecc=_switch(device, "ecc", "eccEnabled"),
        mig_capable=_switch(device, "migCapable"),
        dra=True,
        arch=arch,
    )


def unknown(published: Mapping[tuple[str, str], list[Object]]) -> Iterator[Unknown]:
    """Devices that say that they are GPUs and not which."""
    for (driver, pool), rows in published.items():
        nameless = [
            body
            for row in rows
            for body in row["spec"].get("devices") or []
            if "gpu" in attribute(body, "type").lower() and not _product(body)
        ]
        if nameless:
            yield Unknown(pool, driver, len(nameless), "the driver publishes no name of the product")


def _product(device: Object) -> str:
    return next(filter(None, (attribute(device, name) for name in ("productName", "product", "model"))), "")


def _undomained(device: Object) -> dict[str, Object]:
    return {key.rpartition("/")[2]: value for key, value in (device.get("capacity") or {}).items()}


def _switch(device: Object, *names: str) -> bool | None:
    text = next(filter(None, (attribute(device, name) for name in names)), "")
    return {"true": True, "false": False}.get(text.lower())


def _generation(row: Object) -> int:
    return int(row["spec"]["pool"].get("generation", 0))


def _tainted(device: Object) -> bool:
    return any(taint.get("effect") in BARRING for taint in device.get("taints") or [])


def _barred(key: Key, rule: Object) -> bool:
    """By a DeviceTaintRule: keys that its selector omits match every device."""
    spec = rule.get("spec") or {}
    wanted = spec.get("deviceSelector") or {}
    facts = zip(("driver", "pool", "device"), key, strict=True)
    return (spec.get("taint") or {}).get("effect") in BARRING and all(
        wanted.get(name) in (None, "", value) for name, value in facts
    )


def _where(spec: Object, device: Object, labels: Labels) -> list[str]:
    """The nodes that reach it."""
    source = device if spec.get("perDeviceNodeSelection") else spec
    if source.get("nodeName"):
        return [source["nodeName"]] if source["nodeName"] in labels else []
    if source.get("allNodes"):
        return sorted(labels)
    terms = (source.get("nodeSelector") or {}).get("nodeSelectorTerms") or []
    return sorted(node for node, own in labels.items() if any(_matches(term, node, own) for term in terms))


def _matches(term: Object, node: str, labels: Mapping[str, str]) -> bool:
    rules = [(rule, labels) for rule in term.get("matchExpressions") or []]
    rules += [(rule, {"metadata.name": node}) for rule in term.get("matchFields") or []]
    return bool(rules) and all(_meets(rule, facts) for rule, facts in rules)


def _meets(rule: Object, facts: Mapping[str, str]) -> bool:
    have, values = facts.get(rule["key"]), rule.get("values") or []
    match rule["operator"]:
        case "In":
            return have in values
        case "NotIn":
            return have not in values
        case "Exists":
            return have is not None
        case "DoesNotExist":
            return have is None
        case "Gt" | "Lt" as way:
            if have is None or not have.lstrip("-").isdigit():
                return False
            return int(have) > int(values[0]) if way == "Gt" else int(have) < int(values[0])
    return False
