"""A workspace as its pages show it: rows of lists, what it holds, meters."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from billing.selectors.running import NOTHING_RUNS, HolderRate
from frontend.components import Meter
from frontend.presenters import held
from gpuaas.catalog.offers import notice_words
from gpuaas.providers.base import storage_key
from gpuaas.workspaces.models import Workspace, WorkspaceFlavor
from gpuaas.workspaces.states import WorkspaceState

SHARED = (("cpu", "vCPU", ""), ("memory", "Memory", "GiB"), ("storage", "Storage", "GiB"))


@dataclass(frozen=True, kw_only=True)
class Row(held.Row):
    """Amounts are None for roles that see no money. per_hour: of what runs now."""

    per_hour: Decimal | None
    month: Decimal | None
    currency: str
    project: str
    organization: str


def holds_of(workspace: Workspace) -> str:
    """`4 → 6 × H100 SXM, 2 × A100, 500 GiB`: the confirmed and the requested size."""
    parts = [_holding(item, workspace) for item in workspace.flavors.all() if item.count or item.confirmed]
    if workspace.storage_gib:
        parts.append(f"{workspace.storage_gib:,} GiB")
    parts += [f"{row.gib:,} GiB {row.storage_class.slug}" for row in workspace.storage.all() if row.gib]
    words = ", ".join(parts) or "nothing"
    return f"{words}. {notice_words(workspace.notice_seconds)}" if workspace.is_spot else words


def _holding(item: WorkspaceFlavor, workspace: Workspace) -> str:
    changing = workspace.state == WorkspaceState.RESIZING and item.count != item.confirmed
    count = f"{item.confirmed} → {item.count}" if changing else str(item.count or item.confirmed)
    return f"{count} × {item.flavor.name}"


def row_of(
    workspace: Workspace,
    *,
    now: datetime,
    rates: Mapping[Any, HolderRate] | None = None,
    costs: Mapping[Any, Decimal] | None = None,
    currency: str = "",
) -> Row:
    return Row(
        **held.row_facts(workspace, now=now),
        holds=holds_of(workspace),
        per_hour=None if rates is None else rates.get(workspace.pk, NOTHING_RUNS).known,
        month=None if costs is None else costs.get(workspace.pk, Decimal(0)),
        currency=currency,
        project=workspace.project.slug,
        organization=workspace.project.organization.name,
    )


def meters_of(workspace: Workspace) -> tuple[Meter, ...]:
    """What the site enforces: allocated, held but not allocated, and added by a running resize."""
    hard: Mapping[str, int] = workspace.observed.get("hard", {})
    used: Mapping[str, int] = workspace.observed.get("used", {})
    names: dict[str, str] = {}
    classes = list(workspace.storage.all())
    wanted: dict[str, int] = {"storage": workspace.storage_gib + sum(row.gib for row in classes)}
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
    wanted |= {storage_key(row.storage_class.name): row.gib for row in classes}
    rows = [(key, name, "") for key, name in names.items()] + list(SHARED)
    rows += [
        (storage_key(row.storage_class.name), f"Storage {row.storage_class.slug}", "GiB") for row in classes
    ]
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
    words = f"{taken:,} allocated of {limit:,}{then}{f' {unit}' if unit else ''}"
    return Meter(
        used=min(taken, limit),
        held=max(limit - taken, 0),
        asked=coming,
        limit=max(limit + coming, taken),
        label=name,
        text=words,
    )
