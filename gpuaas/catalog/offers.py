"""Selection of flavors by attributes, and the description of a flavor."""

import uuid
from dataclasses import dataclass
from typing import TypedDict

from django.db.models import Exists, OuterRef, Q, QuerySet

from gpuaas.catalog.models import Flavor, GpuType, Node

# the kubelet's policy under which a pod's devices, cores and memory are of one NUMA node, or the pod does not start
ONE_NUMA_NODE = "single-numa-node"


class Wanted(TypedDict, total=False):
    """The fields of `Attributes`, all of them optional."""

    memory_gib_min: int
    compute_capability_min: str
    ecc: bool | None
    mig_capable: bool | None
    interconnect: str
    arch: str
    nvlink_domain: bool | None
    whole_node: bool | None
    same_numa: bool | None
    same_rack: bool | None


@dataclass(frozen=True)
class Attributes:
    """Requirements on a GPU and its nodes; numbers are minimums, None and "" mean no requirement.

    A fact that the site does not report matches neither True nor False.
    """

    memory_gib_min: int = 0
    compute_capability_min: str = ""
    ecc: bool | None = None
    mig_capable: bool | None = None
    interconnect: str = ""
    arch: str = ""
    nvlink_domain: bool | None = None
    whole_node: bool | None = None
    same_numa: bool | None = None
    same_rack: bool | None = None


def with_traits(rows: QuerySet[Flavor]) -> QuerySet[Flavor]:
    """Annotated with what all nodes of the pool have: same_numa, same_rack; and nvlink_domain, what any of them has."""
    nodes = Node.objects.filter(pool=OuterRef("pool"), capacity__gt=0)
    return rows.annotate(
        same_numa=Exists(nodes) & ~Exists(nodes.exclude(numa=ONE_NUMA_NODE)),
        same_rack=Exists(nodes) & ~Exists(nodes.filter(rack="")),
        nvlink_domain=Exists(nodes.exclude(nvlink_domain="")),
    )


def matching(rows: QuerySet[Flavor], wanted: Attributes) -> QuerySet[Flavor]:
    """`rows` come from `with_traits`."""
    condition = Q()
    if wanted.memory_gib_min:
        condition &= Q(pool__gpu_type__memory_gib__gte=wanted.memory_gib_min)
    if wanted.interconnect:
        condition &= Q(pool__gpu_type__interconnect__iexact=wanted.interconnect)
    if wanted.arch:
        condition &= Q(pool__arch__iexact=wanted.arch)
    if wanted.compute_capability_min:
        condition &= Q(pool__gpu_type__in=_capable(wanted.compute_capability_min))
    switches = {
        "pool__gpu_type__ecc": wanted.ecc,
        "pool__gpu_type__mig_capable": wanted.mig_capable,
        "whole_node": wanted.whole_node,
        "same_numa": wanted.same_numa,
        "same_rack": wanted.same_rack,
        "nvlink_domain": wanted.nvlink_domain,
    }
    return rows.filter(condition, **{key: value for key, value in switches.items() if value is not None})


def _capable(least: str) -> list[uuid.UUID]:
    """GPU types of at least this compute capability, compared as numbers: 10.0 is more than 9.0."""
    rows = GpuType.objects.exclude(compute_capability="").values_list("pk", "compute_capability")
    return [pk for pk, have in rows if _numbers(have) >= _numbers(least)]


def _numbers(version: str) -> tuple[int, ...]:
    """9 is 9.0."""
    parts = [int(part) if part.isascii() and part.isdigit() else 0 for part in version.split(".")]
    while parts and not parts[-1]:
        parts.pop()
    return tuple(parts)


def notice_words(seconds: int) -> str:
    """What borrowing means, in the same words everywhere."""
    return f"Spot: can be ended with {seconds:,} seconds' notice"


def gives(flavor: Flavor) -> list[str]:
    """Describes one unit of the flavor for people; flavors from `with_traits` include facts of their nodes."""
    node = "a whole node of " if flavor.whole_node else ""
    lines = [
        f"{node}{flavor.gpus} × {flavor.pool.gpu_type.name}",
        f"{flavor.vcpus} vCPU{', exclusive cores' if flavor.exclusive_cpus else ''}",
        _memory(flavor),
    ]
    if flavor.is_lent:
        lines.insert(0, notice_words(flavor.notice_seconds))
    if flavor.disk_gib:
        lines.append(f"{flavor.disk_gib} GiB of the node's disk")
    if flavor.sysctls:
        lines.append(f"pods may set {', '.join(flavor.sysctls)}")
    if flavor.pool.arch:
        lines.append(f"nodes of the architecture {flavor.pool.arch}")
    if flavor.profile:
        lines.append(f"nodes with the profile {flavor.profile}")
    facts = {
        "same_numa": "GPUs, cores and memory of a pod are on one NUMA node",
        "same_rack": "pods can be put into one rack",
        "nvlink_domain": "nodes are joined by NVLink",
    }
    return lines + [text for name, text in facts.items() if getattr(flavor, name, False)]


def _memory(flavor: Flavor) -> str:
    pages = f", of it {flavor.hugepages_gib} GiB as hugepages of {flavor.get_hugepages_size_display()}"
    return f"{flavor.memory_gib} GiB memory{pages if flavor.hugepages_size else ''}"
