"""GPUs counted by a device plugin: one extended resource for each kind, with node labels that describe it.

Whole cards, MIG slices (single strategy: under the card's name; mixed: under their own names), shares of a size, shared slices,
and names of the operator's choice.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from gpuaas.providers import kinds
from gpuaas.providers.base import DeviceKind, Unknown
from gpuaas.providers.contracts import Sold, contract_of
from gpuaas.providers.kubeapi import demand, pods
from gpuaas.providers.kubeapi.client import Object
from gpuaas.providers.kubeapi.names import ARCH_LABEL
from gpuaas.providers.kubeapi.quantities import whole
from gpuaas.providers.kubernetes.inventory.found import Found
from gpuaas.providers.kubernetes.inventory.sharing import (
    MIG_PREFIX,
    SHARED,
    UNSIZED,
    Sharing,
    sharing,
)
from gpuaas.providers.kubernetes.inventory.vendors import NVIDIA, VENDORS, first, memory_mib, vendor_of

PRODUCT = "nvidia.com/gpu.product"
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
    nodes: Iterable[Object],
    all_pods: Iterable[Object],
    ours: frozenset[str],
    also: frozenset[str],
    sold: Sold = (),
    lent: frozenset[str] = frozenset(),
) -> Counted:
    """`ours`: the namespaces whose pods are not others'; `lent`: those whose pods end when a buyer needs their devices. Shares of
    unknown size are understood only where they were sold."""
    listed = list(all_pods)
    held = _held(listed, ours), _held(listed, lent & ours)
    rows = [_sized(each, sold) for node in nodes for each in _on_node(node, *held, also)]
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
        for resource, count in demand.devices(pod).items():
            held[pod["spec"]["nodeName"], resource, pod["metadata"].get("namespace", "") in ours] += count
    return held


def _on_node(
    node: Object,
    held: Counter[tuple[str, str, bool]],
    lent: Counter[tuple[str, str, bool]],
    also: frozenset[str],
) -> Iterator[Found | Unknown]:
    """The kubelet's capacity counts installed devices; those that are not allocatable are unhealthy."""
    name, labels = node["metadata"]["name"], node["metadata"].get("labels") or {}
    notes = node["metadata"].get("annotations") or {}
    capacity, allocatable = _amounts(node, "capacity"), _amounts(node, "allocatable")
    for resource in sorted(capacity | allocatable):
        fit = allocatable.get(resource, 0)
        built_in = max(capacity.get(resource, 0), fit)
        if not built_in:
            continue
        divided = sharing(resource, product_of(resource, labels, also), labels, notes, built_in)
        kind = kind_on_node(resource, labels, also, divided)
        if kind is not None and divided.trouble:
            yield Unknown(name, resource, built_in, divided.trouble)
        elif kind is not None:
            shares = divided.share.of if divided.share else 1
            others = held[name, resource, False]
            took = held[name, resource, True] + others
            out = built_in - fit
            yield Found(
                name,
                kind,
                resource,
                built_in,
                took,
                labels,
                unhealthy=out,
                others=others,
                lent=lent[name, resource, True],
                shares=shares,
            )
        elif is_gpu(resource, also):
            yield Unknown(name, resource, built_in, NAMELESS)
        elif is_like_gpu(resource):
            yield Unknown(name, resource, built_in, FOREIGN)


def _sized(each: Found | Unknown, sold: Sold) -> Found | Unknown:
    if isinstance(each, Unknown) or not each.kind.slug.endswith("-shared"):
        return each
    if contract_of(each.kind.slug, each.resource_name, sold):
        return each
    return Unknown(
        each.node, each.resource_name, each.capacity, UNSIZED.format(each.resource_name.removesuffix(SHARED))
    )


def _amounts(node: Object, which: str) -> dict[str, int]:
    amounts = (node.get("status") or {}).get(which) or {}
    return {name: whole(amount) for name, amount in amounts.items() if demand.is_device(name)}


def kind_on_node(
    resource: str,
    labels: Mapping[str, str],
    also: frozenset[str] = frozenset(),
    divided: Sharing | None = None,
) -> DeviceKind | None:
    """None for anything but a GPU, and for a GPU of unknown product. `divided`: otherwise as the labels say."""
    product = product_of(resource, labels, also)
    if not product or not is_gpu(resource, also):
        return None
    vendor = vendor_of(resource)[0] or NVIDIA
    divided = divided or sharing(resource, product, labels, {}, 0)
    profile = (
        resource.removeprefix(MIG_PREFIX).removesuffix(SHARED) if resource.startswith(MIG_PREFIX) else ""
    )
    return kinds.kind(
        product,
        memory_mib=memory_mib(first(labels, vendor.memory_labels)),
        mig_profile=profile,
        share=divided.share,
        compute=kinds.compute_capability(labels),
        ecc=_boolean(labels, ECC_LABEL),
        mig_capable=_boolean(labels, "nvidia.com/mig.capable"),
        nvlink=_has_nvlink(labels),
        arch=labels.get(ARCH_LABEL, ""),
    )


def product_of(resource: str, labels: Mapping[str, str], also: frozenset[str]) -> str:
    vendor = vendor_of(resource)[0] or NVIDIA
    any_vendor = tuple(label for each in VENDORS.values() for label in each.product_labels)
    keys = any_vendor if resource in also else vendor.product_labels
    return labels.get(f"{resource}.product") or first(labels, keys)


def _has_nvlink(labels: Mapping[str, str]) -> bool:
    """Whether the node is part of an NVLink fabric, or of a machine type whose GPUs always have NVLink."""
    machine = labels.get("nvidia.com/gpu.machine", "").upper()
    return bool(labels.get("nvidia.com/gpu.clique")) or machine.startswith(("DGX", "NVIDIA-DGX", "HGX"))


def _boolean(labels: Mapping[str, str], key: str) -> bool | None:
    return {"true": True, "false": False}.get(labels.get(key, "").lower())
