"""Pods or machines of a workspace: what they hold, why they wait, and which exceed what was bought."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from frontend import formats
from frontend.presenters.held import url_of
from frontend.presenters.words import PODS, words_of
from gpuaas.core.looks import Tone
from gpuaas.workspaces.allowances import over_quota
from gpuaas.workspaces.models import Eviction, Workspace

PHASES = {
    "Running": (Tone.OK, "Running", False),
    "Pending": (Tone.WARN, "Pending", True),
    "Succeeded": (Tone.OFF, "Done", False),
    "Failed": (Tone.BAD, "Failed", False),
    "Refused": (Tone.WARN, "Refused", False),
    # Nova's
    "ACTIVE": (Tone.OK, "Running", False),
    "BUILD": (Tone.WAIT, "Building", True),
    "SHUTOFF": (Tone.OFF, "Stopped", False),
    "PAUSED": (Tone.OFF, "Paused", False),
    "SUSPENDED": (Tone.OFF, "Suspended", False),
    "SHELVED": (Tone.OFF, "Shelved", False),
    "SHELVED_OFFLOADED": (Tone.OFF, "Shelved", False),
    "ERROR": (Tone.BAD, "Failed", False),
}
SURPLUS = "This exceeds what the workspace has bought and is being {}."


@dataclass(frozen=True)
class PodRow:
    """`owner`: its controller ("Job train"), "" if it has none. `why`: what it waits for."""

    name: str
    owner: str
    tone: Tone
    word: str
    waiting: bool
    gpus: str
    node: str
    age: str
    why: str
    surplus: bool = False
    url: str = ""


@dataclass(frozen=True)
class EvictionRow:
    name: str
    workspace: Workspace
    workspace_url: str
    gpus: str
    text: str
    at: datetime
    removed: bool


def gpu_names(workspace: Workspace) -> dict[str, str]:
    """Display names of the resources that the site counts."""
    return {
        item.flavor.pool.resource_name: item.flavor.pool.gpu_type.name for item in workspace.flavors.all()
    }


def pods_of(workspace: Workspace, evictions: Sequence[Eviction] = (), *, now: datetime) -> tuple[PodRow, ...]:
    names = gpu_names(workspace)
    surplus = {row.consumer_uid for row in evictions if row.removed_at is None}
    rows = workspace.observed.get("consumers", [])
    return tuple(_pod(row, names, surplus, now) for row in rows)


def _pod(row: Mapping[str, Any], names: Mapping[str, str], surplus: set[str], now: datetime) -> PodRow:
    phase = str(row.get("phase", ""))
    tone, word, waiting = PHASES.get(phase, (Tone.WAIT, phase or "Unknown", True))
    over = str(row.get("uid", "")) in surplus
    gpus = ", ".join(f"{n} × {names.get(key, key)}" for key, n in (row.get("gpus") or {}).items() if n)
    created = row.get("created_at")
    return PodRow(
        name=str(row.get("name", "")),
        owner=owner_words(str(row.get("owner") or "")),
        tone=Tone.BAD if over else tone,
        word="Surplus" if over else word,
        waiting=waiting and not over,
        gpus=gpus or "none",
        node=str(row.get("node") or ""),
        age=formats.duration(now - datetime.fromisoformat(created)) if created else formats.NONE,
        why=SURPLUS.format(PODS.evicted) if over else str(row.get("waiting_for") or ""),
        surplus=over,
    )


def owner_words(owner: str) -> str:
    """`Job/train` is `Job train`."""
    return owner.replace("/", " ", 1)


def pods_summary(pods: Sequence[PodRow]) -> str:
    """`4 running, 1 pending`: a count per state, in the order of the list."""
    counts: dict[str, int] = {}
    for pod in pods:
        counts[pod.word.lower()] = counts.get(pod.word.lower(), 0) + 1
    return ", ".join(f"{count} {word}" for word, count in counts.items())


def eviction_rows(rows: Sequence[Eviction], names: Mapping[str, str]) -> tuple[EvictionRow, ...]:
    return tuple(_eviction(row, names.get(row.resource_name, row.resource_name)) for row in rows)


def _eviction(row: Eviction, gpu: str) -> EvictionRow:
    """`Removed after 1.2 s: with it, the workspace held 3 …`. A consumer that ended before it was removed says so."""
    until = row.removed_at or row.seen_at
    ran = formats.duration(max((until - row.started_at).total_seconds(), 0.0))
    evicted = words_of(row.workspace.site).evicted
    if row.removed_at:
        verb = f"{evicted.capitalize()} after {ran}"
    elif over_quota(row.workspace):
        verb = f"Being {evicted}"
    else:
        verb = f"Released its GPUs before it was {evicted}"
    text = f"{verb}: with it, {held_words(row, gpu)}."
    return EvictionRow(
        name=row.consumer_name,
        workspace=row.workspace,
        workspace_url=url_of(row.workspace),
        gpus=f"{row.quantity:,} × {gpu}",
        text=text,
        at=row.removed_at or row.seen_at,
        removed=row.removed_at is not None or not over_quota(row.workspace),
    )


def held_words(row: Eviction, gpu: str) -> str:
    return f"the workspace held {row.held:,} {gpu} but has bought {row.limit:,}"
