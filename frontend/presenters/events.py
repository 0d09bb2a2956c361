"""The events of a workspace as sentences: its state changes and, for readers who may see it, the audit log."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import QuerySet
from django.db.models.functions import Coalesce
from django.utils.dateparse import parse_datetime

from frontend import formats
from frontend.lists import some_of
from frontend.presenters.pods import eviction_rows, gpu_names
from gpuaas.workspaces.models import Eviction, Workspace, WorkspaceTransition
from gpuaas.workspaces.selectors import evictions_of
from gpuaas.workspaces.states import MACHINE, WorkspaceState
from tenants.models import AuditEntry

SHOWN = 12
Say = Callable[[dict[str, Any], dict[str, Any], Any], str]


@dataclass(frozen=True)
class Event:
    at: datetime
    actor: str
    text: str


def events_of(
    workspace: Workspace,
    *,
    with_audit: bool,
    zone: Any,
    most: int | None = SHOWN,
    skipped: int = 0,
    oldest_first: bool = False,
) -> tuple[list[Event], int]:
    """`most` of them after the first `skipped`, newest first, and how many there are; three queries at most. Everybody sees what
    the warden removed, so the audit log's entry is left out."""
    names = gpu_names(workspace)

    def removed(row: Eviction) -> Event:
        (shown,) = eviction_rows([row], names)
        return Event(shown.at, "portal", f"{shown.name}: {shown.text}")

    ended = evictions_of(workspace=workspace).select_related("workspace__project", "workspace__site")
    sources: list[tuple[QuerySet[Any], Callable[[Any], Event]]] = [
        (workspace.transitions.all(), lambda row: Event(row.at, row.actor, transition_words(row))),
        (ended.annotate(at=Coalesce("removed_at", "seen_at")), removed),
    ]
    if with_audit:
        entries = AuditEntry.objects.filter(target_kind="workspace", target_id=str(workspace.pk))
        said = entries.exclude(action="workspace.evict")
        sources.append((said, lambda row: Event(row.at, row.actor, audit_words(row, zone))))
    found, total = [], 0
    for rows, say in sources:
        order = ("at", "pk") if oldest_first else ("-at", "-pk")
        some, count = some_of(rows.order_by(*order), None if most is None else skipped + most)
        found += [say(row) for row in some]
        total += count
    found.sort(key=lambda event: event.at, reverse=not oldest_first)
    return found[skipped : None if most is None else skipped + most], total


def transition_words(row: WorkspaceTransition) -> str:
    label = MACHINE.looks[WorkspaceState(row.new)].label
    return f"{label}: {row.reason}" if row.reason else label


def audit_words(entry: AuditEntry, zone: Any = None) -> str:
    """A sentence for known actions, the name of the action for others."""
    say = WORDS.get(entry.action)
    return (
        say(entry.before or {}, entry.after or {}, zone)
        if say
        else entry.action.replace(".", " ").replace("_", " ")
    )


def _sizes(values: dict[str, Any]) -> str:
    parts = [f"{count} × {slug}" for slug, count in (values.get("items") or {}).items()]
    if values.get("storage_gib"):
        parts.append(f"{values['storage_gib']:,} GiB")
    parts += [f"{gib:,} GiB {slug}" for slug, gib in (values.get("storage_classes") or {}).items()]
    return ", ".join(parts) or "nothing"


def _moment(value: Any, zone: Any) -> str:
    at = parse_datetime(str(value or ""))
    return formats.when(at, zone)


def _names(values: dict[str, Any]) -> str:
    return ", ".join(f"{name} ({role})" for name, role in values.items())


def _credentials(count: Any) -> str:
    return "1 credential" if count == 1 else f"{count or 'the'} credentials"


WORDS: dict[str, Say] = {
    "workspace.request": lambda _before, after, _zone: f"Requested {_sizes(after)}",
    "workspace.resize": lambda before, after, _zone: (
        f"Requested a resize from {_sizes(before)} to {_sizes(after)}"
    ),
    "workspace.extend": lambda before, after, zone: (
        f"Extended the lease from {_moment(before.get('lease_ends_at'), zone)} "
        f"to {_moment(after.get('lease_ends_at'), zone)}"
    ),
    "workspace.delete": lambda _before, _after, _zone: "Requested deletion",
    "workspace.retry": lambda _before, _after, _zone: "Requested a retry",
    "workspace.kubeconfig": lambda _before, after, zone: (
        f"Got a kubeconfig, valid until {_moment(after.get('expires_at'), zone)}"
    ),
    "workspace.clouds_yaml": lambda _before, after, zone: (
        f"Got a clouds.yaml, valid until {_moment(after.get('expires_at'), zone)}"
    ),
    "workspace.member_set": lambda _before, after, _zone: f"Added {_names(after)}",
    "workspace.member_remove": lambda before, _after, _zone: f"Removed {_names(before)}",
    "workspace.lend": lambda _before, after, _zone: (
        "Opened it to jobs of the project"
        if after.get("open_to_project")
        else "Closed it to jobs of the project"
    ),
    "workspace.suspend": lambda _before, _after, _zone: "Requested suspension",
    "workspace.resume": lambda _before, _after, _zone: "Requested resumption",
    "workspace.adopt": lambda _before, after, _zone: f"Adopted existing resources: {_sizes(after)}",
    "workspace.drift_check": lambda _before, _after, _zone: "Requested a comparison with the site",
    "workspace.drift_repair": lambda _before, _after, _zone: "Requested repair of changes at the site",
    "workspace.access_revoke": lambda _before, after, _zone: (
        f"Revoked {_credentials(after.get('credentials'))} of {after.get('of', '')}"
    ),
    "workspace.robot_create": lambda _before, after, _zone: (
        f"Created the service account {after.get('name', '')} ({after.get('role', '')})"
    ),
    "workspace.robot_delete": lambda _before, after, _zone: (
        f"Deleted the service account {after.get('name', '')}"
    ),
    "workspace.robot_access": lambda _before, after, zone: (
        f"Issued a credential to {after.get('of', '')}, valid until {_moment(after.get('expires_at'), zone)}"
    ),
}
