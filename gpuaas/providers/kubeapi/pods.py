"""Translates pods into consumers: what they hold, from when to when, and why they wait."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from gpuaas.core.clock import whole_second
from gpuaas.providers.base import ObservedConsumer
from gpuaas.providers.kubeapi import bounds, training
from gpuaas.providers.kubeapi.client import Object
from gpuaas.providers.kubeapi.demand import FINISHED, NO_ALIASES, devices

GUARDED = "ValidatingAdmissionPolicy"  # begins what the API server answers where a guard refuses
LONGEST_GRACE = 2**63 // 10**9  # seconds that Kubernetes can add to a time; it counts nanoseconds
_INSUFFICIENT = re.compile(r"(\d+) Insufficient ([\w./-]+)")
_TAINTED = re.compile(r"(\d+) node\(s\) had untolerated taint")
_UNMATCHED = re.compile(r"(\d+) node\(s\) didn't match Pod's node affinity/selector")


@dataclass(frozen=True)
class Fixed:
    """The immutable facts of a pod, parsed once although a pod is reported many times."""

    gpus: Mapping[str, int]
    created_at: datetime
    owner: str
    uses_claims: bool


def fixed(pod: Object, aliases: Mapping[str, str] = NO_ALIASES) -> Fixed:
    meta = pod["metadata"]
    return Fixed(
        gpus=devices(pod, aliases),
        created_at=_instant(meta["creationTimestamp"]),
        owner=owner(meta),
        uses_claims=bool(pod["spec"].get("resourceClaims")),
    )


def consumer(
    pod: Object, aliases: Mapping[str, str] = NO_ALIASES, known: Fixed | None = None
) -> ObservedConsumer:
    meta, status = pod["metadata"], pod.get("status") or {}
    known = known or fixed(pod, aliases)
    phase = status.get("phase", "Pending")
    started = _scheduled_at(status)
    ended = _ended_at(status)
    leaving = bool(meta.get("deletionTimestamp"))
    return ObservedConsumer(
        uid=meta["uid"],
        name=meta["name"],
        phase="Terminating" if leaving and phase not in FINISHED else phase,
        node=pod["spec"].get("nodeName", ""),
        gpus=known.gpus,
        created_at=known.created_at,
        started_at=started,
        # a pod that was never bound held nothing, whatever its end
        ended_at=max(ended, started) if started and ended else None,
        waiting_for=_waiting_for(pod) if phase == "Pending" else "",
        owner=known.owner,
        uncharged_at=_uncharged_at(meta),
        deadline_at=deadline_of(meta),
    )


def owner(meta: Object) -> str:
    """Its controller; a ReplicaSet named with its template's hash counts as its Deployment, a Job as the JobSet that made it."""
    for each in meta.get("ownerReferences") or ():
        if each.get("controller"):
            kind, name = each["kind"], each["name"]
            if kind == "Job" and (whole := training.set_of(meta)):
                return f"JobSet/{whole}"
            template = (meta.get("labels") or {}).get("pod-template-hash")
            if kind == "ReplicaSet" and template and name.endswith(f"-{template}"):
                return f"Deployment/{name.removesuffix(f'-{template}')}"
            return f"{kind}/{name}"
    return ""


def deadline_of(meta: Object) -> datetime | None:
    """By when a pod that is being deleted ends. None where Kubernetes cannot say, because its own sum has overflowed into any year: a
    member may ask for any grace period, and the pod runs on."""
    counted = (meta.get("deletionGracePeriodSeconds") or 0) <= LONGEST_GRACE
    return _instant(meta["deletionTimestamp"]) if meta.get("deletionTimestamp") and counted else None


def _uncharged_at(meta: Object) -> datetime | None:
    """When the quota stops counting a deleted pod, even if its node never reports its end."""
    deadline = deadline_of(meta)
    return deadline and deadline + timedelta(seconds=meta.get("deletionGracePeriodSeconds") or 0)


