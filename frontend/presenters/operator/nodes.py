"""Nodes of a site: what they have, how they stand and are tuned, and the chain of software on each."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.urls import reverse

from frontend.components import Fact
from frontend.presenters.operator.sites import ConditionShown, conditions_shown
from frontend.presenters.work import Work, work_of
from gpuaas.catalog.models import Node, NodeCheck, Site
from gpuaas.catalog.states import NodeCheckState
from gpuaas.core.conditions import Condition, conditions_read
from gpuaas.core.looks import Tone

CHECK_LOOKS = {
    NodeCheckState.WAITING: (Tone.WAIT, "Waiting"),
    NodeCheckState.RUNNING: (Tone.BUSY, "Running"),
    NodeCheckState.PASSED: (Tone.OK, "Passed"),
    NodeCheckState.FAILED: (Tone.BAD, "Failed"),
}
CHAIN = ("NodeFeatures", "GpuDriver", "DevicePlugin", "GpuLabels", "GpuMetrics", "CardsHealthy")
CPU_WORDS = {"static": "whole cores (static)", "none": "shared cores"}
NUMA_WORDS = {
    "single-numa-node": "one NUMA node for each pod",
    "restricted": "NUMA-aligned or refused",
    "best-effort": "NUMA-aligned where possible",
    "none": "not NUMA-aligned",
}


@dataclass(frozen=True)
class PartShown:
    """Devices of one kind on the node: allocated to what is ours, in use by others, unhealthy."""

    name: str
    capacity: int
    allocated: int
    others: int
    unhealthy: int


@dataclass(frozen=True)
class NodeShown:
    """One node of a site, whatever number of GPU types it has."""

    name: str
    url: str
    tone: Tone
    word: str
    reason: str
    parts: tuple[PartShown, ...]
    vcpus: int
    memory_gib: int
    traits: tuple[Fact, ...]
    checks: tuple[ConditionShown, ...]
    observed_at: datetime

    @property
    def failing(self) -> tuple[ConditionShown, ...]:
        return tuple(check for check in self.checks if check.tone is Tone.BAD)

    @property
    def unhealthy(self) -> int:
        return sum(part.unhealthy for part in self.parts)


@dataclass(frozen=True)
class CheckRun:
    """One run of the vendor's check; `output` is what it printed."""

    id: Any
    tone: Tone
    word: str
    open: bool
    detail: str
    output: str
    asked_by: str
    asked_at: datetime
    finished_at: datetime | None
    work: Work


def gpu_names_at(site: Site) -> dict[str, str]:
    """What people call what the site counts; a name that several GPU types share stays as it is."""
    found: dict[str, set[str]] = {}
    for key, name in site.pools.values_list("resource_name", "gpu_type__name"):
        found.setdefault(key, set()).add(name)
    return {key: names.pop() for key, names in found.items() if len(names) == 1}


def nodes_shown(site: Site, rows: Iterable[Node]) -> list[NodeShown]:
    """One per name, in the order of the rows; those rows are one per node and pool."""
    grouped: dict[str, list[Node]] = {}
    for row in rows:
        grouped.setdefault(row.name, []).append(row)
    return [_node(site, group) for group in grouped.values()]


def _node(site: Site, rows: Sequence[Node]) -> NodeShown:
    first = rows[0]
    parts = tuple(
        PartShown(
            name=row.pool.gpu_type.name,
            capacity=row.capacity,
            allocated=max(row.allocated - row.others, 0),
            others=row.others,
            unhealthy=row.unhealthy,
        )
        for row in rows
        if row.pool is not None
    )
    checks = conditions_shown(sorted(conditions_read(first.checks), key=_link))
    failing = any(check.tone is Tone.BAD for check in checks)
    tone, word = _look(first, sick=any(part.unhealthy for part in parts), failing=failing)
    return NodeShown(
        name=first.name,
        url=reverse("frontend:operator_node", args=[site.slug, first.name]),
        tone=tone,
        word=word,
        reason=first.reason,
        parts=parts,
        vcpus=first.vcpus,
        memory_gib=first.memory_gib,
        traits=_traits(first),
        checks=checks,
        observed_at=first.observed_at,
    )


def _link(item: Condition) -> tuple[int, str]:
    """The place of a check in the chain from the card to the exporter; what is not of it follows."""
    return (CHAIN.index(item.type) if item.type in CHAIN else len(CHAIN)), item.type


def _look(node: Node, *, sick: bool, failing: bool) -> tuple[Tone, str]:
    if not node.ready:
        return Tone.BAD, "Not ready"
    if node.cordoned:
        return Tone.OFF, "Cordoned"
    if sick:
        return Tone.WARN, "GPUs out"
    return (Tone.WARN, "Incomplete") if failing else (Tone.OK, "Ready")


def _traits(node: Node) -> tuple[Fact, ...]:
    """Only what the site says."""
    pages = ", ".join(f"{gib:,} GiB of {size}" for size, gib in sorted(node.hugepages.items()) if gib)
    found = (
        ("Zone", node.zone),
        ("Rack", node.rack),
        ("NVLink domain", node.nvlink_domain),
        ("Architecture", node.arch),
        ("CPU", CPU_WORDS.get(node.cpus, node.cpus)),
        ("Topology", NUMA_WORDS.get(node.numa, node.numa)),
        ("Hugepages", pages),
        ("Profile", node.profile),
    )
    return tuple(Fact(term, value) for term, value in found if value)


def check_run(row: NodeCheck, now: datetime) -> CheckRun:
    tone, word = CHECK_LOOKS[NodeCheckState(row.state)]
    return CheckRun(
        id=row.pk,
        tone=tone,
        word=word,
        open=row.finished_at is None,
        detail=row.detail,
        output=row.output,
        asked_by=row.requested_by,
        asked_at=row.requested_at,
        finished_at=row.finished_at,
        work=work_of(
            row,
            f"Requested by {row.requested_by}",
            f"A short-lived pod runs it on {row.node}",
            "Its output is shown here",
            since=row.requested_at,
            now=now,
        ),
    )
