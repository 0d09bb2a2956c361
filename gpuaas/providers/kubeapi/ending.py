"""Ends pods: gracefully but with a limit, and by force if a lost node or a finalizer blocks them."""

from datetime import datetime, timedelta

from gpuaas.core.clock import now
from gpuaas.providers.kubeapi import demand, pods
from gpuaas.providers.kubeapi.client import Api, Object

# upper limit of a pod's grace period when its workspace or cluster is suspended
SUSPEND_GRACE_SECONDS = 300
# how long after its deadline something counts as stuck (a lost node, a finalizer) and is removed by force
STUCK_AFTER = timedelta(seconds=30)


def live(api: Api, collection: str) -> list[Object]:
    """Pods that have not finished."""
    return api.items(
        collection, fieldSelector=",".join(f"status.phase!={phase}" for phase in demand.FINISHED)
    )


def is_overdue(found: Object, *, besides: timedelta = timedelta()) -> bool:
    """besides: what it may take beyond its deadline."""
    deadline = found["metadata"].get("deletionTimestamp")
    return bool(deadline) and datetime.fromisoformat(deadline) + STUCK_AFTER + besides < now()


def end(api: Api, collection: str, pod: Object, *, seconds: int) -> None:
    """Delete with its own grace period, at most `seconds`; also shortens the period of a pod that is already ending."""
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
    """A pod's finalizer belongs to the tenant or to a component that does not answer: it must not hold GPUs forever."""
    if pod["metadata"].get("finalizers"):
        api.merge(path, {"metadata": {"uid": pod["metadata"]["uid"], "finalizers": None}})
    api.delete(path, gracePeriodSeconds="0")


def in_words(left: list[Object]) -> str:
    """`3 pods with 2 GPUs are ending, the last by 14:03:20 UTC`."""
    count = sum(amount for pod in left if pods.holds_devices(pod) for amount in demand.devices(pod).values())
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
