"""Time at a simulated site: rows are advanced to `now` on every access, in the order of events.

There is no clock tick: a pod's end follows from its start and its duration, and the pod that waited for its devices
starts at that very instant, however late somebody looks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from django.db import connection
from django.db.models import F, Q

from gpuaas.providers.base import ObservedConsumer
from gpuaas.providers.sandbox.lending import buyers_first, reclaim
from gpuaas.providers.sandbox.models import (
    SandboxEvent,
    SandboxNamespace,
    SandboxNode,
    SandboxPod,
    SandboxQuota,
    SandboxSite,
)

NEWS = """
SELECT EXISTS (
    SELECT FROM sandbox_sandboxnamespace WHERE site_id = %(site)s AND (confirm_at <= %(now)s OR gone_at <= %(now)s)
) OR EXISTS (
    SELECT FROM sandbox_sandboxpod WHERE site_id = %(site)s AND (gone_at <= %(now)s OR (
        finished_at IS NULL AND (scheduled_at IS NULL OR gone_at IS NOT NULL OR run_seconds IS NOT NULL)
    ))
)
"""
# prefix of the owner of a pod by which a machine holds its devices: "Machine:<uid>/<name>"
MACHINE = "Machine:"
TIMES = ("created_at", "started_at", "ended_at", "uncharged_at")


def advance(site: SandboxSite, *, now: datetime) -> None:
    """Process everything that is due by `now`. The caller is the site's writer (`dials.site_write`)."""
    if not _has_news(site, now):
        return
    rooms = SandboxNamespace.objects.filter(Q(confirm_at__lte=now) | Q(gone_at__lte=now), site=site)
    due_rooms = list(rooms.values_list("pk", "confirm_at", "gone_at"))
    _quotas_confirm([pk for pk, confirm_at, _ in due_rooms if confirm_at is not None and confirm_at <= now])
    _pods_advance(site, now)
    if gone := [pk for pk, _, gone_at in due_rooms if gone_at is not None and gone_at <= now]:
        SandboxNamespace.objects.filter(pk__in=gone, pods=None).delete()


def _has_news(site: SandboxSite, now: datetime) -> bool:
    """Whether anything ends, waits or was set by `now`: every call to the site asks, and mostly nothing does."""
    with connection.cursor() as cursor:
        cursor.execute(NEWS, {"site": site.pk, "now": now})
        return bool(cursor.fetchone()[0])


def _pods_advance(site: SandboxSite, now: datetime) -> None:
    rows = SandboxPod.objects.filter(Q(finished_at=None) | Q(gone_at__lte=now), site=site)
    known = list(rows.select_related("namespace").order_by("created_at", "pk"))
    pods = [pod for pod in known if pod.finished_at is None]
    waits = any(pod.scheduled_at is None and pod.gone_at is None for pod in pods)
    nodes = list(SandboxNode.objects.filter(site=site)) if waits else []
    while due := [(end, pod) for pod in pods if (end := pod_end(pod)) is not None and end <= now]:
        at, pod = min(due, key=lambda pair: (pair[0], pair[1].pk))
        pods.remove(pod)
        _pod_finish(site, pod, at)
        _schedule(site, pods, nodes, at)
    _schedule(site, pods, nodes, now)
    for pod in known:
        if pod.gone_at is not None and pod.gone_at <= now:
            _pod_remove(site, pod)


def pod_end(pod: SandboxPod) -> datetime | None:
    """When a live pod ends: at the end of its run or of its grace period, whichever is first; None = not yet known."""
    ends = [pod.gone_at] if pod.gone_at else []
    if pod.scheduled_at is not None and pod.run_seconds is not None:
        ends.append(pod.scheduled_at + timedelta(seconds=pod.run_seconds))
    return min(ends, default=None)


def _quotas_confirm(rooms: Sequence[int]) -> None:
    if rooms:
        SandboxQuota.objects.filter(namespace__in=rooms).update(hard=F("wanted"))
        SandboxNamespace.objects.filter(pk__in=rooms).update(confirm_at=None)


def _pod_finish(site: SandboxSite, pod: SandboxPod, at: datetime) -> None:
    pod.finished_at = at
    if pod.scheduled_at is None:  # for a bound pod it is the reason of its eviction
        pod.waiting_for = ""
    pod.save(update_fields=["finished_at", "waiting_for"])
    for resource, amount in pod.charges.items():
        SandboxQuota.objects.filter(namespace=pod.namespace, resource=resource).update(
            used=F("used") - amount
        )
    if pod.gone_at is None or pod.gone_at > at:
        event_add(site, pod, at=at)


def _pod_remove(site: SandboxSite, pod: SandboxPod) -> None:
    event_add(site, pod, at=pod.gone_at or pod.created_at, gone=True)
    pod.delete()


