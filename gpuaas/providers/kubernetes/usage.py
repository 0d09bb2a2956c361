"""Who uses what, as a stream: one list, then a watch that goes on where the last one stopped.

The cursor is a version of a list or of a bookmark, never of a pod: only those say "up to here, everything".
"""

from collections.abc import Generator, Iterator

from gpuaas.core.clock import now
from gpuaas.providers.base import UsageEvent, UsageKind
from gpuaas.providers.kubernetes import names, pods
from gpuaas.providers.kubernetes.client import Api, Expired, Object

PODS = "/api/v1/pods"
KINDS = {"ADDED": UsageKind.SEEN, "MODIFIED": UsageKind.SEEN, "DELETED": UsageKind.GONE}


def watch_usage(api: Api, cursor: str, *, seconds: int) -> Iterator[UsageEvent]:
    if not cursor:
        cursor = yield from _relist(api)
    try:
        yield from _watch(api, cursor, seconds=seconds)
    except Expired:
        cursor = yield from _relist(api)
        yield from _watch(api, cursor, seconds=seconds)


def _relist(api: Api) -> Generator[UsageEvent, None, str]:
    """Its value is the list's version."""
    yield UsageEvent(kind=UsageKind.RELIST, at=now())
    version = ""
    for page in api.pages(PODS):
        version = page["metadata"]["resourceVersion"]
        for pod in page.get("items") or []:
            if _is_tenants(pod):
                yield _event(UsageKind.SEEN, pod)
    yield UsageEvent(kind=UsageKind.RELISTED, at=now(), cursor=version)
    return version


def _watch(api: Api, cursor: str, *, seconds: int) -> Iterator[UsageEvent]:
    """A quiet site sends no bookmark; that it closes the watch in good order proves as much."""
    for event in api.watch(PODS, version=cursor, seconds=seconds):
        if event["type"] == "BOOKMARK":
            cursor = event["object"]["metadata"]["resourceVersion"]
            yield UsageEvent(kind=UsageKind.BOOKMARK, at=now(), cursor=cursor)
        elif _is_tenants(event["object"]):
            yield _event(KINDS[event["type"]], event["object"])
    yield UsageEvent(kind=UsageKind.BOOKMARK, at=now(), cursor=cursor)


def _event(kind: UsageKind, pod: Object) -> UsageEvent:
    at = now()
    consumer = pods.vanished(pod, seen_at=at) if kind is UsageKind.GONE else pods.consumer(pod)
    return UsageEvent(kind=kind, at=at, workspace_name=pod["metadata"]["namespace"], consumer=consumer)


def _is_tenants(pod: Object) -> bool:
    return names.is_workspace_namespace(pod["metadata"]["namespace"])
