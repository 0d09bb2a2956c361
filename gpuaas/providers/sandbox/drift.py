"""Drift at a simulated site: changes by its administrator, reported as by a real site."""

import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from gpuaas.core import clock
from gpuaas.core.errors import Permanent
from gpuaas.providers.base import Connection, Difference, SiteChange, WorkspaceSpec, storage_key
from gpuaas.providers.sandbox.dials import call, refuse_where_down, site_write
from gpuaas.providers.sandbox.models import NOTICE, SandboxChange, SandboxNamespace, SandboxSite
from gpuaas.providers.sandbox.watch import POLL_SECONDS

LIMITS = {"default": {"cpu": 1, "memory": 1}}
PROOF_SECONDS = 5.0


def tamper(site_id: uuid.UUID, namespace: str, what: str, *, by: str = "kubectl-edit", **change: Any) -> None:
    """Change or delete something of a namespace as the site's administrator.

    `what`: quota (resource, hard; None takes the key away), labels, limits, network, member (subject, role; None takes
    the binding away), namespace (all of it goes).
    """
    with site_write(site_id) as site:
        room = SandboxNamespace.objects.get(site=site, name=namespace)
        path = _tampered(room, what, change)
        SandboxChange.objects.create(site=site, namespace=namespace, path=path, by=by, at=clock.now())


def _tampered(room: SandboxNamespace, what: str, change: Mapping[str, Any]) -> str:
    match what:
        case "quota":
            rows = room.quotas.filter(resource=change["resource"])
            if change["hard"] is None:
                rows.delete()
            else:
                rows.update(wanted=change["hard"], hard=change["hard"])
            return f"quota[{change['resource']}]"
        case "labels" | "limits":
            setattr(room, what, change.get("value", {}))
            room.save(update_fields=[what])
            return what
        case "network":
            room.isolated = False
            room.save(update_fields=["isolated"])
            return "network"
        case "member":
            rows_of = room.members.filter(subject=change["subject"])
            if change["role"] is None:
                rows_of.delete()
            else:
                rows_of.update(role=change["role"])
            return f"members[{change['subject']}]"
        case "namespace":
            room.delete()
            return ""
    raise ValueError(f"cannot tamper with {what!r}")


def labels_of(spec: WorkspaceSpec) -> dict[str, str]:
    notice = {NOTICE: str(spec.notice_seconds)} if spec.notice_seconds else {}
    return {"project": spec.project_slug, "organization": spec.organization_slug, **notice}


def wanted(spec: WorkspaceSpec) -> tuple[dict[str, int], dict[str, dict[str, str]]]:
    """Quota keys and pinning. Raises Permanent if one resource name would have to mean two models."""
    hard = dict.fromkeys(spec.closed, 0)
    selectors: dict[str, dict[str, str]] = {}
    for gpu in spec.gpus:
        if selectors.setdefault(gpu.resource_name, dict(gpu.selector)) != dict(gpu.selector):
            raise Permanent(
                f"the site counts two of these GPU types by one name ({gpu.resource_name}); "
                "a workspace can hold only one of them"
            )
        if gpu.count < 0:
            raise Permanent("a quota cannot be negative")
        hard[gpu.resource_name] = hard.get(gpu.resource_name, 0) + gpu.count
    sizes = {"cpu": spec.vcpus, "memory": spec.memory_gib, "storage": spec.storage_gib}
    classes = {storage_key(name): gib for name, gib in spec.storage_limits.items()}
    return {**hard, **sizes, **classes}, selectors


def compare(
    room: SandboxNamespace | None,
    spec: WorkspaceSpec,
    hard: Mapping[str, int],
    selectors: Mapping[str, Mapping[str, str]],
    *,
    space: str,
) -> tuple[Difference, ...]:
    """`space`: the site's term for a workspace."""
    name, kind = spec.external_name, space.capitalize()
    if room is None or room.gone_at is not None:
        found = "missing" if room is None else "being deleted"
        return (Difference(f"{kind}/{name}", "", "present", found, step="namespace"),)
    members = {member.subject: member.role for member in spec.members}
    rows: list[tuple[str, str, str, Mapping[str, Any], Mapping[str, Any]]] = [
        (kind, "labels", "namespace", labels_of(spec), room.labels),
        ("Quota", "quota", "quota", hard, dict(room.quotas.values_list("resource", "wanted"))),
        ("Quota", "selectors", "quota", selectors, room.selectors),
        ("Limits", "limits", "limits", LIMITS, room.limits),
        ("Network", "", "network", {"network": True}, {"network": room.isolated}),
        ("Members", "members", "access", members, dict(room.members.values_list("subject", "role"))),
    ]
    differing = [one for row in rows for one in _mapping(*row)]
    authors = dict(
        SandboxChange.objects.filter(site=room.site, namespace=name).order_by("pk").values_list("path", "by")
    )
    return tuple(_signed(one, name, authors) for one in differing)


def _mapping(
    kind: str, prefix: str, step: str, wish: Mapping[str, Any], found: Mapping[str, Any]
) -> list[Difference]:
    return [
        Difference(
            kind,
            f"{prefix}[{key}]" if prefix else key,
            _text(wish.get(key)),
            _text(found.get(key)),
            "",
            step,
        )
        for key in sorted(wish.keys() | found.keys())
        if wish.get(key) != found.get(key)
    ]


def _signed(one: Difference, name: str, authors: Mapping[str, str]) -> Difference:
    by = authors.get(one.path) or authors.get(one.path.split("[")[0], "")
    return Difference(f"{one.object}/{name}", one.path, one.wanted, one.found, by, one.step)


def _text(value: object) -> str:
    return "" if value is None else str(value)


def changes_stream(connection: Connection, cursor: str, *, seconds: int) -> Iterator[SiteChange]:
    """See DriftCapability; `seconds` = 0 gives one round."""
    deadline, proved_at = time.monotonic() + seconds, float("-inf")
    with call(connection, "changes"):
        rows = SandboxChange.objects.filter(site=connection.site_id)
        if cursor.isdecimal():
            position = int(cursor)
        else:
            position = rows.order_by("pk").values_list("pk", flat=True).last() or 0
            yield SiteChange()
    while True:
        refuse_where_down(SandboxSite.objects.get(pk=connection.site_id))
        news = list(rows.filter(pk__gt=position).order_by("pk"))
        yield from dict.fromkeys(SiteChange(workspace_name=row.namespace) for row in news)
        position = news[-1].pk if news else position
        left = deadline - time.monotonic()
        if news or left <= 0 or time.monotonic() - proved_at >= PROOF_SECONDS:
            proved_at = time.monotonic()
            yield SiteChange(proof=True, cursor=str(position))
        if left <= 0:
            return
        time.sleep(min(POLL_SECONDS, left))
