"""GPUs counted by a device plugin: one extended resource for each kind, with node labels that describe it.

Whole cards, MIG slices (single strategy: under the card's name; mixed: under their own names), shares (`.shared`, or
not renamed and shown by `replicas` and `sharing-strategy`), shared slices, and names of the operator's choice.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from gpuaas.providers import kinds
from gpuaas.providers.base import DeviceKind, Unknown
from gpuaas.providers.kubeapi import pods
from gpuaas.providers.kubeapi.client import Object
from gpuaas.providers.kubeapi.quantities import whole
from gpuaas.providers.kubernetes.inventory.found import Found
from gpuaas.providers.kubernetes.inventory.vendors import NVIDIA, VENDORS, first, memory_mib, vendor_of

GPU = "nvidia.com/gpu"
PRODUCT = "nvidia.com/gpu.product"
MIG_PREFIX = "nvidia.com/mig-"
SHARED = ".shared"
ECC_LABEL = "gpuaas.io/ecc"
NAMELESS = "no label of the node says which product these GPUs are"
FOREIGN = "the portal does not know who counts by this name; if it counts whole GPUs, name it in the site's option Additional GPU resources"
_LIKE_GPU = re.compile(r"gpu|dcu|gcu|mlu|npu|ascend|vcuda|tpx_|[sdqc]px_")
_PART_OF_GPU = re.compile(r"mem|core|percent|priority|milli|tile|monitor|cpu")


@dataclass(frozen=True)
class Counted:
    found: tuple[Found, ...]
    unknown: tuple[Unknown, ...]


def devices(
    nodes: Iterable[Object], all_pods: Iterable[Object], ours: frozenset[str], also: frozenset[str]
) -> Counted:
    """`ours`: the namespaces whose pods are not others'."""
    held = _held(all_pods, ours)
    rows = [each for node in nodes for each in _on_node(node, held, also)]
    return Counted(
        tuple(each for each in rows if isinstance(each, Found)),
        tuple(each for each in rows if isinstance(each, Unknown)),
    )


def names(nodes: Iterable[Object], also: frozenset[str]) -> set[str]:
    """Every GPU name on any node, even of unknown products: names that are not bought are closed."""
    return {
        resource
        for node in nodes
        for resource in _amounts(node, "capacity") | _amounts(node, "allocatable")
        if is_gpu(resource, also) or is_like_gpu(resource)
    }


def is_gpu(resource: str, also: frozenset[str] = frozenset()) -> bool:
    vendor, name = vendor_of(resource)
    return resource in also or (vendor is not None and vendor.is_gpu(name))


def is_like_gpu(resource: str) -> bool:
    """By its name; of nobody whose names we know. Memory and cores of GPUs are no devices."""
    name = resource.rpartition("/")[2].lower()
    vendor, _ = vendor_of(resource)
    return (
        (vendor is None or not vendor.renames)
        and bool(_LIKE_GPU.search(name))
        and not _PART_OF_GPU.search(name)
    )


def _held(all_pods: Iterable[Object], ours: frozenset[str]) -> Counter[tuple[str, str, bool]]:
    """(node, resource, whether it is ours) → devices that pods hold."""
    held: Counter[tuple[str, str, bool]] = Counter()
    for pod in filter(pods.holds_devices, all_pods):
        for resource, count in pods.devices(pod).items():
            held[pod["spec"]["nodeName"], resource, pod["metadata"].get("namespace", "") in ours] += count
    return held


def _on_node(
    node: Object, held: Counter[tuple[str, str, bool]], also: frozenset[str]
) -> Iterator[Found | Unknown]:
    """The kubelet's capacity counts installed devices; those that are not allocatable are unhealthy."""
    name, labels = node["metadata"]["name"], node["metadata"].get("labels") or {}
    capacity, allocatable = _amounts(node, "capacity"), _amounts(node, "allocatable")
    for resource in sorted(capacity | allocatable):
        fit = allocatable.get(resource, 0)
        built_in = max(capacity.get(resource, 0), fit)
        kind = kind_on_node(resource, labels, also) if built_in else None
        if kind is not None:
            shares = _replicas(resource, labels) if kind.sharing == "shared" else 1
            others = held[name, resource, False]
            took = held[name, resource, True] + others
            out = built_in - fit
            yield Found(
                name, kind, resource, built_in, took, labels, unhealthy=out, others=others, shares=shares
            )
        elif built_in and is_gpu(resource, also):
            yield Unknown(name, resource, built_in, NAMELESS)
        elif built_in and is_like_gpu(resource):
            yield Unknown(name, resource, built_in, FOREIGN)


def _amounts(node: Object, which: str) -> dict[str, int]:
    amounts = (node.get("status") or {}).get(which) or {}
    return {name: whole(amount) for name, amount in amounts.items() if pods.is_device(name)}


def kind_on_node(
    resource: str, labels: Mapping[str, str], also: frozenset[str] = frozenset()
) -> DeviceKind | None:
    """None for anything but a GPU, and for a GPU of unknown product."""
    if not is_gpu(resource, also):
        return None
    vendor = vendor_of(resource)[0] or NVIDIA
    any_vendor = tuple(label for each in VENDORS.values() for label in each.product_labels)
    product = labels.get(f"{resource}.product") or first(
        labels, any_vendor if resource in also else vendor.product_labels
    )
    if not product:
        return None
    profile = (
        resource.removeprefix(MIG_PREFIX).removesuffix(SHARED) if resource.startswith(MIG_PREFIX) else ""
    )
    return kinds.kind(
        product,
        memory_mib=memory_mib(first(labels, vendor.memory_labels)),
        mig_profile=profile,
        share=_share(resource, product, labels),
        compute=kinds.compute_capability(labels),
        ecc=_boolean(labels, ECC_LABEL),
        mig_capable=_boolean(labels, "nvidia.com/mig.capable"),
        nvlink=_has_nvlink(labels),
    )


def _share(resource: str, product: str, labels: Mapping[str, str]) -> kinds.Share | None:
    replicas, strategy = _replicas(resource, labels), _label(resource, labels, "sharing-strategy")
    renamed = resource.endswith(SHARED) or product.endswith("-SHARED")
    if not renamed and (replicas <= 1 or strategy == "none"):
        return None
    return kinds.Share(of=replicas, limited=strategy == "mps" and replicas > 1)


def _replicas(resource: str, labels: Mapping[str, str]) -> int:
    text = _label(resource, labels, "replicas")
    return max(int(text), 1) if text.isdigit() else 1


def _label(resource: str, labels: Mapping[str, str], what: str) -> str:
    """Those of the resource's own name take precedence over those of the card; sharing of cards does not apply to slices."""
    own = resource.removesuffix(SHARED)
    keys = (own,) if own.startswith(MIG_PREFIX) else (own, GPU)
    return next((labels[f"{key}.{what}"] for key in keys if f"{key}.{what}" in labels), "")


def _has_nvlink(labels: Mapping[str, str]) -> bool:
    """Whether the node is part of an NVLink fabric, or of a machine type whose GPUs always have NVLink."""
    machine = labels.get("nvidia.com/gpu.machine", "").upper()
    return bool(labels.get("nvidia.com/gpu.clique")) or machine.startswith(("DGX", "NVIDIA-DGX", "HGX"))


def _boolean(labels: Mapping[str, str], key: str) -> bool | None:
    return {"true": True, "false": False}.get(labels.get(key, "").lower())
