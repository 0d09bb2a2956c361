"""What a simulated scheduler does for buyers: they come before borrowers, who are told to end where a buyer needs their devices."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from gpuaas.providers.sandbox.models import SandboxNamespace, SandboxNode, SandboxPod


def buyers_first(pods: Sequence[SandboxPod]) -> list[SandboxPod]:
    """Those that wait, the oldest of each first."""
    waiting = [pod for pod in pods if pod.scheduled_at is None and pod.gone_at is None]
    return sorted(waiting, key=lambda pod: pod.namespace.notice is not None)


def reclaim(
    pod: SandboxPod,
    pods: Sequence[SandboxPod],
    nodes: Sequence[SandboxNode],
    free: Mapping[int, int],
    at: datetime,
) -> tuple[int, datetime] | None:
    """Of a buyer that fits nowhere now: the node where it will, and by when; None where borrowers are not what is in its way.

    nodes: that have what it asks for. free: by node, without what is promised to older buyers. Borrowers there are told to end, no more
    of them than it takes; one whose run ends within its notice is let finish.
    """
    borrowed: dict[int, list[SandboxPod]] = {node.pk: [] for node in nodes}
    for each in pods:
        if each.scheduled_at is not None and each.gpus and each.node_id in borrowed and each.namespace.notice:
            borrowed[each.node_id].append(each)
    best: tuple[int, int, int] | None = None
    for node in nodes:
        there = Counter[bool]()
        for each in borrowed[node.pk]:
            there[_ends_by(each, at) is not None] += each.gpus
        missing = pod.gpus - free[node.pk] - there[True]
        if missing <= there[False]:
            best = min(filter(None, (best, (max(missing, 0), -free[node.pk], node.pk))))
    if best is None:
        return None
    missing, _, chosen = best
    for each in reversed(borrowed[chosen]):
        if missing > 0 and _ends_by(each, at) is None:
            missing -= each.gpus
            _tell(each, at)
    ends = [end for each in borrowed[chosen] if (end := _ends_by(each, at)) is not None]
    return chosen, max(ends, default=at)


def _ends_by(pod: SandboxPod, at: datetime) -> datetime | None:
    """Of a borrower that ends within its notice, as it is; None of one that has to be told."""
    runs_until = None
    if pod.scheduled_at is not None and pod.run_seconds is not None:
        runs_until = pod.scheduled_at + timedelta(seconds=pod.run_seconds)
    ends = [each for each in (pod.gone_at, runs_until) if each is not None]
    last = at + (pod.namespace.notice or timedelta())
    return end if ends and (end := min(ends)) <= last else None


def _tell(pod: SandboxPod, at: datetime) -> None:
    pod.gone_at = at + (pod.namespace.notice or timedelta())
    pod.save(update_fields=["gone_at"])
    room = SandboxNamespace.objects.get(pk=pod.namespace_id)
    room.preempted = {**room.preempted, pod.name: at.isoformat()}
    room.save(update_fields=["preempted"])
