"""What the GPUs of simulated pods do: plausible figures that follow from the pod and the time alone.

A pod keeps its devices busy in waves, each device of it in its own way; one in four is hardly used at all.
"""

import math
import uuid
from collections.abc import Iterator
from datetime import datetime

from gpuaas.core import clock
from gpuaas.providers.base import MPI, DeviceReading, EnvironmentCapability, JobCapability, MetricsCapability
from gpuaas.providers.sandbox.dials import call
from gpuaas.providers.sandbox.driver import SandboxDriver
from gpuaas.providers.sandbox.environments import SandboxEnvironments
from gpuaas.providers.sandbox.fitness import SLICES
from gpuaas.providers.sandbox.jobs import SandboxJobs
from gpuaas.providers.sandbox.models import SandboxNode, SandboxPod

WAVE_SECONDS = 5400
IDLE_WATTS, BUSY_WATTS = 70, 600
DEVICES = uuid.UUID("6f1d5c1e-62c5-4b7f-9a53-0b6a2c6f8a11")  # of their ids


class SandboxPodsDriver(SandboxDriver, MetricsCapability, EnvironmentCapability, JobCapability):
    """A site of pods, whose exporter tells which pod has which device; clouds of machines have none."""

    lends = True
    launchers = frozenset({MPI})

    @property
    def environments(self) -> SandboxEnvironments:
        return SandboxEnvironments(self.connection)

    @property
    def jobs(self) -> SandboxJobs:
        return SandboxJobs(self.connection)

    def device_metrics(self) -> tuple[DeviceReading, ...]:
        with call(self.connection, "health"):
            nodes = list(
                SandboxNode.objects.filter(site=self.connection.site_id, ready=True).exclude(kind={})
            )
            pods: dict[int | None, list[SandboxPod]] = {}
            live = SandboxPod.objects.filter(site=self.connection.site_id, finished_at=None, gpus__gt=0)
            for pod in live.exclude(node=None).select_related("namespace"):
                pods.setdefault(pod.node_id, []).append(pod)
            now = clock.now()
            return tuple(each for node in nodes for each in _of_node(node, pods.get(node.pk, []), now))


def _of_node(node: SandboxNode, pods: list[SandboxPod], now: datetime) -> Iterator[DeviceReading]:
    holders: list[SandboxPod | None] = [pod for pod in pods for _ in range(pod.gpus)]
    for number in range(node.capacity):
        yield _reading(node, number, holders[number] if number < len(holders) else None, now)


def _reading(node: SandboxNode, number: int, pod: SandboxPod | None, now: datetime) -> DeviceReading:
    profile = str(node.kind.get("mig_profile", ""))
    card, part = divmod(number, SLICES) if profile else (number, 0)
    memory = int(node.kind["memory_gib"]) * 1024
    share, joules = (0.0, 0.0) if pod is None else busy(pod, number, now)
    used = int(memory * (0.01 + 0.85 * min(share * 1.1, 1))) if pod else 4
    watts = IDLE_WATTS + (BUSY_WATTS - IDLE_WATTS) * share
    since = pod.scheduled_at if pod is not None else None
    seconds = (now - since).total_seconds() if since else now.timestamp()
    return DeviceReading(
        node=node.name,
        device=f"GPU-{uuid.uuid5(DEVICES, f'{node.site_id}/{node.name}/{card}')}",
        index=str(card),
        instance=str(part) if profile else "",
        profile=profile,
        product=str(node.kind["product"]),
        namespace=pod.namespace.name if pod else "",
        pod=pod.name if pod else "",
        container="main" if pod else "",
        utilization=round(share * 100, 1),
        memory_used_mib=used,
        memory_free_mib=memory - used,
        power_watts=None if profile else round(watts, 1),
        temperature=int(33 + 40 * share),
        energy_mj=None if profile else int((IDLE_WATTS * seconds + joules) * 1000),
        nvlink=None if profile else int(share * 4e10),
        xid=0,
    )


def busy(pod: SandboxPod, number: int, now: datetime) -> tuple[float, float]:
    """How busy the pod keeps that device, from 0 to 1, and the joules beyond idling that this has taken since its start."""
    seed = pod.uid.int >> (number % 16)
    mean = 0.02 if seed % 4 == 0 else 0.5 + 0.3 * (seed % 97) / 97  # with the swing at most all of it
    swing, phase = mean * 0.25, (seed % 6283) / 1000
    speed = 2 * math.pi / WAVE_SECONDS
    start, end = (pod.scheduled_at or now).timestamp(), now.timestamp()
    waves = (math.cos(start * speed + phase) - math.cos(end * speed + phase)) / speed
    joules = (BUSY_WATTS - IDLE_WATTS) * (mean * (end - start) + swing * waves)
    return mean + swing * math.sin(end * speed + phase), joules
