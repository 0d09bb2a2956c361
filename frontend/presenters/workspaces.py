"""A workspace as its pages show it: rows of lists, the timeline, meters, pods and conditions."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.urls import reverse

from billing.selectors import Price
from frontend import formats
from frontend.components import Meter, Tone
from gpuaas.clusters.models import Cluster
from gpuaas.core.conditions import Status, conditions_read
from gpuaas.core.looks import Tone as StateTone
from gpuaas.metering.models import Meter as Metered
from gpuaas.workspaces.models import Workspace, WorkspaceFlavor
from gpuaas.workspaces.states import MACHINE, WorkspaceState

SOON = timedelta(days=3)
MOVING = frozenset(
    {
        WorkspaceState.REQUESTED,
        WorkspaceState.PROVISIONING,
        WorkspaceState.RESIZING,
        WorkspaceState.SUSPENDING,
        WorkspaceState.RESUMING,
        WorkspaceState.DELETING,
    }
)
ENDED = "Deleting"  # the reason of what a deletion has ended, as it should
CONDITION_TONES = {Status.TRUE: Tone.OK, Status.FALSE: Tone.BAD, Status.UNKNOWN: Tone.WAIT}
SHARED = (("cpu", "vCPU", ""), ("memory", "Memory", "GiB"), ("storage", "Storage", "GiB"))


@dataclass(frozen=True)
class Row:
    """One line of a list. Amounts are None for roles that see no money."""

    url: str
    name: str
    tone: StateTone
    word: str
    holds: str
    site: str
    created_by: str
    created_at: datetime
    lease_ends_at: datetime
    ends_soon: bool
    per_hour: Decimal | None
    month: Decimal | None


@dataclass(frozen=True)
class ConditionRow:
    name: str
    tone: Tone
    text: str
    remedy: str
    since: datetime


def look_of(workspace: Workspace) -> tuple[StateTone, str]:
    look = MACHINE.looks[WorkspaceState(workspace.state)]
    return look.tone, look.label


def url_of(workspace: Workspace) -> str:
    return reverse("frontend:workspace", args=[workspace.project.slug, workspace.pk])


def holds_of(workspace: Workspace) -> str:
    """`4 → 6 × H100 SXM, 2 × A100, 500 GiB`: what is there, and where it goes."""
    parts = [_holding(item, workspace) for item in workspace.flavors.all() if item.count or item.confirmed]
    if workspace.storage_gib:
        parts.append(f"{workspace.storage_gib:,} GiB")
    return ", ".join(parts) or "nothing"


def _holding(item: WorkspaceFlavor, workspace: Workspace) -> str:
    changing = workspace.state == WorkspaceState.RESIZING and item.count != item.confirmed
    count = f"{item.confirmed} → {item.count}" if changing else str(item.count or item.confirmed)
    return f"{count} × {item.flavor.name}"


def per_hour_of(workspace: Workspace, prices: Mapping[tuple[Any, Metered], Price]) -> Decimal | None:
    """What the wanted counts cost per hour; None while a price is missing."""
    total = Decimal(0)
    for item in workspace.flavors.all():
        held = prices.get((item.flavor_id, Metered.GPU_HELD))
        if held is None:
            return None
        total += held.per_hour * item.count * item.flavor.gpus
        for meter, amount in (
            (Metered.VCPU_HELD, item.flavor.vcpus),
            (Metered.MEMORY_HELD, item.flavor.memory_gib),
        ):
            shared = prices.get((None, meter))
            total += shared.per_hour * amount * item.count if shared else 0
    storage = prices.get((None, Metered.STORAGE_HELD))
    return total + (storage.per_hour * workspace.storage_gib if storage else 0)


def row_of(
    workspace: Workspace,
    *,
    now: datetime,
    prices: Mapping[tuple[Any, Metered], Price] | None = None,
    costs: Mapping[Any, Decimal] | None = None,
) -> Row:
    tone, word = look_of(workspace)
    gone = workspace.state == WorkspaceState.DELETED
    return Row(
        url=url_of(workspace),
        name=workspace.name,
        tone=tone,
        word=word,
        holds=holds_of(workspace),
        site=workspace.site.slug,
        created_by=workspace.created_by.username,
        created_at=workspace.created_at,
        lease_ends_at=workspace.lease_ends_at,
        ends_soon=not gone and workspace.lease_ends_at - now < SOON,
        per_hour=None if prices is None else (Decimal(0) if gone else per_hour_of(workspace, prices)),
        month=None if costs is None else costs.get(workspace.pk, Decimal(0)),
    )


def meters_of(workspace: Workspace) -> tuple[Meter, ...]:
    """What the site enforces: in use, held and not in use, and what arrives with a resize."""
    hard: Mapping[str, int] = workspace.observed.get("hard", {})
    used: Mapping[str, int] = workspace.observed.get("used", {})
    names: dict[str, str] = {}
    wanted: dict[str, int] = {"storage": workspace.storage_gib}
    for item in workspace.flavors.all():
        flavor = item.flavor
        names.setdefault(flavor.pool.resource_name, flavor.pool.gpu_type.name)
        amounts = {
            flavor.pool.resource_name: flavor.gpus,
            "cpu": flavor.vcpus,
            "memory": flavor.memory_gib,
        }
        for key, amount in amounts.items():
            wanted[key] = wanted.get(key, 0) + amount * item.count
    rows = [(key, name, "") for key, name in names.items()] + list(SHARED)
    shown = [_meter(key, name, unit, hard, used, wanted) for key, name, unit in rows]
    return tuple(meter for meter in shown if meter is not None)


def _meter(
    key: str,
    name: str,
    unit: str,
    hard: Mapping[str, int],
    used: Mapping[str, int],
    wanted: Mapping[str, int],
) -> Meter | None:
    limit, asked = hard.get(key, 0), wanted.get(key, 0)
    if not limit and not asked:
        return None
    taken = used.get(key, 0)
    coming = max(asked - limit, 0)
    then = f", then {asked:,}" if asked != limit else ""
    words = f"{taken:,} in use of {limit:,}{then}{f' {unit}' if unit else ''}"
    return Meter(
        used=min(taken, limit),
        held=max(limit - taken, 0),
        asked=coming,
        limit=max(limit + coming, taken),
        label=name,
        text=words,
    )


def conditions_of(row: Workspace | Cluster) -> tuple[ConditionRow, ...]:
    return tuple(
        ConditionRow(
            name=words_of(item.type),
            tone=Tone.OFF if item.reason == ENDED else CONDITION_TONES[item.status],
            text=formats.local_times(item.message) or words_of(item.reason),
            remedy=item.remedy,
            since=item.since,
        )
        for item in conditions_read(row.conditions)
    )


def words_of(camel: str) -> str:
    """`QuotaInSync` is `Quota in sync`, `GpuDriver` is `GPU driver`."""
    text = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in camel).strip()
    short = {"gpu": "GPU", "api": "API"}
    said = " ".join(short.get(word, word) for word in text.split())
    return said[:1].upper() + said[1:]
