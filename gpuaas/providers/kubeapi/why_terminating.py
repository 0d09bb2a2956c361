"""Explains why a namespace's deletion is stuck: what is left, what blocks it, since when, and what an operator can do."""

import re
from collections.abc import Iterator
from datetime import datetime

from gpuaas.core.errors import GpuaasError, Unavailable
from gpuaas.providers.kubeapi.client import Api, Object

GOING = "the site is deleting the namespace"
KINDS_SHOWN, OBJECTS_SHOWN = 4, 2
_COUNTED = re.compile(r"([a-z0-9]+)\.([a-z0-9.-]*) has (\d+) resource instances")
_WEBHOOK = re.compile(r'webhook "([^"]+)"')
_API = re.compile(r"\b([a-z0-9.-]+\.[a-z0-9.-]+/v[a-z0-9]+)\b")
APISERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"


def explain(api: Api, namespace: Object) -> str:
    """From the conditions of Kubernetes' namespace controller; objects are looked up by the kinds that it counted."""
    conditions = {
        each["type"]: each
        for each in (namespace.get("status") or {}).get("conditions") or []
        if each["status"] == "True"
    }
    reasons = [
        *_discovery(api, conditions.get("NamespaceDeletionDiscoveryFailure")),
        *_refused(conditions.get("NamespaceDeletionContentFailure")),
        *_left(api, namespace["metadata"]["name"], conditions),
    ]
    return "; ".join(reasons) or GOING


def _discovery(api: Api, condition: Object | None) -> Iterator[str]:
    if condition is None:
        return
    down = _down(api) or sorted(set(_API.findall(condition.get("message", ""))))
    what = ", ".join(down) or "one of its API groups"
    yield (
        f"the site cannot list what is left, because {what} has not answered since {_when(condition)}: an operator must "
        "repair its server or delete its APIService"
    )


def _down(api: Api) -> list[str]:
    """Unavailable APIServices, each with its service."""
    try:
        found = api.items(APISERVICES)
    except GpuaasError:  # the portal's credentials may lack this right
        return []
    down = []
    for each in found:
        conditions = {c["type"]: c["status"] for c in (each.get("status") or {}).get("conditions") or []}
        service = each["spec"].get("service")
        if service and conditions.get("Available") != "True":
            down.append(f"{each['metadata']['name']} ({service['namespace']}/{service['name']})")
    return sorted(down)


def _refused(condition: Object | None) -> Iterator[str]:
    if condition is None:
        return
    message = condition.get("message", "")
    webhook = _WEBHOOK.search(message)
    if webhook:
        yield (
            f"the admission webhook {webhook[1]} has blocked it since {_when(condition)}: an operator must repair its "
            "server or delete its configuration"
        )
    else:
        yield f"the site has failed to delete everything since {_when(condition)}: {message[:200]}"


def _left(api: Api, namespace: str, conditions: dict[str, Object]) -> Iterator[str]:
    content = conditions.get("NamespaceContentRemaining")
    kinds = _COUNTED.findall(content.get("message", "")) if content else []
    held = False
    for plural, group, count in kinds[:KINDS_SHOWN]:
        objects = _objects(api, namespace, plural, group)
        finalized = [each for each in objects if each["metadata"].get("finalizers")]
        held = held or bool(finalized)
        yield from (_held(plural, each) for each in finalized[:OBJECTS_SHOWN])
        if more := int(count) - len(finalized[:OBJECTS_SHOWN]):
            yield f"{more} {'more ' if finalized else ''}{plural} left"
    if not kinds and content:
        yield content["message"]
    finalizers = conditions.get("NamespaceFinalizersRemaining")
    if finalizers and not held:
        yield finalizers["message"]
    if held:
        yield "the controller that a finalizer names must remove it; if that controller no longer exists, an operator must"


def _held(plural: str, found: Object) -> str:
    meta = found["metadata"]
    since = datetime.fromisoformat(meta["deletionTimestamp"]) if meta.get("deletionTimestamp") else None
    words = f"{plural}/{meta['name']} waits for {', '.join(meta['finalizers'])}"
    return f"{words} since {since:%Y-%m-%d %H:%M} UTC" if since else words


def _objects(api: Api, namespace: str, plural: str, group: str) -> list[Object]:
    """Empty if they cannot be read: then only the count is shown."""
    try:
        version = api.get(f"/apis/{group}")["preferredVersion"]["groupVersion"] if group else ""
        base = f"/apis/{version}" if group else "/api/v1"
        return api.items(f"{base}/namespaces/{namespace}/{plural}")
    except Unavailable:
        raise
    except (GpuaasError, KeyError):
        return []


def _when(condition: Object) -> str:
    since = condition.get("lastTransitionTime")
    return f"{datetime.fromisoformat(since):%Y-%m-%d %H:%M} UTC" if since else "a moment ago"