def _schedule(
    site: SandboxSite, pods: Sequence[SandboxPod], nodes: Sequence[SandboxNode], at: datetime
) -> None:
    """Place waiting pods, buyers' first and the oldest first, each on the fullest node with room, which keeps large blocks free."""
    free = {
        node.pk: max(node.capacity - node.unhealthy, 0) if node.ready and not node.cordoned else 0
        for node in nodes
    }
    for pod in pods:
        if pod.node_id in free and pod.scheduled_at is not None:
            free[pod.node_id] -= pod.gpus
    for pod in buyers_first(pods):
        fitting = [node for node in nodes if fits_kind(pod, node)]
        if not _place(site, pod, fitting, free, at):
            _wait(pod, pods, fitting, free, at)


def fits_kind(pod: SandboxPod, node: SandboxNode) -> bool:
    """Whether the node has what the pod requests, within the pool that its namespace is pinned to."""
    if not pod.gpus:
        return node.ready and not node.cordoned
    pinned: Mapping[str, str] = pod.namespace.selectors.get(pod.resource_name, {})
    return node.resource_name == pod.resource_name and pinned.items() <= node.labels.items()


def _place(
    site: SandboxSite, pod: SandboxPod, nodes: Sequence[SandboxNode], free: dict[int, int], at: datetime
) -> bool:
    fitting = [node for node in nodes if not pod.gpus or free[node.pk] >= pod.gpus]
    if not fitting:
        return False
    node = min(fitting, key=lambda each: (free[each.pk], each.pk))
    free[node.pk] -= pod.gpus
    pod.node, pod.node_name, pod.scheduled_at, pod.waiting_for = node, node.name, at, ""
    pod.save(update_fields=["node", "node_name", "scheduled_at", "waiting_for"])
    event_add(site, pod, at=at)
    return True


def _wait(
    pod: SandboxPod,
    pods: Sequence[SandboxPod],
    nodes: Sequence[SandboxNode],
    free: dict[int, int],
    at: datetime,
) -> None:
    """For what is free one day; a buyer at the longest for what borrowers give back, which is promised to it."""
    found = None if pod.namespace.notice else reclaim(pod, pods, nodes, free, at)
    if found is None:
        waiting_for = _why_not(pod, nodes, free)
    else:
        chosen, by = found
        free[chosen] -= pod.gpus
        waiting_for = f"waits for borrowed {pod.resource_name}, which are given back by {by:%H:%M:%S} UTC"
    if waiting_for != pod.waiting_for:
        pod.waiting_for = waiting_for
        pod.save(update_fields=["waiting_for"])


def _why_not(pod: SandboxPod, nodes: Sequence[SandboxNode], free: Mapping[int, int]) -> str:
    if not nodes:
        return f"no node of this site's pool has {pod.resource_name or 'room'}"
    most = max(max(free[node.pk], 0) for node in nodes)
    if pod.gpus > max(node.capacity for node in nodes):
        return f"requests {pod.gpus} {pod.resource_name}, but the largest node has {max(node.capacity for node in nodes)}"
    return f"waits for {pod.gpus} free {pod.resource_name} on one node; the most free on one node is {most}"


# -- events for observers ----------------------------------------------------------------------------------------


def consumer_of(pod: SandboxPod) -> ObservedConsumer:
    """A pod by which a machine holds its devices is one stretch of that machine."""
    uid, name, owner = str(pod.uid), pod.name, pod.owner
    if owner.startswith(MACHINE):
        machine, _, name = owner.removeprefix(MACHINE).partition("/")
        uid, owner = f"{machine}:{uid}", ""
    return ObservedConsumer(
        uid=uid,
        name=name,
        phase=pod.phase,
        node=pod.node_name,
        gpus={pod.resource_name: pod.gpus} if pod.gpus else {},
        created_at=pod.created_at,
        started_at=pod.scheduled_at,
        ended_at=pod.finished_at,
        waiting_for=pod.waiting_for,
        owner=owner,
        uncharged_at=pod.gone_at,
    )


def event_add(site: SandboxSite, pod: SandboxPod, *, at: datetime, gone: bool = False) -> None:
    """The next revision of the watch log; the oldest events are compacted beyond the window."""
    site.revision += 1
    consumer: dict[str, Any] = asdict(consumer_of(pod))
    for key in TIMES:
        consumer[key] = consumer[key].isoformat() if consumer[key] else None
    SandboxEvent.objects.create(
        site=site, revision=site.revision, at=at, gone=gone, namespace=pod.namespace.name, consumer=consumer
    )
    floor = site.revision - site.event_window
    if floor > site.event_floor:
        SandboxEvent.objects.filter(site=site, revision__lte=floor).delete()
        site.event_floor = floor


def consumer_from(stored: Mapping[str, Any]) -> ObservedConsumer:
    times = {key: datetime.fromisoformat(stored[key]) if stored.get(key) else None for key in TIMES}
    return ObservedConsumer(**{**stored, **times})
