"""Environments at a simulated site: a pod and a claim each, under the same quota as what the tenant makes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial

from django.db.models import QuerySet

from gpuaas.core import clock
from gpuaas.core.errors import NotFound, QuotaRefused
from gpuaas.core.rows import one_or_none
from gpuaas.providers.base import (
    Carry,
    Change,
    Environments,
    EnvironmentSpec,
    ObservedEnvironment,
    Run,
    StepOutcome,
    StepSpec,
    workers_words,
)
from gpuaas.providers.base.steps import DONE
from gpuaas.providers.sandbox import homes, inside, rooms, shell
from gpuaas.providers.sandbox.claims import claim_admit, claim_end
from gpuaas.providers.sandbox.models import SandboxNamespace, SandboxPod, SandboxSite
from gpuaas.providers.sandbox.pods import pod_admit, pods_end
from gpuaas.providers.sandbox.simulation import advance

Do = Callable[[SandboxSite, SandboxNamespace, EnvironmentSpec], StepOutcome]
HOME, START = StepSpec("home", "Create the home volume"), StepSpec("start", "Start the container")
READY, STOP = StepSpec("ready", "Wait until it answers"), StepSpec("stop", "End what runs of it")
REMOVE = StepSpec("remove", "Delete its home")
STEPS = {
    Change.CREATE: (HOME, START, READY),
    Change.SUSPEND: (STOP,),
    Change.RESUME: (STOP, HOME, START, READY),
    Change.DELETE: (STOP, REMOVE),
}


class SandboxEnvironments(inside.Inside[EnvironmentSpec], Environments):
    noun, changes = "environment", STEPS

    def deeds(self) -> Mapping[StepSpec, Do]:
        return {HOME: _home, START: _start, READY: _ready, STOP: _stop, REMOVE: _remove}

    def observe(self, spec: EnvironmentSpec) -> ObservedEnvironment:
        with self.place("observe", spec) as (site, room):
            pod = _pod(room, spec)
            told = room.preempted.get(spec.name) if room is not None else None
            preempted_at = datetime.fromisoformat(told) if told else None
            if pod is None:
                return ObservedEnvironment(exists=False, preempted_at=preempted_at)
            ready, there = _is_ready(site, pod), _workers(room, spec)
            running = sum(_is_ready(site, each) for each in there)
            return ObservedEnvironment(
                exists=True,
                ready=ready,
                detail=_lack(site, there, spec) if ready else pod.waiting_for or "it starts",
                node=pod.node_name,
                workers=running,
                whole=len(there) == len(spec.of_workers()),
                preempted_at=preempted_at,
            )

    def reach(self, spec: EnvironmentSpec) -> Carry:
        if spec.port is None:
            raise NotFound("it has no port")
        with self._running(spec) as (site, pod):
            use = {
                "at": (pod.scheduled_at or clock.now()).isoformat(),
                **site.faults.get("use", {}).get(spec.name, {}),
            }
        return partial(rooms.answer, spec.name, use)

    def reach_inside(self, spec: EnvironmentSpec, port: int) -> Carry:
        if port != spec.port:
            raise NotFound(f"nothing listens at port {port} of it")
        return self.reach(spec)

    def run(self, spec: EnvironmentSpec, command: Sequence[str], *, terminal: bool) -> Run:
        with self._running(spec) as (_, pod):
            node = pod.node_name
            claim = one_or_none(pod.namespace.claims.filter(name=spec.name))
        if claim is not None and homes.is_asked(command) and not terminal:
            return partial(homes.run, claim, tuple(command))
        return partial(shell.run, f"{spec.name} on {node}", tuple(command), terminal=terminal)

    @contextmanager
    def _running(self, spec: EnvironmentSpec) -> Iterator[tuple[SandboxSite, SandboxPod]]:
        with self.place("reach", spec) as (site, room):
            pod = _pod(room, spec)
            if pod is None or not _is_ready(site, pod):
                raise NotFound("it does not run, so nothing answers")
            yield site, pod

    def log(self, spec: EnvironmentSpec, *, lines: int, worker: int = 0) -> str:
        if worker:
            spec = spec.of_worker(worker)
        with self.place("log", spec) as (_, room):
            pod = _pod(room, spec)
        if pod is None or pod.scheduled_at is None:
            raise NotFound("it does not run, so it has written nothing")
        text = [
            f"{pod.scheduled_at:%Y-%m-%d %H:%M:%S} {spec.image} on {pod.node_name}",
            f"{pod.scheduled_at:%Y-%m-%d %H:%M:%S} {f'listening at port {spec.port}' if spec.port else 'running'}, home {spec.home}",
        ]
        return "\n".join(text[-lines:])


def _pod(room: SandboxNamespace | None, spec: EnvironmentSpec) -> SandboxPod | None:
    return one_or_none(room.pods.filter(name=spec.name, finished_at=None)) if room is not None else None


def _pods(room: SandboxNamespace, spec: EnvironmentSpec) -> QuerySet[SandboxPod]:
    """The main one's and its workers'."""
    return room.pods.filter(name__in=[spec.name, *(each.name for each in spec.of_workers().values())])


def _workers(room: SandboxNamespace | None, spec: EnvironmentSpec) -> list[SandboxPod]:
    if room is None or not spec.of_workers():
        return []
    return list(_pods(room, spec).exclude(name=spec.name).filter(finished_at=None, gone_at=None))


def _lack(site: SandboxSite, there: list[SandboxPod], spec: EnvironmentSpec) -> str:
    """How many of its workers run, if not all do."""
    wanted, running = len(spec.of_workers()), sum(_is_ready(site, each) for each in there)
    verb = "runs" if running == 1 else "run"
    return f"{running} of {workers_words(wanted)} {verb}" if running < wanted else ""


def _is_ready(site: SandboxSite, pod: SandboxPod) -> bool:
    start = timedelta(milliseconds=site.environment_ms)
    return pod.gone_at is None and pod.scheduled_at is not None and pod.scheduled_at + start <= clock.now()


def _home(site: SandboxSite, room: SandboxNamespace, spec: EnvironmentSpec) -> StepOutcome:
    del site
    if room.claims.filter(name=spec.name).exists():
        return StepOutcome(done=True, detail="it is there already")
    claim_admit(room, spec.name, spec.home_gib, spec.storage_class)
    return StepOutcome(done=True, detail=f"{spec.home_gib} GiB")


def _start(site: SandboxSite, room: SandboxNamespace, spec: EnvironmentSpec) -> StepOutcome:
    """The main pod or nothing; workers as far as there is room."""
    there, refused = {pod.name: pod for pod in _pods(room, spec)}, ""
    if any(pod.gone_at is not None for pod in there.values()):
        return StepOutcome(done=False, detail="the previous one is still ending")
    if spec.name not in there:
        pod_admit(site, room, _made(spec))
    for each in spec.of_workers().values():
        try:
            if each.name not in there:
                pod_admit(site, room, _made(each))
        except QuotaRefused as error:
            refused = refused or error.message
    advance(site, now=clock.now())
    return StepOutcome(done=True, detail=refused, refused=refused)


def _made(spec: EnvironmentSpec) -> SandboxPod:
    sizes = {"gpus": spec.gpus, "vcpus": spec.vcpus, "memory_gib": spec.memory_gib}
    return SandboxPod(name=spec.name, resource_name=spec.resource_name if spec.gpus else "", **sizes)


def _ready(site: SandboxSite, room: SandboxNamespace, spec: EnvironmentSpec) -> StepOutcome:
    pod = one_or_none(room.pods.filter(name=spec.name, finished_at=None, gone_at=None))
    if pod is None:
        raise NotFound("it has ended: it is started again")
    if _is_ready(site, pod):
        lack = _lack(site, _workers(room, spec), spec)
        return StepOutcome(done=True, detail="; ".join(filter(None, (f"it runs on {pod.node_name}", lack))))
    return StepOutcome(done=False, detail=pod.waiting_for or "it starts")


def _stop(site: SandboxSite, room: SandboxNamespace, spec: EnvironmentSpec) -> StepOutcome:
    pods_end(site, _pods(room, spec))
    advance(site, now=clock.now())
    if _pods(room, spec).exists():
        return StepOutcome(done=False, detail="it is ending")
    return StepOutcome(done=True, detail="nothing of it runs")


def _remove(site: SandboxSite, room: SandboxNamespace, spec: EnvironmentSpec) -> StepOutcome:
    del site
    for claim in room.claims.filter(name=spec.name):
        claim_end(claim)
    return DONE
