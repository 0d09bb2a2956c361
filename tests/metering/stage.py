"""Pods, events and a workspace for tests of metering."""

import uuid
from datetime import UTC, datetime

from gpuaas.catalog.models import Flavor
from gpuaas.metering.models import UsageInterval
from gpuaas.providers.base import ObservedConsumer, UsageEvent, UsageKind
from gpuaas.workspaces.models import Workspace, WorkspaceFlavor
from tenants.models import Project, User

GPU = "nvidia.com/gpu"


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def workspace_make(project: Project, flavor: Flavor, user: User, *, name: str = "train") -> Workspace:
    workspace = Workspace.objects.create(
        project=project,
        site=flavor.pool.site,
        name=name,
        lease_ends_at=utc("2030-01-01"),
        created_by=user,
        created_at=utc("2026-01-01"),
    )
    WorkspaceFlavor.objects.create(workspace=workspace, flavor=flavor, count=8)
    return workspace


def pod(
    uid: str = "pod-1",
    *,
    start: datetime | None,
    end: datetime | None = None,
    gpus: int = 1,
    resource: str = GPU,
    node: str = "",
) -> ObservedConsumer:
    return ObservedConsumer(
        uid=uid,
        name=uid,
        phase="Running",
        node=node,
        gpus={resource: gpus},
        created_at=start or utc("2026-11-01"),
        started_at=start,
        ended_at=end,
    )


def seen(workspace: Workspace, consumer: ObservedConsumer, at: datetime) -> UsageEvent:
    return UsageEvent(UsageKind.SEEN, at, workspace_name=workspace.external_name, consumer=consumer)


def gone(workspace: Workspace, consumer: ObservedConsumer, at: datetime) -> UsageEvent:
    return UsageEvent(UsageKind.GONE, at, workspace_name=workspace.external_name, consumer=consumer)


def bookmark(at: datetime, cursor: str = "1") -> UsageEvent:
    return UsageEvent(UsageKind.BOOKMARK, at, cursor=cursor)


def listed(at: datetime, *events: UsageEvent, cursor: str = "1") -> list[UsageEvent]:
    return [UsageEvent(UsageKind.RELIST, at), *events, UsageEvent(UsageKind.RELISTED, at, cursor=cursor)]


Row = tuple[str, str, int, datetime, datetime | None, datetime, str, object]


def rows_of(site_id: uuid.UUID) -> list[Row]:
    """All that an interval says, without its own id."""
    return list(
        UsageInterval.objects.filter(site_id=site_id)
        .order_by("consumer_uid", "meter", "resource_name")
        .values_list(
            "consumer_uid",
            "meter",
            "quantity",
            "started_at",
            "ended_at",
            "last_seen_at",
            "ended_by",
            "flavor_id",
        )
    )


def seconds_of(uid: str) -> int:
    row = UsageInterval.objects.get(consumer_uid=uid)
    assert row.ended_at is not None
    return int((row.ended_at - row.started_at).total_seconds())
