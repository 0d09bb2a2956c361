"""Workspaces that borrow their GPUs: the class of their pods, below all others, so that the scheduler ends them for a buyer's pod; and
which of them it has ended."""

import re
from collections.abc import Iterable
from datetime import datetime

from gpuaas.providers.kubeapi import names
from gpuaas.providers.kubeapi.client import Api, Object

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
PRIORITY = -2_000_000_000  # above the lowest number there is, below whatever a site may think of
PREEMPTED = "PreemptionByScheduler"  # the reason in the condition of a pod
DISRUPTED = "DisruptionTarget"


def priority_class() -> Object:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": names.SPOT, "labels": {names.MANAGED_BY: names.MANAGER}},
        "value": PRIORITY,
        "preemptionPolicy": "Never",
        "description": "Pods that borrow GPUs: they end once a pod of a workspace that bought them waits.",
    }


def ensure(api: Api) -> None:
    """Raises Permanent where the site has a class of this name with another value, which cannot be changed."""
    api.apply(CLASSES, priority_class())


def find(api: Api) -> Object | None:
    """The site's class of this name. By a list: the rights that sites have given include no `get` of a priority class."""
    return next((each for each in api.items(CLASSES) if each["metadata"]["name"] == names.SPOT), None)


def pod_fields(notice_seconds: int) -> Object:
    """Of the spec of a pod; none where it is not spot. All of the notice is its own: SIGTERM comes as it begins."""
    if not notice_seconds:
        return {}
    return {"priorityClassName": names.SPOT, "terminationGracePeriodSeconds": notice_seconds}


def is_preempted(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(
        each["type"] == DISRUPTED and each.get("reason") == PREEMPTED and each["status"] == "True"
        for each in conditions
    )


def preemptions(api: Api, namespace: str, live: Iterable[Object], named: str) -> list[tuple[datetime, str]]:
    """When the scheduler ended pods, with their names, oldest first: by what it has written as events, which outlive the pods for an
    hour, and by `live` pods that it is ending. named: the pattern of all of the name."""
    found = {
        pod["metadata"]["name"]: datetime.fromisoformat(pod["metadata"]["deletionTimestamp"])
        for pod in live
        if is_preempted(pod) and "deletionTimestamp" in pod["metadata"]
    }
    events = api.items(f"/api/v1/namespaces/{namespace}/events", fieldSelector="reason=Preempted")
    for each in events:
        name = str(each["involvedObject"].get("name", ""))
        if each["involvedObject"].get("kind") == "Pod" and re.fullmatch(named, name):
            at = each.get("eventTime") or each.get("lastTimestamp") or each["metadata"]["creationTimestamp"]
            found[name] = datetime.fromisoformat(at)
    return sorted((at, name) for name, at in found.items())