def vanished(
    pod: Object, *, seen_at: datetime, known: Fixed | None = None, deadline: datetime | None = None
) -> ObservedConsumer:
    """A deleted pod. If no container reported its end, the pod ended no later than its deadline (`deadline`, where that was moved) or
    when we saw it gone."""
    last = consumer(pod, known=known)
    last = replace(last, deadline_at=deadline or last.deadline_at)
    if last.started_at is None or last.ended_at is not None:
        return last
    finished = _all_finished(pod)
    if finished is not None:
        return replace(last, ended_at=max(finished, last.started_at))
    end = min(whole_second(seen_at), last.deadline_at or seen_at)
    return replace(last, ended_at=max(end, last.started_at))


def holds_devices(pod: Object) -> bool:
    status = pod.get("status") or {}
    return bool(pod["spec"].get("nodeName")) and status.get("phase") not in FINISHED


def refusal_in_words(message: str) -> str:
    """Why an owner (a Job, a ReplicaSet) could not create a pod."""
    if "exceeded quota" in message:
        found = re.search(r"requested: (\S+), used: (\S+), limited: (\S+)", message)
        if found:
            asked, used, limited = (part.rstrip(",") for part in found.groups())
            words = f"the workspace's quota is used up: asked {asked}, used {used}, quota {limited}"
            remedy = bounds.remedy_of(asked.partition("=")[0])
            return f"{words}. {remedy}" if remedy else words
        return "the workspace's quota is used up"
    words = message.split("is forbidden: ", 1)[-1]
    return (words.split(" denied request: ", 1)[-1] if words.startswith(GUARDED) else words)[:300]


def _conditions(pod: Object) -> dict[str, Object]:
    return {c["type"]: c for c in (pod.get("status") or {}).get("conditions") or []}


def _scheduled_at(status: Object) -> datetime | None:
    """Not startTime or creationTimestamp: devices are reserved when the pod is bound."""
    for condition in status.get("conditions") or ():
        if condition["type"] == "PodScheduled":
            bound = condition["status"] == "True" and condition.get("lastTransitionTime")
            return _instant(condition["lastTransitionTime"]) if bound else None
    return None


def _ended_at(status: Object) -> datetime | None:
    if status.get("phase") not in FINISHED:
        return None
    finished = list(_finishes(status))
    if not finished:
        conditions = status.get("conditions") or ()
        finished = [_instant(c["lastTransitionTime"]) for c in conditions if c.get("lastTransitionTime")]
    return max(finished, default=None)


def _all_finished(pod: Object) -> datetime | None:
    """When its last container ended; None if one has not ended. The phase may lag behind."""
    status = pod.get("status") or {}
    states = [each.get("state") or {} for each in status.get("containerStatuses") or []]
    if len(states) < len(pod["spec"]["containers"]) or not all("terminated" in state for state in states):
        return None
    return max(_finishes(status), default=None)


def _finishes(status: Object) -> Iterable[datetime]:
    for kind in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        for each in status.get(kind) or []:
            ended = (each.get("state") or {}).get("terminated") or {}
            if ended.get("finishedAt"):
                yield _instant(ended["finishedAt"])


def _waiting_for(pod: Object) -> str:
    condition = _conditions(pod).get("PodScheduled") or {}
    if condition.get("status") == "False":
        return _scheduling_in_words(condition.get("message", ""))
    if pod["spec"].get("nodeName"):
        for each in (pod.get("status") or {}).get("containerStatuses") or []:
            waiting = (each.get("state") or {}).get("waiting") or {}
            if waiting.get("reason"):
                return f"{each['name']}: {waiting['reason']} {waiting.get('message', '')}".strip()[:300]
        return f"{pod['spec']['nodeName']} is starting it"
    return "the scheduler has not processed it yet"


def _scheduling_in_words(message: str) -> str:
    parts = [
        f"{count} {'node has' if count == '1' else 'nodes have'} too little {_thing(name)} free"
        for count, name in _INSUFFICIENT.findall(message)
    ]
    for pattern, reason in (
        (_UNMATCHED, "outside its pool"),
        (_TAINTED, "closed to it by a taint"),
    ):
        found = pattern.search(message)
        if found:
            parts.append(f"{found[1]} {'node is' if found[1] == '1' else 'nodes are'} {reason}")
    return "; ".join(parts) or message[:300] or "no node can take it"


def _thing(resource: str) -> str:
    return {"cpu": "CPU", "memory": "memory"}.get(resource, resource)


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text)
