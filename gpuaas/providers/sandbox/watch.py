"""The usage stream of a simulated site: a full list if the cursor is too old, then the growing event log."""

import time
from collections.abc import Iterator

from gpuaas.core import clock
from gpuaas.providers.base import Connection, UsageEvent, UsageKind
from gpuaas.providers.sandbox.dials import call, refuse_where_down, site_write
from gpuaas.providers.sandbox.models import SandboxEvent, SandboxNamespace, SandboxPod, SandboxSite
from gpuaas.providers.sandbox.simulation import advance, consumer_from, consumer_of

POLL_SECONDS = 0.25


def usage_stream(connection: Connection, cursor: str, *, seconds: int) -> Iterator[UsageEvent]:
    """See UsageCapability. Every round ends with a bookmark; `seconds` = 0 gives one round."""
    deadline = time.monotonic() + seconds
    with call(connection, "watch"):
        position, listed = _start(connection, cursor)
    yield from listed
    while True:
        position, news = _news(connection, position)
        yield from news
        left = deadline - time.monotonic()
        if left <= 0:
            return
        time.sleep(min(POLL_SECONDS, left))


def _start(connection: Connection, cursor: str) -> tuple[int, list[UsageEvent]]:
    with site_write(connection.site_id) as site:
        now = clock.now()
        advance(site, now=now)
        if cursor.isdecimal() and site.event_floor <= int(cursor) <= site.revision:
            return int(cursor), []
        pods = SandboxPod.objects.filter(site=site, namespace__owner__isnull=False)
        seen = [
            UsageEvent(
                kind=UsageKind.SEEN, at=now, workspace_name=pod.namespace.name, consumer=consumer_of(pod)
            )
            for pod in pods.select_related("namespace")
        ]
        first = UsageEvent(kind=UsageKind.RELIST, at=now)
        last = UsageEvent(kind=UsageKind.RELISTED, at=now, cursor=str(site.revision))
        return site.revision, [first, *seen, last]


def _news(connection: Connection, position: int) -> tuple[int, list[UsageEvent]]:
    """Events after `position` and a bookmark; a compaction that overtook us starts over with a full list."""
    refuse_where_down(SandboxSite.objects.get(pk=connection.site_id))
    with site_write(connection.site_id) as site:
        now = clock.now()
        advance(site, now=now)
        floor, revision = site.event_floor, site.revision
        rows = list(SandboxEvent.objects.filter(site=site, revision__gt=position))
    if position < floor:
        return _start(connection, "")
    others = SandboxNamespace.objects.filter(site=site, owner__isnull=True)
    foreign = set(others.values_list("name", flat=True))
    news = [
        UsageEvent(
            kind=UsageKind.GONE if row.gone else UsageKind.SEEN,
            at=now,
            workspace_name=row.namespace,
            consumer=consumer_from(row.consumer),
        )
        for row in rows
        if row.namespace not in foreign
    ]
    return revision, [*news, UsageEvent(kind=UsageKind.BOOKMARK, at=now, cursor=str(revision))]
