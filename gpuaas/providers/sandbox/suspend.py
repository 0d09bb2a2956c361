"""Suspends and resumes the pods of a simulated namespace: those with an owner come back."""

from typing import Any

from gpuaas.core import clock
from gpuaas.core.errors import QuotaRefused
from gpuaas.providers.base import StepOutcome
from gpuaas.providers.sandbox.models import SandboxNamespace, SandboxPod, SandboxSite
from gpuaas.providers.sandbox.pods import pod_admit, pods_end
from gpuaas.providers.sandbox.simulation import advance

FIELDS = ("name", "owner", "resource_name", "gpus", "vcpus", "memory_gib", "run_seconds")


def workloads_scale_away(room: SandboxNamespace) -> StepOutcome:
    """Remember running pods with an owner; a repetition only adds further ones."""
    known = {each["name"] for each in room.scaled_away}
    pods = room.pods.filter(finished_at=None).exclude(owner="").exclude(name__in=known)
    room.scaled_away = [*room.scaled_away, *({key: getattr(pod, key) for key in FIELDS} for pod in pods)]
    room.save(update_fields=["scaled_away"])
    return StepOutcome(done=True, detail=f"{len(room.scaled_away)} are stored for later")


def pods_stop(site: SandboxSite, room: SandboxNamespace) -> StepOutcome:
    pods_end(site, room.pods.filter(finished_at=None))
    advance(site, now=clock.now())
    if left := room.pods.filter(finished_at=None).count():
        return StepOutcome(done=False, detail=f"still ending: {left}")
    return StepOutcome(done=True, detail="nothing is running any more")


def workloads_restore(site: SandboxSite, room: SandboxNamespace) -> StepOutcome:
    """A pod that no longer fits (the tenant started something else in the meantime) stays away, like a Deployment's."""
    away: list[dict[str, Any]] = room.scaled_away
    back = 0
    for each in away:
        if not room.pods.filter(name=each["name"]).exists():
            try:
                pod_admit(site, room, SandboxPod(**each))
                back += 1
            except QuotaRefused:
                continue
    room.scaled_away = []
    room.save(update_fields=["scaled_away"])
    advance(site, now=clock.now())
    return StepOutcome(done=True, detail=f"{back} restarted")
