"""Translates nodes: location, tuning, and whether they can take work."""

import re
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction

from gpuaas.providers.base import NodeTraits, ObservedNode
from gpuaas.providers.kubeapi import names
from gpuaas.providers.kubeapi.client import Object
from gpuaas.providers.kubeapi.quantities import GIB, gib, quantity
from gpuaas.providers.kubernetes.inventory.found import Found

HUGEPAGES = "hugepages-"
# taint keys that the guards let pods of workspaces tolerate, besides names of what was bought and the label of its pool; a
# node with any other taint takes no such pods
TOLERATED = {names.GPU_TAINT, "node.kubernetes.io/memory-pressure"}
BARRING = ("NoSchedule", "NoExecute")
# types of conditions about GPUs from a node problem detector or similar: "GpuUnhealthy", "XidError", "NVLinkDegraded", "GPUHealthy"
_ABOUT_GPUS = re.compile(r"gpu|xid|nvlink|nvidia|nvswitch|ecc|dcgm", re.IGNORECASE)
_GOOD_WHEN_TRUE = re.compile(r"(?<!un)(?<!not)(healthy|ready|ok|available|present)$", re.IGNORECASE)


def observed(
    rows: Iterable[Object],
    found: Iterable[Found],
    unnamed: Mapping[str, str],
    selectors: Mapping[str, Mapping[str, str]],
) -> Iterator[ObservedNode]:
    """One row for each kind on a node, one for a node without GPUs; devices of no single node have a row with the name of
    their DRA pool. `unnamed`: node → why GPUs there cannot be sold, in words. `selectors`: kind → its pool's selector."""
    by_node: dict[str, list[Found]] = {}
    for each in found:
        by_node.setdefault(each.node, []).append(each)
    for row in rows:
        name = row["metadata"]["name"]
        here = by_node.pop(name, [])
        own = {pair for each in here for pair in selectors.get(each.kind.slug, {}).items()}
        yield from _rows(row, here, _barred(row, here, own), unnamed.get(name, ""))
    for name, elsewhere in sorted(by_node.items()):
        for each in elsewhere:
            yield ObservedNode(
                name,
                each.kind.slug,
                each.capacity,
                each.allocated,
                0,
                0,
                reason=each.closed,
                unhealthy=each.capacity if each.closed else each.unhealthy,
                shares=each.shares,
                others=each.others,
                lent=each.lent,
            )


def _rows(node: Object, here: list[Found], barred: str, unnamed: str) -> Iterator[ObservedNode]:
    ready, why_not = _ready(node)
    sick = _gpu_trouble(node)
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    present: list[Found | None] = [*here]
    for each in present or [None]:
        yield ObservedNode(
            name=node["metadata"]["name"],
            kind_slug=each.kind.slug if each else "",
            capacity=each.capacity if each else 0,
            allocated=each.allocated if each else 0,
            vcpus=int(quantity(allocatable.get("cpu", "0"))),
            memory_gib=gib(allocatable.get("memory", "0")),
            ready=ready,
            cordoned=bool(barred),
            reason=why_not or sick or (each.closed if each else "") or _unwell(each) or barred or unnamed,
            unhealthy=(each.capacity if sick or each.closed else each.unhealthy) if each else 0,
            shares=each.shares if each else 1,
            traits=traits(node),
            others=each.others if each else 0,
            lent=each.lent if each else 0,
        )


def _ready(node: Object) -> tuple[bool, str]:
    conditions = (node.get("status") or {}).get("conditions") or []
    ready = next((each for each in conditions if each["type"] == "Ready"), {"status": "Unknown"})
    if ready["status"] == "True":
        return True, ""
    return False, f"{ready.get('reason', '')}: {ready.get('message', '')}".strip(
        ": "
    ) or "the node does not report"


def _barred(node: Object, here: Iterable[Found], own: set[tuple[str, str]]) -> str:
    """Why no new work is placed there: cordoned, or a taint that no pod of a workspace tolerates."""
    spec = node.get("spec") or {}
    if spec.get("unschedulable"):
        return "cordoned"
    tolerated = TOLERATED | {each.resource_name for each in here}
    for taint in spec.get("taints") or []:
        if taint.get("effect") not in BARRING or taint["key"] in tolerated:
            continue
        if (taint["key"], taint.get("value", "")) not in own:
            value = f"={taint['value']}" if taint.get("value") else ""
            return f"closed by the taint {taint['key']}{value}:{taint['effect']}"
    return ""


def _gpu_trouble(node: Object) -> str:
    """A condition that reports a problem with GPUs."""
    for each in (node.get("status") or {}).get("conditions") or []:
        if not _ABOUT_GPUS.search(each["type"]):
            continue
        bad = "False" if _GOOD_WHEN_TRUE.search(each["type"]) else "True"
        if each["status"] == bad:
            return f"{each['type']}: {each.get('message') or each.get('reason', '')}".strip(": ")
    return ""


def _unwell(found: Found | None) -> str:
    if found is None or not found.unhealthy:
        return ""
    return f"{found.unhealthy} of {found.capacity} {found.kind.name} cannot take work"


def traits(node: Object) -> NodeTraits:
    labels = node["metadata"].get("labels") or {}
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    return NodeTraits(
        zone=_label(labels, names.ZONE_LABELS),
        rack=_label(labels, names.RACK_LABELS),
        nvlink_domain=_label(labels, names.NVLINK_LABELS),
        numa=_label(labels, names.NUMA_LABELS)[:32],
        cpus=_label(labels, names.CPU_LABELS)[:32],
        profile=labels.get(names.PROFILE_LABEL, ""),
        arch=labels.get(names.ARCH_LABEL, "")[:16],
        hugepages={
            key.removeprefix(HUGEPAGES): pages
            for key, amount in sorted(allocatable.items())
            if key.startswith(HUGEPAGES) and (pages := _whole_gib(amount))
        },
    )


def _label(labels: Mapping[str, str], keys: Iterable[str]) -> str:
    return next((labels[key] for key in keys if labels.get(key)), "")


def _whole_gib(amount: str) -> int:
    """Rounded down: a fraction of a GiB cannot be sold."""
    return int(quantity(amount) / Fraction(GIB))
