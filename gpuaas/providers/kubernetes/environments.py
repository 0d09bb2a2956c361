"""Environments in the namespace of a workspace: a volume, a service, a network policy, and one pod that the portal keeps; of a kind
with workers also a pod for each, and what they reach one another by (workers.py).

The pods have no controller: whether they fit is the answer to their creation, and a suspended workspace does not bring them back.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial

from gpuaas.core.errors import NotFound, Permanent, QuotaRefused
from gpuaas.providers.base import (
    Address,
    Carry,
    Change,
    Environments,
    EnvironmentSpec,
    ObservedEnvironment,
    Run,
    StepOutcome,
    StepSpec,
    Streams,
    workers_words,
)
from gpuaas.providers.base.steps import DONE
from gpuaas.providers.kubeapi import demand, ending, names, pods, programs, queues, release, spot
from gpuaas.providers.kubeapi.client import Object
from gpuaas.providers.kubeapi.forward import forward
from gpuaas.providers.kubeapi.managed_objects import NETWORK
from gpuaas.providers.kubernetes import inside, workers
from gpuaas.providers.kubernetes.workers import CONTAINER, is_ready
from gpuaas.providers.reach import is_refused

HOME, WAY = StepSpec("home", "Create the home volume"), StepSpec("network", "Admit only the portal's way in")
START, READY = StepSpec("start", "Start the container"), StepSpec("ready", "Wait until it answers")
STOP, REMOVE = StepSpec("stop", "End what runs of it"), StepSpec("remove", "Delete its home and its service")
STEPS = {
    Change.CREATE: (HOME, WAY, START, READY),
    Change.SUSPEND: (STOP,),
    Change.RESUME: (STOP, HOME, WAY, START, READY),
    Change.DELETE: (STOP, REMOVE),
}
CRASHES_MAX = 3


class KubernetesEnvironments(inside.Inside[EnvironmentSpec], Environments):
    changes = STEPS

    def deeds(self) -> Mapping[StepSpec, Callable[[EnvironmentSpec], StepOutcome]]:
        return {
            HOME: self._home,
            WAY: self._way,
            START: self._start,
            READY: self._ready,
            STOP: self._stop,
            REMOVE: self._remove,
        }

    def observe(self, spec: EnvironmentSpec) -> ObservedEnvironment:
        here = inside.is_there(self._api, spec.workspace)
        pod = self._pod(spec) if here else None
        found = workers.seen(workers.find(self._api, spec) if here else [], spec)
        preempted_at = self._preempted_at(spec, pod) if here and spec.notice_seconds else None
        if pod is None or (pod.get("status") or {}).get("phase") in demand.FINISHED:
            return ObservedEnvironment(exists=False, preempted_at=preempted_at)
        return ObservedEnvironment(
            exists=True,
            preempted_at=preempted_at,
            ready=is_ready(pod),
            detail=found.detail if is_ready(pod) else waits_for(pod, spec),
            workers=found.running,
            whole=not found.missing,
            node=pod["spec"].get("nodeName", ""),
            restarts=int(inside.container_of(pod, CONTAINER).get("restartCount") or 0),
        )

    def _preempted_at(self, spec: EnvironmentSpec, pod: Object | None) -> datetime | None:
        live = [pod] if pod is not None else []
        ended = spot.preemptions(self._api, spec.workspace.external_name, live, re.escape(spec.name))
        return max((at for at, _ in ended), default=None)

    def reach(self, spec: EnvironmentSpec) -> Address | Carry:
        if spec.port is None:
            raise NotFound("it has no port")
        if not self.connection.options.get("environments_direct"):
            return self.reach_inside(spec, spec.port)
        # of the pod, not of its service, whose address another tenant's service may get once this one is gone
        pod = self._api.get(f"{_path(spec, 'pods')}/{spec.name}")
        host = str((pod.get("status") or {}).get("podIP") or "")
        if not host or not is_ready(pod) or pod["spec"].get("hostNetwork") or is_refused(host):
            raise NotFound("its pod has no address in the cluster")
        return Address(host, spec.port)

    def reach_inside(self, spec: EnvironmentSpec, port: int) -> Carry:
        return partial(forward, self._api, f"{_path(spec, 'pods')}/{spec.name}", port)

    def run(self, spec: EnvironmentSpec, command: Sequence[str], *, terminal: bool) -> Run:
        pod = f"{_path(spec, 'pods')}/{spec.name}"

        async def running(streams: Streams) -> int:
            return await programs.run(self._api, pod, CONTAINER, command, streams, terminal=terminal)

        return running

    def log(self, spec: EnvironmentSpec, *, lines: int, worker: int = 0) -> str:
        name = spec.of_worker(worker).name if worker else spec.name
        path = f"{_path(spec, 'pods')}/{name}/log"
        return self._api.text(
            path, most=inside.LOG_BYTES, last=True, tailLines=str(lines), container=CONTAINER
        )

    def _pod(self, spec: EnvironmentSpec) -> Object | None:
        return self._api.find(f"{_path(spec, 'pods')}/{spec.name}")

    def _all(self, spec: EnvironmentSpec) -> list[Object]:
        main = self._pod(spec)
        return [*([main] if main is not None else ()), *workers.find(self._api, spec)]

    def _home(self, spec: EnvironmentSpec) -> StepOutcome:
        collection = _path(spec, "persistentvolumeclaims")
        found = self._api.find(f"{collection}/{spec.name}")
        if found is None:
            inside.create(self._api, collection, home_of(spec))
            return StepOutcome(done=True, detail=f"{spec.home_gib} GiB")
        if "deletionTimestamp" in found["metadata"]:
            return StepOutcome(done=False, detail="the previous home is still being deleted")
        return StepOutcome(done=True, detail="it is there already")

    def _way(self, spec: EnvironmentSpec) -> StepOutcome:
        for policy in (policy_of(spec), *workers.policies_of(spec)):
            self._api.apply(_path(spec, "networkpolicies", NETWORK), policy)
        for service in (*([service_of(spec)] if spec.port is not None else ()), *workers.services_of(spec)):
            inside.apply(self._api, _path(spec, "services"), service)
        return DONE

    def _start(self, spec: EnvironmentSpec) -> StepOutcome:
        """The main pod or nothing; workers as far as there is room, and those that are left out at another start."""
        queue = queues.labels_in(self._api, spec.workspace.external_name)
        there = {each["metadata"]["name"]: each for each in workers.find(self._api, spec)}
        main = pod_of(spec, chooses_users=self._chooses_users)
        kept, refused = [self._started(spec, self._pod(spec), main, queue)], ""
        for each in spec.of_workers().values():
            made = workers.pod_of(each, chooses_users=self._chooses_users)
            try:
                kept.append(self._started(spec, there.get(each.name), made, queue))
            except QuotaRefused as error:
                refused = refused or error.message
        if not all(kept):
            return StepOutcome(done=False, detail="the previous one is still ending")
        return StepOutcome(done=True, detail=refused, refused=refused)

    def _started(
        self, spec: EnvironmentSpec, pod: Object | None, made: Object, queue: Mapping[str, str]
    ) -> bool:
        """One pod, unless it is there; False while one that has ended still is."""
        if pod is None:
            made["metadata"]["labels"] |= queue
            inside.create(self._api, _path(spec, "pods"), made)
            return True
        finished = (pod.get("status") or {}).get("phase") in demand.FINISHED
        if not finished and "deletionTimestamp" not in pod["metadata"]:
            return True
        ending.end(self._api, _path(spec, "pods"), pod, seconds=0 if finished else release.GRACE_SECONDS)
        return False

    def _ready(self, spec: EnvironmentSpec) -> StepOutcome:
        pod = self._pod(spec)
        if pod is None:
            raise NotFound("it has ended: it is started again")
        if is_ready(pod):
            words = [f"it runs on {pod['spec'].get('nodeName', '')}"]
            if spec.workers is not None and spec.workers.count:
                found = workers.seen(workers.find(self._api, spec), spec)
                words.append(found.detail or f"{workers_words(found.running)} too")
            return StepOutcome(done=True, detail="; ".join(words))
        if hopeless(pod):
            raise Permanent(waits_for(pod, spec))
        return StepOutcome(done=False, detail=waits_for(pod, spec))

    def _stop(self, spec: EnvironmentSpec) -> StepOutcome:
        for pod in self._all(spec):
            ending.end(self._api, _path(spec, "pods"), pod, seconds=release.GRACE_SECONDS)
        if left := self._all(spec):
            return StepOutcome(done=False, detail=ending.in_words(left))
        return StepOutcome(done=True, detail="nothing of it runs")

    def _remove(self, spec: EnvironmentSpec) -> StepOutcome:
        services, policies = _path(spec, "services"), _path(spec, "networkpolicies", NETWORK)
        also = [(services, each) for each in workers.services_of(spec)]
        also += [(policies, each) for each in workers.policies_of(spec)]
        names_of = [f"{collection}/{each['metadata']['name']}" for collection, each in also]
        for path in (f"{services}/{spec.name}", f"{policies}/{spec.name}", *names_of):
            self._api.delete(path)
        home = f"{_path(spec, 'persistentvolumeclaims')}/{spec.name}"
        self._api.delete(home)
        if self._api.find(home) is not None:
            return StepOutcome(done=False, detail="the site is deleting its home")
        return StepOutcome(done=True, detail="nothing of it is left")


# -- what is there -------------------------------------------------------------------------------------------------


def hopeless(pod: Object) -> bool:
    found = inside.container_of(pod, CONTAINER)
    reason = inside.waiting_of(found).get("reason", "")
    crashes = reason == "CrashLoopBackOff" and int(found.get("restartCount") or 0) >= CRASHES_MAX
    return reason in inside.HOPELESS or crashes


def waits_for(pod: Object, spec: EnvironmentSpec) -> str:
    """Why it does not answer, in words."""
    if "deletionTimestamp" in pod["metadata"]:
        return "it is ending"
    found = inside.container_of(pod, CONTAINER)
    last = (found.get("lastState") or {}).get("terminated") or {}
    if last:
        how = f"{last.get('reason', 'it ended')}, exit code {last.get('exitCode')}"
        return f"its container has ended {found.get('restartCount')} times, last by {how}: read its log"
    if waiting := inside.waiting_of(found):
        return inside.waits_for(waiting, spec)
    if "running" in (found.get("state") or {}) and spec.port is not None:
        return f"it runs on {pod['spec'].get('nodeName')}, and does not answer at {spec.readiness} yet"
    return pods.consumer(pod).waiting_for or "it starts"


# -- manifests -----------------------------------------------------------------------------------------------------


def _path(spec: EnvironmentSpec, plural: str, group: str = "/api/v1") -> str:
    return inside.path(spec.workspace, plural, group)


def _object(spec: EnvironmentSpec, api: str, kind: str, body: Object) -> Object:
    return inside.object_of(spec, names.ENVIRONMENT, api, kind, body)


def home_of(spec: EnvironmentSpec) -> Object:
    size = {"requests": {"storage": f"{spec.home_gib}Gi"}}
    body: Object = {"accessModes": ["ReadWriteOnce"], "resources": size}
    if spec.storage_class:
        body["storageClassName"] = spec.storage_class
    return _object(spec, "v1", "PersistentVolumeClaim", body)


def service_of(spec: EnvironmentSpec) -> Object:
    port = {"name": "http", "port": spec.port, "targetPort": spec.port}
    return _object(spec, "v1", "Service", {"selector": workers.labels_of_main(spec), "ports": [port]})


def policy_of(spec: EnvironmentSpec) -> Object:
    """Nothing but the portal's door comes in; to the other pods of the workspace it may go."""
    door = {"namespaceSelector": {"matchLabels": {names.DOOR: "true"}}}
    way = {"from": [door], "ports": [{"protocol": "TCP", "port": spec.port}]}
    body: Object = {
        "podSelector": {"matchLabels": workers.labels_of_main(spec)},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [way] if spec.port is not None else [],
        "egress": [{"to": [{"podSelector": {}}]}],
    }
    return _object(spec, "networking.k8s.io/v1", "NetworkPolicy", body)


def pod_of(spec: EnvironmentSpec, *, chooses_users: bool = True) -> Object:
    container: Object = {"name": CONTAINER}
    if spec.port is not None:
        container["ports"] = [{"name": "http", "containerPort": spec.port}]
        answers = {"path": spec.readiness, "port": spec.port}
        container["readinessProbe"] = {"httpGet": answers, "periodSeconds": 2}
    claims = {"home": (spec.name, spec.home)}
    body = inside.pod_spec(spec, container, restart="Always", claims=claims, chooses_users=chooses_users)
    return workers.main(spec, _object(spec, "v1", "Pod", body))
