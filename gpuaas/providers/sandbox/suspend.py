"""What becomes of pods in a simulated namespace that is put to sleep: those that something owns come back."""

from typing import Any

from gpuaas.core import clock
from gpuaas.core.errors import QuotaRefused
from gpuaas.providers.base import StepOutcome
from gpuaas.providers.sandbox.models import SandboxNamespace, SandboxPod, SandboxSite
from gpuaas.providers.sandbox.pods import pod_admit, pods_end
from gpuaas.providers.sandbox.simulation import advance

KEPT = ("name", "owner", "resource_name", "gpus", "vcpus", "memory_gib", "run_seconds")


def workloads_scale_away(room: SandboxNamespace) -> StepOutcome:
    """Remembers what runs for an owner; again it only adds what it has not noted yet."""
    known = {each["name"] for each in room.scaled_away}
    pods = room.pods.filter(finished_at=None).exclude(owner="").exclude(name__in=known)
    room.scaled_away = [*room.scaled_away, *({key: getattr(pod, key) for key in KEPT} for pod in pods)]
    room.save(update_fields=["scaled_away"])
    return StepOutcome(done=True, detail=f"{len(room.scaled_away)} are kept for later")


def pods_stop(site: SandboxSite, room: SandboxNamespace) -> StepOutcome:
    pods_end(site, room.pods.filter(finished_at=None))
    advance(site, now=clock.now())
    if left := room.pods.filter(finished_at=None).count():
        return StepOutcome(done=False, detail=f"still ending: {left}")
    return StepOutcome(done=True, detail="nothing runs any more")


def workloads_restore(site: SandboxSite, room: SandboxNamespace) -> StepOutcome:
    """One that does not fit (the tenant has started something else meanwhile) stays away, as a Deployment's would."""
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
    return StepOutcome(done=True, detail=f"{back} are back")
