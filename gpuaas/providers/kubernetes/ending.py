"""Ending pods: politely, but not for longer than we say, and by force where a node or a finalizer does not let go."""

from datetime import datetime, timedelta

from gpuaas.core.clock import now
from gpuaas.providers.kubernetes import pods
from gpuaas.providers.kubernetes.client import Api, Object

# how long after its deadline something counts as stuck (a lost node, a finalizer) and is removed by force
STUCK_AFTER = timedelta(seconds=30)


def is_overdue(found: Object) -> bool:
    deadline = found["metadata"].get("deletionTimestamp")
    return bool(deadline) and datetime.fromisoformat(deadline) + STUCK_AFTER < now()


def end(api: Api, collection: str, pod: Object, *, seconds: int) -> None:
    """Its own grace, `seconds` at most: also for one that ends already and has given itself a year."""
    meta = pod["metadata"]
    own = pod["spec"].get("terminationGracePeriodSeconds", seconds)
    left = meta.get("deletionGracePeriodSeconds") if "deletionTimestamp" in meta else None
    path = f"{collection}/{meta['name']}"
    if left is None or left > seconds:
        grace = {"gracePeriodSeconds": min(own, seconds), "preconditions": {"uid": meta["uid"]}}
        api.delete(path, grace)
    elif is_overdue(pod):
        _force(api, path, pod)


def _force(api: Api, path: str, pod: Object) -> None:
    """A finalizer on a pod is the tenant's or of a part that does not answer: it must not hold GPUs for ever."""
    if pod["metadata"].get("finalizers"):
        api.merge(path, {"metadata": {"uid": pod["metadata"]["uid"], "finalizers": None}})
    api.delete(path, gracePeriodSeconds="0")


def in_words(left: list[Object]) -> str:
    """`3 pods with 2 GPUs are ending, the last by 14:03:20 UTC`."""
    count = sum(amount for pod in left if pods.holds_devices(pod) for amount in pods.devices(pod).values())
    one = len(left) == 1
    words = f"{len(left)} {'pod' if one else 'pods'}"
    if count:
        words += f" with {count} {'GPU' if count == 1 else 'GPUs'}"
    words += " is ending" if one else " are ending"
    deadlines = [
        pod["metadata"]["deletionTimestamp"] for pod in left if "deletionTimestamp" in pod["metadata"]
    ]
    if deadlines:
        words += f", {'' if one else 'the last '}by {datetime.fromisoformat(max(deadlines)):%H:%M:%S} UTC"
    return words
